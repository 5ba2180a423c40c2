import { NodeError, type NodeInput, NodeOutput } from "onceflow/graph";

export const flow = "crashing";
export const leaseMs = 600;

/** Two nodes: a source, and a keyed effect whose dead letters are posted to a webhook. */
export function documentFor(providerUrl: string) {
  const text = `
flowdsl: "1.0"
info: { title: ${flow}, version: "1.0.0" }
nodes:
  Take: { operationId: take, kind: source }
  Charge: { operationId: charge, kind: action, x-alerts: { onDeadLetter: { webhook: "${providerUrl}alert" } } }
edges:
  - from: Take
    to: Charge
    delivery:
      mode: durable
      idempotencyKey: "{{payload.id}}-charge"
      retryPolicy: { maxAttempts: 3, backoff: fixed, initialDelay: PT0.01S }
`;
  return { text, file: "crashing.flowdsl.yaml" };
}

/** Charges, then runs `then`, and fails if the payload asks for it. */
export function chargeAt(providerUrl: string, then: () => Promise<void> | void = () => {}) {
  return async (input: NodeInput): Promise<NodeOutput> => {
    const { idempotencyKey = "", attempt, packetId } = input.context;
    const caller = `${process.pid} ${packetId} ${attempt}`;
    const headers = { "idempotency-key": idempotencyKey, "x-attempt": String(attempt), "x-caller": caller };
    await fetch(providerUrl, { method: "POST", headers }).then((response) => response.body?.cancel());
    await then();
    const fails = input.packet("in").data["fails"];
    if (fails === "once" && attempt === 1) throw new NodeError("TEMPORARY", "fails once");
    if (fails === "always") throw new NodeError("PERMANENT", "fails permanently");
    return new NodeOutput();
  };
}
