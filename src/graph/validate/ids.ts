import type { Findings } from "../finding.js";
import type { Linked } from "../link.js";
import { childOf } from "../tree.js";

/** Flows are told apart by their ids, handlers by operationIds, dead letters by both. */
export function checkIds(flows: readonly Linked[], findings: Findings): void {
  const flowIds = new Set<string>();
  for (const { flow } of flows) {
    if (flowIds.has(flow.id))
      findings.add("FLOW_DUPLICATE_ID", flow.spot, `two flows have the id "${flow.id}"`, "change the title, or the id under `flows:`");
    flowIds.add(flow.id);
    const users = new Map<string, string>();
    for (const { id, operationId, spot } of flow.nodes) {
      const other = users.get(operationId);
      if (other !== undefined)
        findings.add(
          "FLOW_DUPLICATE_ID",
          childOf(spot, "operationId") ?? spot,
          `operationId "${operationId}" is that of node "${other}", too`,
          "give each node one of its own",
        );
      users.set(operationId, id);
    }
  }
}
