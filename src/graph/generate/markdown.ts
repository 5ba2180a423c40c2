import type { FlowPlan, PlannedDelivery, PlannedEdge } from "../plan/plan.js";
import type { GeneratedFile } from "./generated-file.js";
import { fileName } from "./names.js";

/** Generates a Markdown page about a flow: diagram, entry points, nodes and deliveries. */
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
    guaranteeOf(edge.delivery),
  ]);
  return `${[
    `# ${cell(document.title)} ${cell(document.version)}: ${code(plan.id)}`,
    ...(about === undefined ? [] : [cell(about)]),
    `\`\`\`mermaid\n${mermaid(plan)}\n\`\`\``,
    `Entry points: ${entries.map(({ node, port }) => code(`${node}.${port}`)).join(", ") || "none"}.`,
    "## Nodes",
    table(["node", "operation", "kind", ""], nodeRows),
    "## Deliveries",
    table(["edge", "mode", "packet", "when", "guarantee"], edgeRows),
  ].join("\n\n")}\n`;
}

function guaranteeOf({ mode, key, retry, deadLetters }: PlannedDelivery): string {
  if (mode === "direct") return "in-process; lost on a crash";
  if (mode === "ephemeral") return "queued in memory; lost on a crash";
  const tries = `up to ${retry.maxAttempts} attempts${deadLetters === undefined ? "" : `, then ${code(deadLetters)}`}`;
  return key === undefined ? `at least once; ${tries}` : `effectively once by ${code(key.text)}; ${tries}`;
}

/** Uses generated ids and quotes names from the document, so that a name cannot break the diagram's syntax. */
function mermaid({ nodes, edges }: FlowPlan): string {
  const ids = new Map([...nodes.keys()].map((id, i) => [id, `n${i}`]));
  const label = (text: string) =>
    text
      .replaceAll("#", "#35;")
      // In Mermaid, two percent signs start a directive, even within a label.
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
