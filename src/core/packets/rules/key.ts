import { decide } from "../../ledger/decide.js";
import type { Begin, Settlement } from "../../ledger/operation.js";
import type { LedgerRecord, RecordId } from "../../ledger/record.js";
import { endlessLease, type PacketKey, packetOwner } from "../packet.js";
import { toDead } from "./dead.js";
import { leave, never } from "./lane.js";
import type { PacketRow } from "./table.js";
import type { Tally } from "./tally.js";

/** How often a held packet tries again if the owner of its key is not a packet: such an owner cannot wake it. */
const lookAgainMs = 5000;

export type KeyVerdict =
  | { readonly kind: "mine" | "duplicate" | "mismatch" }
  /** Another owner has the key. The packet tries again at `dueAt`, or earlier, when the owner is a packet and settles. */
  | { readonly kind: "held"; readonly dueAt: number };

/** Also the verdict for a packet without a key: nothing can hold it. */
export const mine: KeyVerdict = { kind: "mine" };

/** Begins the key of a packet. A packet that is delivered again owns its key already. */
export function beginKey({ table, now }: Tally, no: number, { scope, key, fingerprint, retentionMs }: PacketKey): KeyVerdict {
  const record = table.record({ scope, key });
  const begin: Begin = {
    verb: "begin",
    scope,
    key,
    owner: packetOwner(no),
    fingerprint,
    effect: "idempotent",
    leaseMs: endlessLease - now,
    retentionMs,
    horizonMs: 0,
    reconcileAfterMs: 0,
    over: null,
    progress: null,
  };
  const { answer, next, past } = decide(record, begin, now);
  if (next) table.putRecord(next, past);
  if (answer.kind === "started") {
    if (next) table.begun?.(no, next);
    return mine;
  }
  // The running owner may still fail: whether its fingerprint differs counts only when the key is completed.
  if (record?.state === "running" || record?.state === "unknown") {
    return { kind: "held", dueAt: record.owner.startsWith("packet:") ? never : lookAgainAt(record.leaseUntil, now) };
  }
  return { kind: answer.kind === "mismatch" ? "mismatch" : "duplicate" };
}

/** The lease of an unknown record has lapsed, and the record may stay unknown for long: so the end of the lease is no time to wait for. */
function lookAgainAt(leaseUntil: number, now: number): number {
  return leaseUntil > now ? Math.min(leaseUntil, now + lookAgainMs) : now + lookAgainMs;
}

/** The packet is done: completes its key, and acknowledges all packets that the key held. */
export function completeKey(tally: Tally, row: PacketRow): void {
  if (row.key === null) return;
  const wasMine = settleKey(tally, row, { state: "completed", outcome: null });
  for (const held of tally.table.heldBy(row.key, never)) {
    // The key has another owner now, which does not know the packets that this packet held, and would not wake them: they
    // become due, and try the key themselves.
    if (!wasMine) letGo(tally, held);
    else acknowledge(tally, held, differ(held.key, row.key) ? "mismatch" : "duplicate");
  }
}

/** The packet has failed for good: frees its key, and makes the oldest packet that the key held due. */
export function freeKey(tally: Tally, row: PacketRow): void {
  if (row.key === null) return;
  const wasMine = settleKey(tally, row, { state: "free", forget: true });
  for (const held of tally.table.heldBy(row.key, wasMine ? 1 : never)) letGo(tally, held);
}

function letGo(tally: Tally, held: PacketRow): void {
  tally.table.change(held, { state: "due", hold: null, dueAt: tally.now });
  tally.wake(held, "due");
}

/** The ledger's rule: a packet without a fingerprint counts as the same packet. */
function differ(a: PacketKey | null, b: PacketKey): boolean {
  return a !== null && a.fingerprint !== null && b.fingerprint !== null && a.fingerprint !== b.fingerprint;
}

/** Removes a packet whose key is completed, without a delivery. If the fingerprint differs, the edge may want a dead letter instead. */
export function acknowledge(tally: Tally, row: PacketRow, why: "duplicate" | "mismatch"): void {
  tally.note(row, why, row.key?.key ?? null);
  if (why === "mismatch" && row.key?.onMismatch === "deadLetter") {
    const kept = toDead(tally, row, { note: why });
    tally.add(row, { open: -1, dead: kept ? 1 : 0 });
    tally.wake(row, "dead", why);
    return;
  }
  tally.table.remove(row);
  leave(tally, row);
  tally.add(row, { open: -1, duplicates: 1 });
  tally.wake(row, why);
}

/** False: the packet no longer owns the key, and nothing was changed. */
function settleKey({ table, now }: Tally, { no, key }: PacketRow, to: Settlement): boolean {
  const id = key as RecordId;
  const owner = packetOwner(no);
  const note = to.state === "free" ? "dead" : null;
  const settled = (record: LedgerRecord): LedgerRecord | undefined =>
    decide(record, { verb: "settle", scope: id.scope, key: id.key, owner, attempt: record.attempt, to, note }, now).next;
  if (table.settleBegun?.(no, settled)) return true;
  const record = table.record(id);
  if (record?.owner !== owner) return false;
  const next = settled(record);
  if (next) table.putRecord(next, undefined);
  return true;
}
