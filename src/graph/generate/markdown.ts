import type { FlowPlan, PlannedDelivery, PlannedEdge } from "../plan/plan.js";
import { fileName } from "./names.js";
import type { GeneratedFile } from "./typescript.js";

/** A page about a flow: picture, nodes, deliveries, packets. */
export function generateDocs(plan: FlowPlan): readonly GeneratedFile[] {
  return [{ name: `${fileName(plan.id)}.md`, text: pageText(plan), yours: false }];
}

function pageText(plan: FlowPlan): string {
  const { document, nodes, edges, entries } = plan;
  const about = plan.description ?? plan.summary ?? document.description;
  const nodeRows = [...nodes.values()].map(({ id, operationId, kind, summary }) => [
    code(id),
    code(operationId),
    kind,
    cell(summary ?? ""),
  ]);
  const edgeRows = edges.map((edge) => [
    code(edge.id),
    edge.delivery.mode,
    cell(edge.packet?.name ?? ""),
    edge.when ? code(edge.when.text) : "",
    promiseOf(edge.delivery),
  ]);
  return `${[
    `# ${cell(document.title)} ${cell(document.version)}: ${code(plan.id)}`,
    ...(about === undefined ? [] : [cell(about)]),
    `\`\`\`mermaid\n${mermaid(plan)}\n\`\`\``,
    `Packets come in at ${entries.map(({ node, port }) => code(`${node}.${port}`)).join(", ") || "no node"}.`,
    "## Nodes",
    table(["node", "operation", "kind", ""], nodeRows),
    "## Deliveries",
    table(["edge", "mode", "packet", "when", "promise"], edgeRows),
  ].join("\n\n")}\n`;
}

function promiseOf({ mode, key, retry, deadLetters }: PlannedDelivery): string {
  if (mode === "direct") return "in-process; lost on a crash";
  if (mode === "ephemeral") return "queued; lost if the queue forgets";
  const tries = `up to ${retry.maxAttempts} attempts${deadLetters === undefined ? "" : `, then ${code(deadLetters)}`}`;
  return key === undefined ? `at least once; ${tries}` : `effectively once by ${code(key.text)}; ${tries}`;
}

/** Ids of ours, names of the document's in quotes: no name can break out of the picture. */
function mermaid({ nodes, edges }: FlowPlan): string {
  const ids = new Map([...nodes.keys()].map((id, i) => [id, `n${i}`]));
  const label = (text: string) =>
    text
      .replaceAll("#", "#35;")
      // In a picture, two of these begin a directive, wherever they stand.
      .replaceAll("%", "#37;")
      .replaceAll('"', "#quot;")
      .replaceAll("`", "#96;")
      .replace(/[<>]/g, (sign) => (sign === "<" ? "#lt;" : "#gt;"))
      .replace(/\s+/g, " ");
  const shape = (kind: string, text: string) =>
    kind === "router" ? `{"${text}"}` : kind === "source" || kind === "terminal" ? `(["${text}"])` : `["${text}"]`;
  const arrow = ({ delivery: { mode } }: PlannedEdge) => (mode === "direct" ? "-.->" : "-->");
  return [
    "flowchart TD",
    ...[...nodes.values()].map(({ id, kind }) => `  ${ids.get(id)}${shape(kind, `${label(id)}<br/>${kind}`)}`),
    ...edges.map(
      (edge) =>
        `  ${ids.get(edge.from.node)} ${arrow(edge)}|"${label(edge.when ? `${edge.delivery.mode}: ${edge.when.text}` : edge.delivery.mode)}"| ${ids.get(edge.to.node)}`,
    ),
  ].join("\n");
}

const cell = (text: string) =>
  text
    .trim()
    .replace(/\s+/g, " ")
    .replace(/[|<>\\`*_[\]]/g, (sign) => `\\${sign}`);
const code = (text: string) => `\`${text.replace(/\s+/g, " ").replaceAll("`", "'").replaceAll("|", "\\|")}\``;
const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
