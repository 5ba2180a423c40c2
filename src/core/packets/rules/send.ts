import { assert, StoreRefusedError } from "../../errors/errors.js";
import { decide } from "../../ledger/decide.js";
import type { NewExecution, PacketAnswer, Placed, SendPackets } from "../operation.js";
import { placePacket } from "./place.js";
import type { PacketTable } from "./table.js";
import { Tally } from "./tally.js";

/**
 * Owner of a trigger's key in the ledger. The record's note repeats it, because the execution's number is read from the note, which is
 * not encrypted.
 */
const ownerPrefix = "execution:";

/** Begins an execution with its first packets, or adds packets, in one commit. */
export function sendPackets(table: PacketTable, send: SendPackets): PacketAnswer {
  const { worker, execution, packets } = send;
  const tally = new Tally(table);
  const { now } = tally;
  // The sender repeats a send whose reply was lost: its packets must not be inserted a second time.
  const there = execution ? table.execution(execution.no) !== undefined : packets.some(({ no }) => table.packet(no) !== undefined);
  if (there || hasAlerted(table, packets)) return { kind: "packetsSent", now, placed: placesNow(table, send), ended: [] };
  if (execution && table.flowState(execution.flow) === "archived") return { kind: "archived" };
  for (const { flow } of packets) if (table.flowState(flow) === "archived") return { kind: "archived" };
  if (execution) {
    const triggered = trigger(table, execution, now);
    if (triggered.kind === "before") return { kind: "triggered", execution: triggered.execution, mismatch: triggered.mismatch };
    // The same, after the execution has ended and was purged: its key is still there.
    if (triggered.kind === "again") return { kind: "packetsSent", now, placed: placesNow(table, send), ended: [] };
    const { no, flow, entry, input, key, retentionMs, scope, attributes } = execution;
    const fresh = { open: 0, duplicates: 0, dead: 0, createdAt: now, endedAt: null, outputs: [] };
    table.insertExecution({
      no,
      flow,
      entry,
      input,
      key: key?.key ?? null,
      retentionMs,
      ...fresh,
      ...(scope && { scope }),
      ...(attributes && { attributes }),
    });
    tally.began(no);
  }
  // A worker that the store no longer knows must not claim: it has no lease that could expire, so no other worker would ever
  // take over the packet.
  const claimer = packets.some(({ claim }) => claim) && table.worker(worker) !== undefined ? worker : null;
  const placed = packets.map((packet) => placePacket(tally, packet, claimer));
  tally.finish();
  return { kind: "packetsSent", now, placed, ended: tally.ended };
}

/**
 * Whether an alert of these packets is in the store. Then the send was applied before: a packet became a dead letter and was
 * removed since.
 */
function hasAlerted(table: PacketTable, packets: SendPackets["packets"]): boolean {
  for (const { letter } of packets) if (letter?.alert !== undefined && table.packet(letter.alert.no) !== undefined) return true;
  return false;
}

/** Where packets that were sent before are now, as the answer to a repeated send. A packet that is no longer in the store was settled. */
export function placesNow(table: PacketTable, { packets, worker }: Pick<SendPackets, "packets" | "worker">): Placed[] {
  return packets.map(({ no }) => {
    const row = table.packet(no);
    if (row === undefined || row.state === "kept") return { kind: "duplicate" };
    return row.owner === worker ? { kind: "claimed", packet: row } : { kind: row.state };
  });
}

type TriggerKey =
  /** The trigger has no key, or its key was free and is completed in this commit. */
  | { readonly kind: "new" }
  /** This same trigger has completed the key before. */
  | { readonly kind: "again" }
  /** An earlier trigger has completed the key; with a different fingerprint, if `mismatch`. */
  | { readonly kind: "before"; readonly execution: number; readonly mismatch: boolean };

/** Completes the key of a trigger in the commit that begins its execution, or finds the execution that has the key. */
function trigger(table: PacketTable, { no, key: id }: NewExecution, now: number): TriggerKey {
  if (id === null) return { kind: "new" };
  const { scope, key, fingerprint, retentionMs } = id;
  const owner = `${ownerPrefix}${no}`;
  const record = table.record(id);
  const begun = decide(
    record,
    {
      verb: "begin",
      scope,
      key,
      owner,
      fingerprint,
      effect: "idempotent",
      leaseMs: 1,
      retentionMs,
      horizonMs: 0,
      reconcileAfterMs: 0,
      over: null,
      progress: null,
    },
    now,
  );
  if (begun.answer.kind === "started" && begun.next) {
    const to = { state: "completed", outcome: null } as const;
    const { next } = decide(begun.next, { verb: "settle", scope, key, owner, attempt: begun.next.attempt, to, note: owner }, now);
    assert(next !== undefined, "an attempt that has just begun can be settled");
    table.putRecord(next, begun.past);
    return { kind: "new" };
  }
  const note = record?.note ?? "";
  if (!note.startsWith(ownerPrefix))
    throw new StoreRefusedError(
      `[onceflow] the key "${key}" in scope "${scope}" is already used by an operation that is not a trigger; use another key, or use this scope for triggers only`,
    );
  const execution = Number(note.slice(ownerPrefix.length));
  if (execution === no) return { kind: "again" };
  return { kind: "before", execution, mismatch: begun.answer.kind === "mismatch" };
}
