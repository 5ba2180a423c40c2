import type { PacketRecord } from "../../core/packet.js";
import type { NewPacket } from "../../core/packet-operation.js";
import type { NodeInput } from "../node/node.js";
import { NodeError } from "../node/node-error.js";
import { defaultRetry } from "../normalise-policy.js";
import type { FlowPlan, PlannedNode } from "../plan.js";
import type { Failure } from "./failure.js";
import { executionId, packetId } from "./ids.js";
import { noLoad } from "./load.js";
import type { Sender } from "./outgoing.js";
import { encodePayload, noTrace } from "./payload.js";
import type { Route } from "./routes.js";

/** The queue of a flow's alerts: packets like all others, sent in the commit that makes the dead letter. */
export const alertQueue = "onceflow.alerts";

/** `x-alerts.onDeadLetter` of the node that could not be reached. */
export function alertFor(
  { next, valueBytesMax }: Pick<Sender, "next" | "valueBytesMax">,
  route: Route,
  packet: Pick<PacketRecord, "no" | "execution" | "attempt">,
  { code, message }: Pick<Failure, "code" | "message">,
): readonly NewPacket[] {
  const { alert, id } = route.node.plan;
  if (alert === undefined || route.letter === null) return [];
  const data = {
    webhook: alert.webhook,
    body: {
      type: "onceflow.deadLetter",
      flow: route.flow.id,
      node: id,
      edge: route.queue,
      deadLetter: packetId(packet.no),
      queue: route.letter.name,
      executionId: packet.execution === null ? null : executionId(packet.execution),
      attempts: packet.attempt,
      error: { code, message },
      ...(alert.message === undefined ? {} : { message: alert.message }),
    },
  };
  const { text: payload } = encodePayload(data, noTrace, valueBytesMax);
  const nobody = { execution: null, key: null, lane: null, join: null, letter: null };
  return [{ no: next(), flow: route.flow.id, queue: alertQueue, payload, delayMs: 0, claim: false, ...nobody }];
}

/** By the same means as any other packet; what nobody answers in a day is dropped. */
export function alertRoute(flow: FlowPlan): readonly [string, Route] {
  const plan: PlannedNode = {
    id: alertQueue,
    operationId: "post_alert",
    kind: "action",
    inputs: [],
    outputs: [],
    execution: { concurrency: 4 },
    settings: {},
    extensions: {},
    incoming: [],
    outgoing: [],
    place: flow.place,
  };
  const retry = { ...defaultRetry, maxAttempts: 12, maxDelayMs: 3_600_000, jitter: true };
  const delivery = { mode: "durable", retry, priority: 0, ordering: "none", batch: { size: 1, waitMs: 0 }, checkpointEvery: 1 } as const;
  const node = { plan, work: postAlert, outgoing: [], ports: [], load: noLoad(plan.execution.concurrency) };
  const nothing = { packet: undefined, letter: null, when: undefined, entry: false, keep: false, load: noLoad(undefined) };
  return [alertQueue, { flow, queue: alertQueue, node, port: "in", delivery, ...nothing }];
}

const answerMsMax = 10_000;

/** Posts it. The dead letter's id is the key, so that a receiver can tell a second delivery. */
async function postAlert(input: NodeInput): Promise<void> {
  const packet = input.packet("in");
  const body = packet.get<{ readonly deadLetter: string }>("body");
  const response = await fetch(packet.getString("webhook"), {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": `"alert-${body.deadLetter}"` },
    body: JSON.stringify(body),
    redirect: "error",
    signal: AbortSignal.any([input.context.signal, AbortSignal.timeout(answerMsMax)]),
  });
  await response.body?.cancel();
  if (!response.ok) throw new NodeError("TEMPORARY", `the webhook answered ${response.status}`);
}
