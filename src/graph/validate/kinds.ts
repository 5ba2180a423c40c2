import type { Findings } from "../findings/finding.js";
import type { Linked } from "../plan/link.js";

export function checkKinds({ plan }: Linked, findings: Findings): void {
  for (const { id, kind, incoming, outgoing } of plan.nodes.values()) {
    const [into] = incoming;
    const [out] = outgoing;
    if (kind === "source" && into !== undefined)
      findings.add("FLOW_KIND_EDGES", into.place, `"${id}" is a source but has an incoming edge`, "remove the edge, or change the kind");
    if (kind === "terminal" && out !== undefined)
      findings.add("FLOW_KIND_EDGES", out.place, `"${id}" is a terminal but has an outgoing edge`, "remove the edge, or change the kind");
  }
}
