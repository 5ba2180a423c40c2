import { decide } from "../../ledger/decide.js";
import type { Begin, Settlement } from "../../ledger/operation.js";
import type { LedgerRecord, RecordId } from "../../ledger/record.js";
import { endlessLease, type PacketKey, packetOwner } from "../packet.js";
import { toDead } from "./dead.js";
import { leave, never } from "./lane.js";
import type { PacketRow } from "./table.js";
import type { Tally } from "./tally.js";

/** How often a packet looks that is held by somebody who is no packet, and so can't wake it. */
const lookAgainMs = 5000;

export type KeyVerdict =
  | { readonly kind: "mine" | "duplicate" | "mismatch" }
  /** Somebody else's: until it goes, or until then. */
  | { readonly kind: "held"; readonly dueAt: number };

/** Also of a packet without a key: nobody else can be in its way. */
export const mine: KeyVerdict = { kind: "mine" };

/** Begins the key of a packet. The same packet again has it already. */
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
  // What is under way may yet fail: whether it is another packet's counts when it is done.
  if (record?.state === "running" || record?.state === "unknown") {
    return { kind: "held", dueAt: record.owner.startsWith("packet:") ? never : lookAgainAt(record.leaseUntil, now) };
  }
  return { kind: answer.kind === "mismatch" ? "mismatch" : "duplicate" };
}

/** Of something in doubt the lease is over, and it may stay so for long. */
function lookAgainAt(leaseUntil: number, now: number): number {
  return leaseUntil > now ? Math.min(leaseUntil, now + lookAgainMs) : now + lookAgainMs;
}

/** The packet is done: so are all that were held by its key. */
export function completeKey(tally: Tally, row: PacketRow): void {
  if (row.key === null) return;
  const wasMine = settleKey(tally, row, { state: "completed", outcome: null });
  for (const held of tally.table.heldBy(row.key, never)) {
    // Somebody has taken the key from its packet: nobody else would tell those that it held, so they look for themselves.
    if (!wasMine) letGo(tally, held);
    else acknowledge(tally, held, differ(held.key, row.key) ? "mismatch" : "duplicate");
  }
}

/** The packet has failed for good: the oldest that was held by its key may try. */
export function freeKey(tally: Tally, row: PacketRow): void {
  if (row.key === null) return;
  const wasMine = settleKey(tally, row, { state: "free", forget: true });
  for (const held of tally.table.heldBy(row.key, wasMine ? 1 : never)) letGo(tally, held);
}

function letGo(tally: Tally, held: PacketRow): void {
  tally.table.change(held, { state: "due", hold: null, dueAt: tally.now });
  tally.wake(held, "due");
}

/** As the ledger has it: who says nothing of a payload asks for the same. */
function differ(a: PacketKey | null, b: PacketKey): boolean {
  return a !== null && a.fingerprint !== null && b.fingerprint !== null && a.fingerprint !== b.fingerprint;
}

/** Not delivered, because its key is completed. Where that was with another payload, its edge may want a dead letter. */
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

/** False: somebody has taken it from its packet. */
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
