import type { Alert, DeadLetter } from "../operation.js";
import { enterLane, leaveLane } from "./lane.js";
import { placePacket } from "./place.js";
import type { PacketTable } from "./table.js";
import { Tally } from "./tally.js";

/**
 * Retries a dead letter: makes it due again. A part waits for the other parts again; a packet that gave up its position goes to the
 * end of its lane.
 */
export function reinject(table: PacketTable, no: number, alert?: Alert): Tally | undefined {
  const row = table.packet(no);
  if (row?.state !== "dead") return undefined;
  const tally = new Tally(table);
  tally.add(row, { dead: -1 });
  tally.note(row, "reinjected");
  const letter = row.letter && withAlert(row.letter, alert);
  if (row.part !== null && row.parts === null) {
    table.remove(row);
    const lane = row.lane === null ? null : { name: row.lane, deadBlocks: row.deadBlocks };
    const { reach, ...packet } = row;
    placePacket(tally, { ...packet, ...(reach && { reach }), lane, letter, join: row.part, delayMs: 0, claim: false }, null);
  } else {
    const alive = { state: "due", hold: null, dead: null, note: null, dueAt: tally.now, since: row.attempt, crashes: 0 } as const;
    table.change(row, { ...alive, letter, ...(row.place === null ? enterLane(table, row, row.lane) : {}) });
    tally.add(row, { open: 1 });
  }
  tally.finish();
  return tally;
}

/** The dead letter's settings with a new alert in place of the old one. */
function withAlert({ name, retentionMs }: DeadLetter, alert: Alert | undefined): DeadLetter {
  return { name, retentionMs, ...(alert && { alert }) };
}

/** Removes a dead letter. The next packet of a lane that it blocked becomes due. */
export function discard(table: PacketTable, no: number): Tally | undefined {
  const row = table.packet(no);
  if (row?.state !== "dead") return undefined;
  const tally = new Tally(table);
  tally.add(row, { dead: -1 });
  tally.note(row, "discarded");
  table.remove(row);
  leaveLane(tally, row);
  tally.narrow(row);
  tally.finish();
  return tally;
}
