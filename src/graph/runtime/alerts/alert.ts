import type { Alert, NewPacket } from "../../../core/packets/operation.js";
import type { PacketNote, PacketRecord } from "../../../core/packets/packet.js";
import type { NodeContext, NodeInput } from "../../node/node.js";
import { defaultRetry } from "../../normalise/policy.js";
import { alertText } from "../../plan/alert-text.js";
import type { FlowPlan, PlannedNode } from "../../plan/plan.js";
import type { Failure } from "../delivery/failure.js";
import { encodePayload, noTrace } from "../delivery/payload.js";
import { noLoad } from "../flows/load.js";
import type { Route } from "../flows/route.js";
import { executionId, packetId } from "../views/ids.js";
import type { PrivateWebhooks } from "./private-address.js";
import { storeMade } from "./store-made.js";
import { post } from "./webhook.js";

/** The queue of a flow's alerts. An alert is a packet, sent in the commit that makes the dead letter. */
export const alertQueue = "onceflow.alerts";

/** What an alert needs from its sender. */
interface Numbering {
  /** The number of the next packet. */
  readonly next: () => number;
  readonly valueBytesMax: number;
}

type Subject = Pick<PacketRecord, "no" | "execution" | "attempt"> & { readonly data: unknown };
type Reason = Pick<Failure, "code" | "message">;

/** The alert for a dead letter, as `x-alerts.onDeadLetter` of its node says; empty if the node has none. */
export function alertFor(numbering: Numbering, route: Route, packet: Subject, reason: Reason): readonly NewPacket[] {
  const alert = makeAlert(numbering, route, packet, reason);
  const standalone = { execution: null, key: null, lane: null, join: null, letter: null };
  return alert === undefined ? [] : [{ ...alert, flow: route.flow.id, delayMs: 0, claim: false, ...standalone }];
}

/** The alert of a dead letter that the store may make by itself. It is stored with the packet; the store notes the reason later. */
export function alertAhead(numbering: Numbering, route: Route, packet: Subject): Alert | undefined {
  return makeAlert(numbering, route, packet, undefined);
}

function makeAlert({ next, valueBytesMax }: Numbering, route: Route, packet: Subject, reason: Reason | undefined): Alert | undefined {
  const { alert, id } = route.node.plan;
  if (alert === undefined || route.letter === null) return undefined;
  const said = {
    flowId: route.flow.id,
    nodeId: id,
    edge: route.queue,
    deadLetter: packetId(packet.no),
    executionId: packet.execution === null ? null : executionId(packet.execution),
    attempts: packet.attempt,
  };
  const body = {
    type: "onceflow.deadLetter",
    flow: route.flow.id,
    node: id,
    edge: route.queue,
    deadLetter: packetId(packet.no),
    queue: route.letter.name,
    executionId: packet.execution === null ? null : executionId(packet.execution),
    attempts: packet.attempt,
    ...(reason === undefined ? {} : { error: { code: reason.code, message: reason.message } }),
    ...(alert.message === undefined ? {} : { message: alertText(alert.message, { ...said, packet: packet.data }) }),
  };
  const { text: payload } = encodePayload({ webhook: alert.webhook, body }, noTrace, valueBytesMax);
  return { no: next(), queue: alertQueue, payload };
}

/** The route of a flow's alerts: retried with backoff for some hours, then dropped. */
export function alertRoute(flow: FlowPlan, privateWebhooks: PrivateWebhooks): readonly [string, Route] {
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
  const work = (input: NodeInput) => postAlert(input, privateWebhooks);
  const node = { plan, work, outgoing: [], ports: [], optional: [], load: noLoad(plan.execution.concurrency) };
  const unset = {
    packet: undefined,
    letter: null,
    when: undefined,
    entry: false,
    keep: false,
    load: noLoad(undefined),
    reaches: undefined,
  };
  return [alertQueue, { flow, queue: alertQueue, node, port: "in", delivery, ...unset }];
}

/** The context of a stage, with the member that only this node reads. */
interface NotedContext extends NodeContext {
  readonly note?: PacketNote | null;
}

async function postAlert(input: NodeInput, privateWebhooks: PrivateWebhooks): Promise<void> {
  const packet = input.packet("in");
  const { signal, packetId: id, note = null }: NotedContext = input.context;
  const body = packet.get<{ readonly deadLetter: string; readonly error?: Reason; readonly message?: string }>("body");
  // The key names the letter and this alert: a retry has the same key, a second alert for the same letter has another one.
  const key = `alert-${body.deadLetter}-${id}`;
  const error = body.error ?? storeMade(note);
  const message = body.message === undefined ? {} : { message: alertText(body.message, { error }) };
  await post(packet.getString("webhook"), { ...body, error, ...message }, { key, signal, privateWebhooks });
}
