import { decide } from "../decide.js";
import type { Begin, Settlement } from "../operation.js";
import { endlessLease, type PacketKey, packetOwner } from "../packet.js";
import type { RecordId } from "../record.js";
import { toDead } from "./dead.js";
import { leave, never } from "./lane.js";
import type { PacketRow, PacketTable } from "./table.js";
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
  if (answer.kind === "started") return mine;
  // What is under way may yet fail: whether it is another packet's counts when it is done.
  if (record?.state === "running" || record?.state === "unknown") {
    const byPacket = record.owner.startsWith("packet:");
    return { kind: "held", dueAt: byPacket ? never : Math.min(Math.max(record.leaseUntil, now), now + lookAgainMs) };
  }
  return { kind: answer.kind === "mismatch" ? "mismatch" : "duplicate" };
}

/** The packet is done: so are all that were held by its key. */
export function completeKey(tally: Tally, row: PacketRow): void {
  if (row.key === null || !settleKey(tally, row, { state: "completed", outcome: null })) return;
  for (const held of tally.table.heldBy(row.key, never)) {
    if (held.no !== row.no) acknowledge(tally, held, held.key?.fingerprint === row.key.fingerprint ? "duplicate" : "mismatch");
  }
}

/** The packet has failed for good: the oldest that was held by its key may try. */
export function freeKey(tally: Tally, row: PacketRow): void {
  if (row.key === null || !settleKey(tally, row, { state: "free", forget: true })) return;
  const next = tally.table.heldBy(row.key, 2).find(({ no }) => no !== row.no);
  if (next === undefined) return;
  tally.table.change(next, { state: "due", hold: null, dueAt: tally.now });
  tally.wake(next, "due");
}

/** Not delivered, because its key is completed. Where that was with another payload, its edge may want a dead letter. */
export function acknowledge(tally: Tally, row: PacketRow, why: "duplicate" | "mismatch"): void {
  tally.note(row, why, row.key?.key ?? null);
  if (why === "mismatch" && row.key?.onMismatch === "deadLetter") {
    const kept = toDead(tally, row, {});
    tally.add(row, { open: -1, dead: kept ? 1 : 0 });
    tally.wake(row, "dead");
    return;
  }
  tally.table.remove(row);
  leave(tally, row);
  tally.add(row, { open: -1, duplicates: 1 });
  tally.wake(row, why);
}

function settleKey({ table, now }: { table: PacketTable; now: number }, { no, key }: PacketRow, to: Settlement): boolean {
  const id = key as RecordId;
  const record = table.record(id);
  if (record?.owner !== packetOwner(no)) return false;
  const note = to.state === "free" ? "dead" : null;
  const { next, past } = decide(
    record,
    { verb: "settle", scope: id.scope, key: id.key, owner: packetOwner(no), attempt: record.attempt, to, note },
    now,
  );
  if (next) table.putRecord(next, past);
  return true;
}
