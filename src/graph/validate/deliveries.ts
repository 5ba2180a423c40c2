import type { Findings } from "../findings/finding.js";
import { childOf } from "../load/tree.js";
import type { Linked, LinkedEdge } from "../plan/link.js";

/** Each mode needs a place to keep packets in; where the dialect has no word for it, there is a default. */
export function checkDeliveries({ edges, flow }: Linked, findings: Findings): void {
  const isFormA = flow.spot.pointer !== "";
  for (const linked of edges) checkPlace(linked, isFormA, findings);
}

function checkPlace({ edge: { delivery } }: LinkedEdge, isFormA: boolean, findings: Findings): void {
  const { mode, store, backend, topic, bus, spot } = delivery;
  if (mode === "durable" && store === undefined && isFormA)
    findings.add(
      "FLOW_NO_STORE",
      spot,
      "a durable edge does not say where packets are kept; the store of the runtime is taken",
      "add `store:`",
    );
  if (mode === "durable" && (store === "redis" || store === "memory"))
    findings.add(
      "FLOW_WEAK_STORE",
      childOf(spot, "store") ?? spot,
      `a durable edge on ${store}, which can forget what it has acknowledged`,
      "use mongo, postgres or sqlite",
    );
  if (mode === "ephemeral" && backend === undefined && isFormA)
    findings.add("FLOW_NO_BACKEND", spot, "an ephemeral edge does not say which backend; memory is taken", "add `backend:`");
  if (mode === "stream" && topic === undefined) findings.add("FLOW_NO_TOPIC", spot, "a stream needs a topic", "add `topic:`");
  if (mode === "stream" && topic !== undefined && bus === undefined && isFormA)
    findings.add("FLOW_NO_TOPIC", childOf(spot, "stream") ?? spot, "a stream needs a bus", "add `bus: kafka`, redis or nats");
}
