import { decide } from "../../ledger/decide.js";
import type { Begin, Settlement } from "../../ledger/operation.js";
import type { LedgerRecord, RecordId } from "../../ledger/record.js";
import { endlessLease, type PacketKey, packetOwner } from "../packet.js";
import { toDead } from "./dead.js";
import { leaveLane, untilWoken } from "./lane.js";
import type { PacketRow } from "./table.js";
import type { Tally } from "./tally.js";

/** How often a held packet is retried if the owner of its key is not a packet: such an owner does not wake it. */
const pollMs = 5000;

export type KeyVerdict =
  /** owner: the packet owns its key, and may be delivered. */
  | { readonly kind: "owner" | "duplicate" | "mismatch" }
  /** Another owner has the key. The packet is retried at `dueAt`, or earlier, if the owner is a packet and is settled. */
  | { readonly kind: "held"; readonly dueAt: number };

/** Also the verdict for a packet without a key. */
export const ownsKey: KeyVerdict = { kind: "owner" };

/** Begins the key of a packet. A packet that is delivered again already owns its key. */
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
    return ownsKey;
  }
  // The running owner may still fail, so a different fingerprint counts only once the key is completed.
  if (record?.state === "running" || record?.state === "unknown") {
    return { kind: "held", dueAt: record.owner.startsWith("packet:") ? untilWoken : nextPollAt(record.leaseUntil, now) };
  }
  return { kind: answer.kind === "mismatch" ? "mismatch" : "duplicate" };
}

/** At the end of the lease, but at most `pollMs` from now. If the lease has expired, the record is unknown and may stay so for long. */
function nextPollAt(leaseUntil: number, now: number): number {
  return leaseUntil > now ? Math.min(leaseUntil, now + pollMs) : now + pollMs;
}

/** Completes the key of a packet that is done, and acknowledges all packets that the key held. */
export function completeKey(tally: Tally, row: PacketRow): void {
  if (row.key === null) return;
  const wasOwner = settleKey(tally, row, { state: "completed", outcome: null });
  for (const held of tally.table.heldBy(row.key, noLimit)) {
    // The key has another owner now, which would not wake the packets that this packet held: they become due and try to
    // begin the key themselves.
    if (!wasOwner) makeDue(tally, held);
    else acknowledge(tally, held, differ(held.key, row.key) ? "mismatch" : "duplicate");
  }
}

const noLimit = Number.MAX_SAFE_INTEGER;

/** Frees the key of a packet that became a dead letter, and makes the oldest packet that the key held due. */
export function freeKey(tally: Tally, row: PacketRow): void {
  if (row.key === null) return;
  const wasOwner = settleKey(tally, row, { state: "free", forget: true });
  for (const held of tally.table.heldBy(row.key, wasOwner ? 1 : noLimit)) makeDue(tally, held);
}

function makeDue(tally: Tally, held: PacketRow): void {
  tally.table.change(held, { state: "due", hold: null, dueAt: tally.now });
  tally.wake(held, "due");
}

/** As in the ledger: a key without a fingerprint matches every other. */
function differ(a: PacketKey | null, b: PacketKey): boolean {
  return a !== null && a.fingerprint !== null && b.fingerprint !== null && a.fingerprint !== b.fingerprint;
}

/**
 * Removes a packet without delivering it, because its key is completed. If the fingerprint differs, the edge may ask for a dead
 * letter instead.
 */
export function acknowledge(tally: Tally, row: PacketRow, why: "duplicate" | "mismatch"): void {
  tally.note(row, why, row.key?.key ?? null);
  if (why === "mismatch" && row.key?.onMismatch === "deadLetter") {
    const kept = toDead(tally, row, { note: why });
    tally.add(row, { open: -1, dead: kept ? 1 : 0 });
    if (!kept) tally.narrow(row);
    tally.wake(row, "dead", why);
    return;
  }
  tally.table.remove(row);
  leaveLane(tally, row);
  tally.add(row, { open: -1, duplicates: 1 });
  tally.narrow(row);
  tally.wake(row, why);
}

/** Returns false, and changes nothing, if the packet no longer owns the key. */
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
