import { closest } from "../../core/errors/closest.js";
import type { Findings } from "../findings/finding.js";
import { type External, isExternal } from "../load/external/external.js";
import { childOf, entriesOf, nameIn, plainOf, type Spot } from "../load/tree.js";
import type { Flow, Node, Written } from "../normalise/model.js";
import { snakeCase } from "../normalise/snake-case.js";
import type { PlannedNode } from "./plan.js";

/** The flows that nodes of kind subworkflow run. */
export type ChildFlows = ReadonlyMap<Node, NonNullable<PlannedNode["child"]>>;

/**
 * Resolves every `workflowRef`: `#/flows/child` or `child` in this document, `./other.flowdsl.yaml#/flows/child` in another one. The
 * fragment may be left out if the other document has one flow.
 */
export function linkChildren(flows: readonly Flow[], external: External, findings: Findings): ChildFlows {
  const children = new Map<Node, NonNullable<PlannedNode["child"]>>();
  for (const { nodes } of flows)
    for (const node of nodes) {
      const { workflowRef } = node;
      if (workflowRef === undefined) continue;
      const child = isExternal(workflowRef.text) ? elsewhere(workflowRef, external, findings) : here(workflowRef, flows, findings);
      if (child === undefined) continue;
      const other = node.settings["flow"];
      if (other !== undefined && other !== child.flow)
        findings.add("FLOW_BAD_VALUE", workflowRef.spot, "workflowRef and settings.flow name different flows", "remove settings.flow");
      children.set(node, child);
    }
  return children;
}

function here({ text, spot }: Written, flows: readonly Flow[], findings: Findings): NonNullable<PlannedNode["child"]> | undefined {
  const named = /^#\/flows\/([^/]+)$/.exec(text)?.[1];
  const flow = named === undefined ? text : nameIn(named);
  const ids = flows.map(({ id }) => id);
  if (ids.includes(flow)) return { flow };
  const near = closest(flow, ids);
  const fix =
    near !== undefined
      ? `did you mean "#/flows/${near}"?`
      : `flows of this document: ${ids.join(", ")}; for another document use "./file.flowdsl.yaml#/flows/…", or settings.flow if the runtime loads it`;
  findings.add("FLOW_BAD_REF", spot, `"${text}" is not a flow of this document`, fix);
  return undefined;
}

function elsewhere({ text, spot }: Written, external: External, findings: Findings): NonNullable<PlannedNode["child"]> | undefined {
  const target = external.find(text, spot);
  const named = /#\/flows\/([^/]+)$/.exec(text)?.[1];
  if (target === "reported") return undefined;
  const refuse = (problem: string, fix: string): undefined => {
    findings.add("FLOW_BAD_REF", spot, `"${text}" ${problem}`, fix);
    return undefined;
  };
  if ("problem" in target) return refuse(target.problem, target.fix ?? "correct the reference");
  const flows = named === undefined ? flowsOf(target.spot) : [nameIn(named)];
  const [flow, second] = flows;
  if (flow === undefined) return refuse("is not a flow document", "refer to a document with `flows:` or `nodes:`");
  if (second !== undefined) return refuse("has several flows", `name one of them: "${text.replace(/#.*$/s, "")}#/flows/${flow}"`);
  const file = external.fileOf(text, spot);
  return { flow, ...(file !== undefined && { file }) };
}

/** The ids of the flows in a document of either dialect. */
function flowsOf(document: Spot): readonly string[] {
  const flows = childOf(document, "flows");
  if (flows !== undefined) return entriesOf(flows).map(({ name }) => name);
  const info = childOf(document, "info");
  const title = info && childOf(info, "title");
  return childOf(document, "nodes") === undefined || title === undefined ? [] : [snakeCase(String(plainOf(title.tree)))];
}
