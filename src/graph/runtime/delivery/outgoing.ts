import { type HistoryEntry, historyOf, withFailure } from "../../../core/packets/history.js";
import type { DeadLetter, NewPacket, NewPart } from "../../../core/packets/operation.js";
import { canonicalJson, sha256 } from "../../../core/values/canonical.js";
import { alertAhead, alertFor } from "../alerts/alert.js";
import type { Route } from "../flows/route.js";
import { keyOf, problemOf } from "./check.js";
import type { Sent } from "./leaving.js";
import { type Data, encodePayload, type Payload } from "./payload.js";
import type { Origin, Sender } from "./sender.js";

interface Outgoing {
  readonly packet: { -readonly [Name in keyof NewPacket]: NewPacket[Name] };
  /** A copy for the node that receives it: the sender may change its own object later. */
  readonly payload: Payload;
}

/**
 * Checks and encodes packets, then reserves slots for them, so that a packet that cannot be encoded throws before any slot
 * is reserved. A packet that does not pass its check becomes a dead letter, followed by its alert.
 */
export function packetsFor(sender: Sender, sent: readonly Sent[], origin: Origin): NewPacket[] {
  const made = sent.map((each) => packetFor(sender, each, origin));
  const packets: NewPacket[] = made.map(({ packet }) => packet);
  for (let i = 0; i < sent.length; i += 1) {
    const { route } = sent[i] as Sent;
    const { packet, payload } = made[i] as Outgoing;
    if (packet.failed === undefined) packet.claim = sender.reserve(route, packet.no, payload);
    else
      packets.push(
        ...alertFor(sender, route, { ...packet, attempt: 0, data: payload.data }, historyOf(packet.failed).at(-1) as HistoryEntry),
      );
  }
  return packets;
}

/** One packet for the store: checked, with its key, its lane and its port in a join. `failed`: why it cannot be delivered. */
export function packetFor(sender: Sender, { route, data, problem }: Sent, { execution, trace }: Origin): Outgoing {
  const { delivery } = route;
  const key = keyOf(route, data);
  const lane = delivery.ordering === "none" ? noLane : laneOf(route, data);
  const wrong = problem ?? problemOf(route, data) ?? (key.ok ? undefined : key.why) ?? (lane.ok ? undefined : lane.why);
  const { text, payload } = encodePayload(data, trace, sender.valueBytesMax);
  const no = sender.next();
  const join = execution === null ? null : joinOf(route, data, sender);
  const named = key.ok && key.value !== undefined ? recordKey(route, key.value, data, sender) : null;
  const packet: Outgoing["packet"] = {
    no,
    flow: route.flow.id,
    queue: route.queue,
    execution,
    payload: text,
    key: named,
    lane: lane.ok && lane.value !== null ? { name: lane.value, deadBlocks: false } : null,
    join,
    letter: join !== null || named?.onMismatch === "deadLetter" ? alertingLetter(sender, route, { no, execution, data }) : route.letter,
    delayMs: 0,
    claim: false,
  };
  // Not a spread, which would copy the packet: few flows have joins.
  if (execution !== null && route.reaches !== undefined) packet.reach = route.reaches.of(route.queue);
  return { packet: wrong === undefined ? packet : { ...packet, lane: null, join: null, failed: validation(wrong) }, payload };
}

/** The store may make a dead letter of this packet by itself, so the packet carries its alert. */
function alertingLetter(
  sender: Sender,
  route: Route,
  packet: Pick<NewPacket, "no" | "execution"> & { readonly data: Data },
): DeadLetter | null {
  const alert = alertAhead(sender, route, { ...packet, attempt: 0 });
  return route.letter && alert ? { ...route.letter, alert } : route.letter;
}

function validation(message: string): string {
  return withFailure(null, { code: "VALIDATION", message, final: true }, { attempt: 0, at: Date.now(), ms: 0 });
}

/** The ports of joins that a packet of this queue may fill; empty if the flow has no joins. */
export function reachOf({ reaches }: Pick<Route, "reaches">, queue: string): Pick<NewPacket, "reach"> {
  return reaches === undefined ? noReach : { reach: reaches.of(queue) };
}

const noReach = {};

function joinOf({ node, port, entry, joinFor }: Route, data: Data, { joinWaitMs }: Sender): NewPart | null {
  if (joinFor !== undefined) return joinFor(data, joinWaitMs);
  const { ports, optional, plan } = node;
  if (ports.length < 2 || entry) return null;
  return { node: plan.id, port, ports, ...(optional.length > 0 && { optional }), waitMs: joinWaitMs };
}

function recordKey({ flow, delivery }: Route, key: string, data: Data, { onMismatch }: Sender) {
  const retentionMs = delivery.key?.retentionMs ?? null;
  return { scope: keyScope(flow.id), key, fingerprint: fingerprintOf(data), retentionMs, onMismatch };
}

/** The ledger scope of a flow's idempotency keys. All edges of a flow share it: the same key on two edges is one operation. */
export function keyScope(flowId: string): string {
  return `${flowId}.idempotency_keys`;
}

/** Null if the data is not JSON: it has no canonical hash, and a packet with the same key counts as the same packet. */
export function fingerprintOf(data: Data): string | null {
  try {
    return sha256(canonicalJson(data, "packet"));
  } catch {
    return null;
  }
}

type Lane = { readonly ok: true; readonly value: string | null } | { readonly ok: false; readonly why: string };

const noLane: Lane = { ok: true, value: null };

/** `strict`: one lane for the whole edge. `perKey`: a lane per partition key, else per idempotency key. */
function laneOf(route: Route, data: Data): Lane {
  const { ordering, partitionKey } = route.delivery;
  if (ordering === "strict") return { ok: true, value: "" };
  if (partitionKey !== undefined) {
    const made = partitionKey.make({ payload: data, operationId: route.node.plan.operationId, flowId: route.flow.id });
    return made.ok ? made : { ok: false, why: `partitionKey ${partitionKey.text}: ${made.why}` };
  }
  const key = keyOf(route, data);
  return key.ok ? { ok: true, value: key.value ?? "" } : key;
}
