import type { PacketChanges, PacketRow, PacketTable, QueueId } from "./table.js";

/** `dueAt` of a packet that waits until another packet is settled and wakes it, not for a time. */
export const untilWoken = Number.MAX_SAFE_INTEGER;

type LanePlace = Pick<PacketRow, "place"> & Partial<Pick<PacketRow, "state" | "hold" | "dueAt">>;

/** The last place in the lane, for a packet that enters it. A packet behind another one is held. */
export function enterLane(table: PacketTable, queue: QueueId, lane: string | null): LanePlace {
  if (lane === null) return { place: null };
  const last = table.lastPlace(queue, lane);
  return last === null ? { place: 1 } : { place: last + 1, state: "held", hold: "lane", dueAt: untilWoken };
}

/** Makes the next packet of a lane due, after `row` was removed or gave up its place. */
export function leaveLane(changes: PacketChanges, row: PacketRow): void {
  if (row.lane === null || row.place === null) return;
  const { table, now } = changes;
  const next = table.head(row, row.lane);
  if (next?.hold !== "lane") return;
  table.change(next, { state: "due", hold: null, dueAt: now });
  changes.wake(next, "due");
}
