import type { NewDeliveryEntry } from "../delivery-entry.js";
import type { PacketAnswer, PacketOutcome, SettlePacket } from "../operation.js";
import { toDead } from "./dead.js";
import { entryOf } from "./entry.js";
import { completeKey, freeKey } from "./key.js";
import { leaveLane } from "./lane.js";
import { placePacket } from "./place.js";
import { placesNow } from "./send.js";
import type { PacketRow, PacketTable } from "./table.js";
import { Tally } from "./tally.js";

/** Settles a packet in one commit: its key, the packet itself, the packets that it sends, and the packets that waited for it. */
export function settlePacket(table: PacketTable, settle: SettlePacket): PacketAnswer {
  const { no, worker, attempt, to, packets, outputs } = settle;
  const taken = to.kind === "done" && !to.keep ? table.take?.(no, worker, attempt) : undefined;
  const row = taken ?? table.packet(no);
  if (row?.owner !== worker || row.attempt !== attempt) {
    // While the store knows a worker, only that worker changes its packets (a reap removes the worker together with them). So this
    // settle was applied before and its reply was lost: it must not send its packets a second time.
    if (table.worker(worker) === undefined) return { kind: "packetStale" };
    return { kind: "packetSettled", now: table.now(), placed: placesNow(table, settle), woken: [], ended: [] };
  }
  const tally = new Tally(table);
  outcome(tally, row, to, taken !== undefined);
  tally.output(row, outputs);
  if (settle.entry !== undefined && row.execution !== null) addEntry(tally, row, settle, settle.entry);
  const placed = packets.map((packet) => placePacket(tally, packet, worker));
  if (to.kind === "done" && !reachesAll(packets, row.reach)) tally.narrow(row);
  tally.finish();
  return { kind: "packetSettled", now: tally.now, placed, woken: tally.woken, ended: tally.ended };
}

/** The history says what this commit does, because it is part of the commit. */
function addEntry({ table, now }: Tally, row: PacketRow, settle: SettlePacket, entry: NewDeliveryEntry): void {
  const { queue, letter } = row;
  const written = entryOf({ execution: row.execution as number, queue, hasLetter: letter !== null, at: now }, settle, entry);
  if (written !== undefined) table.addEntry(written);
}

/** Whether these packets may still fill every port that the packet they follow from could fill. */
function reachesAll(packets: SettlePacket["packets"], ports: readonly string[] | null): boolean {
  return ports === null || ports.every((port) => packets.some(({ reach }) => reach?.includes(port)));
}

function outcome(tally: Tally, row: PacketRow, to: PacketOutcome, isGone: boolean): void {
  const { table, now } = tally;
  switch (to.kind) {
    case "done":
      // A restarted packet did no work, so free its key for the packet that replaces it.
      if (to.note === "restarted") freeKey(tally, row);
      else completeKey(tally, row);
      if (to.note) tally.note(row, to.note, to.about ?? null);
      if (to.keep && row.execution !== null) table.change(row, { state: "kept", owner: null, place: null });
      else if (!isGone) table.remove(row);
      leaveLane(tally, row);
      tally.add(row, { open: -1 });
      return;
    case "retry":
      table.change(row, { owner: null, dueAt: now + to.delayMs, history: to.history });
      return;
    case "dead": {
      freeKey(tally, row);
      const kept = toDead(tally, row, { history: to.history });
      tally.note(row, kept ? "dead" : "dropped", row.key?.key ?? null);
      if (to.note) tally.note(row, to.note);
      tally.add(row, { open: -1, dead: kept ? 1 : 0 });
      if (!kept) tally.narrow(row);
      return;
    }
    case "release":
      table.change(row, { owner: null, since: row.since + 1, dueAt: now + (to.delayMs ?? 0) });
      return;
    case "trial":
      table.change(row, { history: to.history });
      return;
  }
}
