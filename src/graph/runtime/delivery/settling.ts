import type { NewDeliveryEntry } from "../../../core/packets/delivery-entry.js";
import { withFailure } from "../../../core/packets/history.js";
import type { NewPacket, PacketOutcome } from "../../../core/packets/operation.js";
import { DeliverLater } from "../../node/deliver-later.js";
import { alertFor } from "../alerts/alert.js";
import type { Delivery } from "./delivery.js";
import { type Failure, failureOf, judge } from "./failure.js";
import type { Leaving, Sent } from "./leaving.js";
import { pack } from "./pack.js";
import type { Sender } from "./sender.js";

/** How a delivery ends, and what is sent in the same commit. */
export interface Settling {
  readonly to: PacketOutcome;
  readonly packets: readonly NewPacket[];
  readonly outputs: readonly string[];
  /** Packets for edges in memory: they go on there after the commit. */
  readonly ephemeral: readonly Sent[];
  /** The marks of those packets in the store, in the same order. */
  readonly marks?: readonly NewPacket[];
  readonly failure: Failure | undefined;
  /** Undefined: the flow keeps no history. */
  readonly entry?: NewDeliveryEntry;
}

export const none: readonly never[] = [];

/** The delivery was not started, because the worker stops. The packet goes back to its queue, and no attempt is counted. */
export function settleReleased({ batch }: Delivery): Settling {
  batch?.leave();
  return { to: { kind: "release" }, packets: none, outputs: none, ephemeral: none, failure: undefined };
}

/** The node asks for the packet again later. The packet goes back to its queue, and no attempt is counted. */
function settlePostponed({ delayMs }: DeliverLater): Settling {
  return { to: { kind: "release", delayMs }, packets: none, outputs: none, ephemeral: none, failure: undefined };
}

const done: PacketOutcome = { kind: "done", keep: false, note: null };
const doneAndKept: PacketOutcome = { kind: "done", keep: true, note: null };

/** The packet ends without a call of its node, and these packets are sent in its place. */
export function settleWithoutCall(note: "skipped" | "restarted" | null, packets: readonly NewPacket[]): Settling {
  const to = note === null ? done : ({ kind: "done", keep: false, note } as const);
  return { to, packets, outputs: none, ephemeral: none, failure: undefined };
}

/** The nodes have returned: encodes what they sent, and reserves slots for it. Throws if the store cannot hold it. */
export function settleDone({ route, packet, trace }: Delivery, leaving: Leaving, sender: Sender): Settling {
  const { packets, marks, outputs } = pack(sender, leaving, { execution: packet.execution, trace });
  const to = leaving.unrouted.length === 0 ? (route.keep ? doneAndKept : done) : unrouted(route.keep, leaving.unrouted);
  return { to, packets, outputs, ephemeral: leaving.ephemeral, marks, failure: undefined };
}

function unrouted(keep: boolean, ports: readonly string[]): PacketOutcome {
  return { kind: "done", keep, note: "unrouted", about: [...new Set(ports)].join(", ").slice(0, 1000) };
}

export interface FailurePorts {
  readonly sender: Sender;
  /** From 0 to 1: jitter of retries. */
  readonly random: () => number;
}

/** The nodes have thrown: the packet is postponed, retried after a delay, or becomes a dead letter. */
export function settleThrown(delivery: Delivery, error: unknown, ports: FailurePorts): Settling {
  return error instanceof DeliverLater ? settlePostponed(error) : settleFailed(delivery, failureOf(error), ports);
}

/** The delivery has failed: another attempt after a delay, or a dead letter. */
export function settleFailed(delivery: Delivery, failure: Failure, { sender, random }: FailurePorts): Settling {
  const { route, packet } = delivery;
  const judged = judge(failure, route.delivery.retry, delivery.failures, random);
  const ms = Math.round(delivery.ms);
  const history = withFailure(packet.history, failure, { attempt: packet.attempt, at: Date.now() - ms, ms });
  if (judged.kind === "dead") return settleDead(delivery, failure, history, sender);
  return { to: { kind: "retry", delayMs: judged.delayMs, history }, packets: none, outputs: none, ephemeral: none, failure };
}

/** A dead letter; its alert is sent in the same commit. */
export function settleDead(delivery: Delivery, failure: Failure, history: string, sender: Sender): Settling {
  const { route, packet, succeededLate } = delivery;
  const needsData = route.node.plan.alert?.message !== undefined;
  // Not a spread: a suspect's packet inherits members from another object (core/packets/worker/suspects.ts).
  const { no, execution, attempt } = packet;
  const packets = alertFor(sender, route, { no, execution, attempt, data: needsData ? dataOf(delivery) : undefined }, failure);
  const note = succeededLate ? ({ note: "lateSuccess" } as const) : undefined;
  return { to: { kind: "dead", history, ...note }, packets, outputs: none, ephemeral: none, failure };
}

/** Undefined if this process has no key to decrypt the packet, which becomes a dead letter nevertheless. */
function dataOf(delivery: Delivery): unknown {
  try {
    return delivery.payload.data;
  } catch {
    return undefined;
  }
}
