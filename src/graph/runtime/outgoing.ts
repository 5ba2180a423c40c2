import { canonicalJson, sha256 } from "../../core/canonical.js";
import type { NewPacket, NewPart } from "../../core/packet-operation.js";
import { withFailure } from "./history.js";
import { type Data, encodePayload, type Trace } from "./payload.js";
import type { Route } from "./routes.js";
import { keyOf, problemOf, type Sent } from "./stage.js";

export interface Sender {
  readonly execution: number | null;
  readonly trace: Trace;
  readonly valueBytesMax: number;
  readonly onMismatch: "acknowledge" | "deadLetter";
  readonly joinWaitMs: number;
  /** The number of the next packet. */
  readonly next: () => number;
}

/** A packet on its way: checked, with its key, its lane, and its place in a join. One that can't be delivered says why. */
export function packetFor({ route, data, problem }: Sent, sender: Sender): NewPacket {
  const { flow, queue, letter } = route;
  const { execution } = sender;
  const key = keyOf(route, data);
  const lane = laneOf(route, data);
  const wrong = problem ?? problemOf(route, data) ?? (key.ok ? undefined : key.why) ?? (lane.ok ? undefined : lane.why);
  const payload = encodePayload(data, sender.trace, sender.valueBytesMax);
  const packet: NewPacket = {
    no: sender.next(),
    flow: flow.id,
    queue,
    execution,
    payload,
    key: key.ok && key.value !== undefined ? recordKey(route, key.value, data, sender) : null,
    lane: lane.ok && lane.value !== null ? { name: lane.value, deadBlocks: false } : null,
    join: joinOf(route, sender),
    letter,
    delayMs: 0,
    claim: false,
  };
  return wrong === undefined ? packet : { ...packet, lane: null, join: null, failed: validation(wrong) };
}

function validation(message: string): string {
  return withFailure(null, { code: "VALIDATION", message, final: true }, { attempt: 0, at: Date.now(), ms: 0 });
}

function joinOf({ node, port, entry }: Route, { execution, joinWaitMs }: Sender): NewPart | null {
  const { ports, plan } = node;
  if (ports.length < 2 || entry || execution === null) return null;
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
  if (ordering === "none") return noLane;
  if (ordering === "strict") return { ok: true, value: "" };
  if (partitionKey !== undefined) {
    const made = partitionKey.make({ payload: data, operationId: route.node.plan.operationId, flowId: route.flow.id });
    return made.ok ? made : { ok: false, why: `partitionKey ${partitionKey.text}: ${made.why}` };
  }
  const key = keyOf(route, data);
  return key.ok ? { ok: true, value: key.value ?? "" } : key;
}
