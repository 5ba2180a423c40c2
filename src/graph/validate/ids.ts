import { printable } from "../../core/errors/printable.js";
import type { Findings } from "../findings/finding.js";
import { childOf, type Spot } from "../load/tree.js";
import { isReadyMade } from "../node/ready-made-names.js";
import type { Linked } from "../plan/link.js";

const charsMax = 200;

/** Flows are identified by their ids, handlers by operationIds, dead letters by both. */
export function checkIds(flows: readonly Linked[], findings: Findings): void {
  const flowIds = new Set<string>();
  for (const { flow } of flows) {
    if (flowIds.has(flow.id))
      findings.add("FLOW_DUPLICATE_ID", flow.spot, `two flows have the id "${flow.id}"`, "change the title, or the id under `flows:`");
    flowIds.add(flow.id);
    checkName("flow", flow.id, flow.spot, findings);
    const users = new Map<string, string>();
    for (const { id, operationId, inputs, outputs, spot } of flow.nodes) {
      checkName("node", id, spot, findings);
      for (const port of [...inputs, ...outputs]) checkName("port", port.name, port.spot, findings);
      const other = users.get(operationId);
      if (other !== undefined && !isReadyMade(operationId))
        findings.add(
          "FLOW_DUPLICATE_ID",
          childOf(spot, "operationId") ?? spot,
          `operationId "${operationId}" is also used by node "${other}"`,
          "give each node a different operationId",
        );
      users.set(operationId, id);
    }
  }
}

/** Names become part of store keys, logs and URLs. */
function checkName(what: string, name: string, spot: Spot, findings: Findings): void {
  if (name !== "" && name.length <= charsMax && printable(name) === name) return;
  findings.add(
    "FLOW_BAD_VALUE",
    spot,
    `the name of a ${what} must have 1 to ${charsMax} characters and no control characters`,
    "choose a shorter or simpler name",
  );
}
