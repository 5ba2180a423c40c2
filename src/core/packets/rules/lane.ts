import type { PacketRow, PacketTable, QueueId } from "./table.js";
import type { Tally } from "./tally.js";

/** Whoever waits for another packet to go, and not for a time. */
export const never = Number.MAX_SAFE_INTEGER;

type Entered = Pick<PacketRow, "place"> & Partial<Pick<PacketRow, "state" | "hold" | "dueAt">>;

/** Takes the last place of a lane; behind somebody else it is held. */
export function enter(table: PacketTable, queue: QueueId, lane: string | null): Entered {
  if (lane === null) return { place: null };
  const last = table.lastPlace(queue, lane);
  return last === null ? { place: 1 } : { place: last + 1, state: "held", hold: "lane", dueAt: never };
}

/** The row is gone, or has no place any more: the next one is due. */
export function leave(tally: Tally, row: PacketRow): void {
  if (row.lane === null || row.place === null) return;
  const { table, now } = tally;
  const next = table.head(row, row.lane);
  if (next?.hold !== "lane") return;
  table.change(next, { state: "due", hold: null, dueAt: now });
  tally.wake(next, "due");
}
