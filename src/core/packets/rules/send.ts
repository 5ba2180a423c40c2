import { assert, StoreRefusedError } from "../../errors/errors.js";
import { decide } from "../../ledger/decide.js";
import type { NewExecution, PacketAnswer, Placed, SendPackets } from "../operation.js";
import { place } from "./place.js";
import type { PacketTable } from "./table.js";
import { Tally } from "./tally.js";

/** Owns the key of a trigger; and stands in its note, where nothing is encrypted. */
const ownerPrefix = "execution:";

/** Begins an execution, or adds packets: all of it or nothing. */
export function sendPackets(table: PacketTable, send: SendPackets): PacketAnswer {
  const { worker, execution, packets } = send;
  const tally = new Tally(table);
  const { now } = tally;
  // The reply to this very send was lost, and it was sent again.
  const there = execution ? table.execution(execution.no) !== undefined : packets.some(({ no }) => table.packet(no) !== undefined);
  if (there || hasAlerted(table, packets)) return { kind: "packetsSent", now, placed: found(table, send), ended: [] };
  if (execution && table.flowState(execution.flow) === "archived") return { kind: "archived" };
  for (const { flow } of packets) if (table.flowState(flow) === "archived") return { kind: "archived" };
  if (execution) {
    const triggered = trigger(table, execution, now);
    // Its execution has been purged already, and the reply was lost.
    if (triggered === execution.no) return { kind: "packetsSent", now, placed: found(table, send), ended: [] };
    if (typeof triggered === "object") return triggered;
    const { no, flow, entry, input, key, retentionMs } = execution;
    const fresh = { open: 0, duplicates: 0, dead: 0, createdAt: now, endedAt: null, outputs: [] };
    table.insertExecution({ no, flow, entry, input, key: key?.key ?? null, retentionMs, ...fresh });
    tally.began(no);
  }
  // Who is not known any more would not be missed: what it claimed would be its own for ever.
  const claimer = packets.some(({ claim }) => claim) && table.worker(worker) !== undefined ? worker : null;
  const placed = packets.map((packet) => place(tally, packet, claimer));
  tally.finish();
  return { kind: "packetsSent", now, placed, ended: tally.ended };
}

/** A packet of it has died and gone, and its alert is on its way. */
function hasAlerted(table: PacketTable, packets: SendPackets["packets"]): boolean {
  for (const { letter } of packets) if (letter?.alert !== undefined && table.packet(letter.alert.no) !== undefined) return true;
  return false;
}

/** What a send that was done before finds of its packets. Those that are gone were done with. */
export function found(table: PacketTable, { packets, worker }: Pick<SendPackets, "packets" | "worker">): Placed[] {
  return packets.map(({ no }) => {
    const row = table.packet(no);
    if (row === undefined || row.state === "kept") return { kind: "duplicate" };
    return row.owner === worker ? { kind: "claimed", packet: row } : { kind: row.state };
  });
}

/** The key of a trigger is completed in the commit that begins its execution; or names the execution that there is, also this. */
function trigger(table: PacketTable, { no, key: id }: NewExecution, now: number): PacketAnswer | number | undefined {
  if (id === null) return undefined;
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
    assert(next !== undefined, "what has just begun can be settled");
    table.putRecord(next, begun.past);
    return undefined;
  }
  const note = record?.note ?? "";
  if (!note.startsWith(ownerPrefix))
    throw new StoreRefusedError(
      `[onceflow] the key "${key}" in scope "${scope}" is in use, and not by a trigger: trigger with another key, or keep this scope for triggers`,
    );
  const execution = Number(note.slice(ownerPrefix.length));
  if (execution === no) return no;
  return { kind: "triggered", execution, mismatch: begun.answer.kind === "mismatch" };
}
