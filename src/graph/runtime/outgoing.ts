import { canonicalJson, sha256 } from "../../core/canonical.js";
import type { NewPacket, NewPart } from "../../core/packet-operation.js";
import { alertFor } from "./alert.js";
import { type HistoryEntry, historyOf, withFailure } from "./history.js";
import { type Data, encodePayload, type Trace } from "./payload.js";
import type { Route } from "./routes.js";
import { keyOf, problemOf, type Sent } from "./stage.js";

/** What all packets of a process have from their sender. */
export interface Sender {
  readonly valueBytesMax: number;
  readonly onMismatch: "acknowledge" | "deadLetter";
  readonly joinWaitMs: number;
  /** The number of the next packet. */
  readonly next: () => number;
  /** True: this process takes the packet in the commit that sends it, and has kept room for it. */
  reserve(route: Route, no: number): boolean;
}

/** What a packet is part of. */
export interface Origin {
  readonly execution: number | null;
  readonly trace: Trace;
}

type Made = { -readonly [Name in keyof NewPacket]: NewPacket[Name] };

/** Room is kept when all of them could be made: what throws on the way has kept none. */
export function packetsFor(sender: Sender, sent: readonly Sent[], origin: Origin): NewPacket[] {
  const packets = sent.map((each) => packetFor(sender, each, origin));
  for (let i = 0; i < sent.length; i += 1) {
    const { route } = sent[i] as Sent;
    const packet = packets[i] as Made;
    if (packet.failed === undefined) packet.claim = sender.reserve(route, packet.no);
    else packets.push(...alertFor(sender, route, { ...packet, attempt: 0 }, historyOf(packet.failed).at(-1) as HistoryEntry));
  }
  return packets;
}

/** A packet on its way: checked, with its key, its lane, and its place in a join. One that can't be delivered says why. */
export function packetFor(sender: Sender, { route, data, problem }: Sent, { execution, trace }: Origin): Made {
  const { delivery } = route;
  const key = keyOf(route, data);
  const lane = delivery.ordering === "none" ? noLane : laneOf(route, data);
  const wrong = problem ?? problemOf(route, data) ?? (key.ok ? undefined : key.why) ?? (lane.ok ? undefined : lane.why);
  const packet: Made = {
    no: sender.next(),
    flow: route.flow.id,
    queue: route.queue,
    execution,
    payload: encodePayload(data, trace, sender.valueBytesMax),
    key: key.ok && key.value !== undefined ? recordKey(route, key.value, data, sender) : null,
    lane: lane.ok && lane.value !== null ? { name: lane.value, deadBlocks: false } : null,
    join: execution === null ? null : joinOf(route, sender),
    letter: route.letter,
    delayMs: 0,
    claim: false,
  };
  return wrong === undefined ? packet : { ...packet, lane: null, join: null, failed: validation(wrong) };
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
