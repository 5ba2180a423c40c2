import type { Findings } from "../findings/finding.js";
import { childOf } from "../load/tree.js";
import type { Linked, LinkedEdge } from "../plan/link.js";

/** Reports deliveries that do not name their store, backend, topic or bus. Form B has no fields for some of them, and uses defaults. */
export function checkDeliveries({ edges, flow }: Linked, findings: Findings): void {
  const isFormA = flow.spot.pointer !== "";
  for (const linked of edges) checkDelivery(linked, isFormA, findings);
}

function checkDelivery({ edge: { delivery } }: LinkedEdge, isFormA: boolean, findings: Findings): void {
  const { mode, store, backend, topic, bus, spot } = delivery;
  if (mode === "durable" && store === undefined && isFormA)
    findings.add("FLOW_NO_STORE", spot, "a durable edge names no store; the store of the runtime is used", "add `store:`");
  if (mode === "durable" && (store === "redis" || store === "memory"))
    findings.add(
      "FLOW_WEAK_STORE",
      childOf(spot, "store") ?? spot,
      `a durable edge uses ${store}, which can lose packets that it has acknowledged`,
      "use mongo, postgres or sqlite",
    );
  if (mode === "ephemeral" && backend === undefined && isFormA)
    findings.add("FLOW_NO_BACKEND", spot, "an ephemeral edge names no backend; memory is used", "add `backend:`");
  if (mode === "stream" && topic === undefined) findings.add("FLOW_NO_TOPIC", spot, "a stream requires a topic", "add `topic:`");
  if (mode === "stream" && topic !== undefined && bus === undefined && isFormA)
    findings.add("FLOW_NO_TOPIC", childOf(spot, "stream") ?? spot, "a stream requires a bus", "add `bus: kafka`, redis or nats");
}
