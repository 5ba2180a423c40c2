import type { NewPacket } from "../../../core/packets/operation.js";
import type { FlowPlan, PlannedNode } from "../../plan/plan.js";
import { alertFor } from "../alerts/alert.js";
import type { Delivery, Settling } from "../delivery/delivery.js";
import type { Sender } from "../delivery/outgoing.js";
import { encodePayload, noTrace } from "../delivery/payload.js";
import type { Sent } from "../delivery/stage.js";
import type { Route } from "../flows/routes.js";
import { withFailure } from "../views/history.js";
import { noLoad } from "../worker/load.js";

/**
 * A packet of an ephemeral edge is in the memory of one process. A mark in the store stands for it: a row without its
 * payload, which that process owns from the commit that sends the packet to the commit that ends it. So its execution is
 * running until then; and if the process dies or stops before, another process finds the mark and reports the packet as lost.
 *
 * Marks have a flow of their own: a flow that is paused must not take them from their process.
 */
const memoryFlow = "onceflow.memory";
const memoryQueue = "onceflow.marks";
export const memoryRoute = { flow: memoryFlow, queue: memoryQueue } as const;

/** The mark of a packet in memory, as its process settles it. A mark is never retried: its attempt is 1. */
export interface Mark {
  readonly no: number;
  readonly worker: number;
}

interface Marked {
  readonly flow: string;
  readonly edge: string;
  readonly letter: NonNullable<NewPacket["letter"]>;
}

const nothing: readonly never[] = [];
const plain = { key: null, lane: null, join: null, delayMs: 0 } as const;

export function markFor({ next, valueBytesMax, deadRetentionMs }: Sender, { route }: Sent, execution: number): NewPacket {
  const { flow, queue, letter } = route;
  // A lost packet is always reported, also where the edge wants no dead letters.
  const { name = `${flow.id}.dead_letters`, retentionMs = deadRetentionMs } = letter ?? {};
  const marked: Marked = { flow: flow.id, edge: queue, letter: { name, retentionMs } };
  const { text } = encodePayload({ ...marked }, noTrace, valueBytesMax);
  return { ...plain, no: next(), ...memoryRoute, execution, payload: text, letter: null, claim: true };
}

/** The code of a dead letter whose payload is gone. */
export const lostCode = "LOST";

const lost = {
  code: lostCode,
  message: "its process died or stopped while the packet was in its memory; whether its node was called is not known",
  final: true,
};

/** The mark was found: its process does not have it any more. It becomes a dead letter of its edge, without a payload. */
function report({ host: { sender }, packet, payload }: Delivery, routeOf: RouteOf): Settling {
  const { flow, edge, letter } = payload.data as unknown as Marked;
  const { text } = encodePayload({}, noTrace, sender.valueBytesMax);
  const failed = withFailure(null, lost, { attempt: 0, at: Date.now(), ms: 0 });
  const no = sender.next();
  const dead: NewPacket = { ...plain, no, flow, queue: edge, execution: packet.execution, payload: text, letter, failed, claim: false };
  const route = routeOf(flow, edge);
  const alerts = route === undefined ? nothing : alertFor(sender, { ...route, letter }, { ...dead, attempt: 0, data: undefined }, lost);
  const to = { kind: "done", keep: false, note: null } as const;
  return { to, packets: [dead, ...alerts], outputs: nothing, ephemeral: nothing, failure: undefined };
}

type RouteOf = (flow: string, queue: string) => Route | undefined;

/** Where marks are found that their process has left behind. */
export function lostRoute(routeOf: RouteOf, { place, document }: Pick<FlowPlan, "place" | "document">): Route {
  const plan: PlannedNode = {
    id: memoryQueue,
    operationId: "report_lost",
    kind: "action",
    inputs: [],
    outputs: [],
    execution: {},
    settings: {},
    extensions: {},
    incoming: [],
    outgoing: [],
    place,
  };
  const flow: FlowPlan = {
    id: memoryFlow,
    document,
    tags: [],
    nodes: new Map(),
    edges: [],
    entries: [],
    order: [],
    unsupported: [],
    place,
  };
  const retry = { maxAttempts: 1, backoff: "fixed", initialDelayMs: 0, maxDelayMs: 0, jitter: false } as const;
  const delivery = { mode: "durable", retry, priority: 5, ordering: "none", batch: { size: 1, waitMs: 0 }, checkpointEvery: 1 } as const;
  const node = { plan, work: () => {}, outgoing: [], ports: [], load: noLoad(undefined) };
  const none = { packet: undefined, letter: null, when: undefined, entry: false, keep: false, load: noLoad(undefined) };
  return { flow, queue: memoryQueue, node, port: "in", delivery, ...none, report: (lostMark) => report(lostMark, routeOf) };
}
