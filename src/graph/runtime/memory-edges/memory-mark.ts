import { withFailure } from "../../../core/packets/history.js";
import type { NewPacket } from "../../../core/packets/operation.js";
import type { FlowPlan, PlannedNode } from "../../plan/plan.js";
import { alertFor } from "../alerts/alert.js";
import type { Sent } from "../delivery/leaving.js";
import { reachOf } from "../delivery/outgoing.js";
import { encodePayload, noTrace } from "../delivery/payload.js";
import type { Sender } from "../delivery/sender.js";
import { noLoad } from "../flows/load.js";
import type { LostMark, Route } from "../flows/route.js";

/**
 * A packet of an ephemeral edge is in the memory of one process. A mark in the store stands for it: a row without the
 * payload, owned by that process from the commit that sends the packet to the commit that ends it. The execution is running
 * until then. If the process dies or stops before, another process claims the mark and reports the packet as lost.
 *
 * Marks have a flow of their own, because pausing the packet's flow must not release them from their process.
 */
const memoryFlow = "onceflow.memory";
const memoryQueue = "onceflow.marks";
export const memoryRoute = { flow: memoryFlow, queue: memoryQueue } as const;

/** A mark, and the worker number that owns it. A mark is never retried: its attempt is 1. */
export interface Mark {
  readonly no: number;
  readonly worker: number;
}

interface Marked {
  readonly flow: string;
  readonly edge: string;
  readonly letter: NonNullable<NewPacket["letter"]>;
}

const plain = { key: null, lane: null, join: null, delayMs: 0 } as const;

export function markFor({ next, valueBytesMax, deadRetentionMs }: Sender, { route }: Sent, execution: number): NewPacket {
  const { flow, queue, letter } = route;
  // A lost packet is always reported, even if its edge has no dead letters.
  const { name = `${flow.id}.dead_letters`, retentionMs = deadRetentionMs } = letter ?? {};
  const marked: Marked = { flow: flow.id, edge: queue, letter: { name, retentionMs } };
  const { text } = encodePayload({ ...marked }, noTrace, valueBytesMax);
  return { ...plain, no: next(), ...memoryRoute, execution, payload: text, letter: null, claim: true, ...reachOf(route, queue) };
}

/** The code of a dead letter whose payload is gone. */
export const lostCode = "LOST";

const lost = {
  code: lostCode,
  message: "its process died or stopped while the packet was in its memory; it is unknown whether its node was called",
  final: true,
};

/** A claim has found the mark, so its process no longer has the packet: a dead letter of its edge, without a payload, and its alert. */
function report(mark: LostMark, routeOf: RouteOf): readonly NewPacket[] {
  const { flow, edge, letter } = mark.data as unknown as Marked;
  const { text } = encodePayload({}, noTrace, mark.valueBytesMax);
  const failed = withFailure(null, lost, { attempt: 0, at: Date.now(), ms: 0 });
  const { execution } = mark;
  const route = routeOf(flow, edge);
  const dead: NewPacket = {
    ...{ ...plain, no: mark.next(), flow, queue: edge, execution, payload: text, letter, failed, claim: false },
    ...(route && reachOf(route, edge)),
  };
  return route === undefined ? [dead] : [dead, ...alertFor(mark, { ...route, letter }, { ...dead, attempt: 0, data: undefined }, lost)];
}

export function marksOf(marks: readonly NewPacket[], worker: number): readonly Mark[] {
  return marks.map(({ no }) => ({ no, worker }));
}

type RouteOf = (flow: string, queue: string) => Route | undefined;

/** The queue of all marks. A worker only claims marks whose process has died or stopped. */
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
  const node = { plan, work: () => {}, outgoing: [], ports: [], optional: [], load: noLoad(undefined) };
  const none = { packet: undefined, letter: null, when: undefined, entry: false, keep: false, load: noLoad(undefined), reaches: undefined };
  return { flow, queue: memoryQueue, node, port: "in", delivery, ...none, reportLost: (mark) => report(mark, routeOf) };
}
