import type { PacketNote } from "../packet.js";
import { leave } from "./lane.js";
import type { PacketRow } from "./table.js";
import type { Tally } from "./tally.js";

/**
 * Makes a dead letter of it, or drops it where its edge wants none: then false. Its key, and what its execution counts,
 * are the caller's business.
 */
export function toDead(
  tally: Tally,
  row: PacketRow,
  { history, note = null }: { history?: string | null; note?: PacketNote | null },
): boolean {
  const { table, now } = tally;
  if (row.letter === null) {
    table.remove(row);
    leave(tally, row);
    return false;
  }
  const { name, retentionMs } = row.letter;
  table.change(row, {
    state: "dead",
    owner: null,
    hold: null,
    note,
    dead: { name, at: now, expiresAt: retentionMs === null ? null : now + retentionMs },
    ...(history === undefined ? {} : { history }),
    ...(row.deadBlocks ? {} : { place: null }),
  });
  if (!row.deadBlocks) leave(tally, row);
  return true;
}
