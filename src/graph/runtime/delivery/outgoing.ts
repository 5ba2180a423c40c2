import type { DeadLetter, NewPacket, NewPart } from "../../../core/packets/operation.js";
import { canonicalJson, sha256 } from "../../../core/values/canonical.js";
import { alertAhead, alertFor } from "../alerts/alert.js";
import type { Route } from "../flows/routes.js";
import { type HistoryEntry, historyOf, withFailure } from "../views/history.js";
import { type Data, encodePayload, type Payload, type Trace } from "./payload.js";
import { keyOf, problemOf, type Sent } from "./stage.js";

/** What all packets of a process have from their sender. */
export interface Sender {
  readonly valueBytesMax: number;
  readonly onMismatch: "acknowledge" | "deadLetter";
  readonly joinWaitMs: number;
  /** How long dead letters are kept. Null: without end. */
  readonly deadRetentionMs: number | null;
  /** The number of the next packet. */
  readonly next: () => number;
  /** True: this process takes the packet in the commit that sends it, and has kept room for it, and what it brings. */
  reserve(route: Route, no: number, payload: Payload): boolean;
  /** How this packet is placed is told of this route: none of the flow's own has its queue. */
  told(route: Route, no: number): void;
}

/** What a packet is part of. */
export interface Origin {
  readonly execution: number | null;
  readonly trace: Trace;
}

interface Outgoing {
  readonly packet: { -readonly [Name in keyof NewPacket]: NewPacket[Name] };
  /** As its node will have it: the sender's own may be changed by then. */
  readonly payload: Payload;
}

/** Room is kept when all of them could be made: what throws on the way has kept none. */
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

/** A packet on its way: checked, with its key, its lane, and its place in a join. One that can't be delivered says why. */
export function packetFor(sender: Sender, { route, data, problem }: Sent, { execution, trace }: Origin): Outgoing {
  const { delivery } = route;
  const key = keyOf(route, data);
  const lane = delivery.ordering === "none" ? noLane : laneOf(route, data);
  const wrong = problem ?? problemOf(route, data) ?? (key.ok ? undefined : key.why) ?? (lane.ok ? undefined : lane.why);
  const { text, payload } = encodePayload(data, trace, sender.valueBytesMax);
  const no = sender.next();
  const join = execution === null ? null : joinOf(route, sender);
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
  return { packet: wrong === undefined ? packet : { ...packet, lane: null, join: null, failed: validation(wrong) }, payload };
}

/** Of what the store may make a dead letter by itself. */
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

function joinOf({ node, port, entry }: Route, { joinWaitMs }: Sender): NewPart | null {
  const { ports, plan } = node;
  if (ports.length < 2 || entry) return null;
  return { node: plan.id, port, ports, waitMs: joinWaitMs };
}

function recordKey({ flow, delivery }: Route, key: string, data: Data, { onMismatch }: Sender) {
  const retentionMs = delivery.key?.retentionMs ?? null;
  return { scope: keyScope(flow.id), key, fingerprint: fingerprintOf(data), retentionMs, onMismatch };
}

/** Keys are kept per flow. */
export function keyScope(flowId: string): string {
  return `${flowId}.idempotency_keys`;
}

/** What JSON cannot hold has no hash that means the same everywhere: then the key alone tells. */
export function fingerprintOf(data: Data): string | null {
  try {
    return sha256(canonicalJson(data, "packet"));
  } catch {
    return null;
  }
}

type Lane = { readonly ok: true; readonly value: string | null } | { readonly ok: false; readonly why: string };

const noLane: Lane = { ok: true, value: null };

/** `strict`: one lane for all. `perKey`: by the partition key, else by the idempotency key. */
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
