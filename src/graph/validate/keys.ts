import type { Findings } from "../findings/finding.js";
import { childOf } from "../load/tree.js";
import type { NodeKind } from "../normalise/model.js";
import type { Linked } from "../plan/link.js";

const sideEffects: readonly NodeKind[] = ["action", "llm", "publish", "integration"];

/** Durable delivery is at least once; only a key makes its effect effectively once. */
export function checkKeys({ edges }: Linked, findings: Findings): void {
  for (const { edge, ends, planned } of edges) {
    const { node } = ends.to;
    const ttl = childOf(edge.delivery.spot, "idempotencyTtl") ?? childOf(edge.delivery.spot, "idempotencyTtlMs");
    if (ttl !== undefined && edge.delivery.key === undefined && node.idempotency === undefined)
      findings.add("FLOW_FIELD_NOT_USED", ttl, "the edge has no key to remember", "add `idempotencyKey:`, or remove it");
    const hasKey = planned.delivery.key !== undefined || edge.delivery.key !== undefined || node.idempotency !== undefined;
    if (edge.delivery.mode !== "durable" || hasKey || !sideEffects.includes(node.kind)) continue;
    findings.add(
      "FLOW_NO_KEY",
      edge.delivery.spot,
      `after a crash a packet can be delivered to "${node.id}" again, and its effect may happen twice`,
      `add \`idempotencyKey: "{{payload.id}}-${node.operationId}"\``,
    );
  }
}
