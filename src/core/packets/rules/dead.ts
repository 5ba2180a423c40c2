import type { Alert } from "../operation.js";
import type { PacketNote } from "../packet.js";
import { leave } from "./lane.js";
import { rowOf } from "./row.js";
import type { PacketChanges, PacketRow } from "./table.js";

/** Whoever delivered it says how it failed; else the store says why, and sends the alert that nobody else would. */
type Why = { readonly history: string | null } | { readonly note: PacketNote };

/**
 * Makes a dead letter of it, or drops it where its edge wants none: then false. Its key, and what its execution counts,
 * are the caller's business.
 */
export function toDead(changes: PacketChanges, row: PacketRow, why: Why): boolean {
  const { table, now } = changes;
  if (row.letter === null) {
    table.remove(row);
    leave(changes, row);
    return false;
  }
  const { name, retentionMs, alert } = row.letter;
  table.change(row, {
    state: "dead",
    owner: null,
    hold: null,
    note: null,
    ...why,
    dead: { name, at: now, expiresAt: retentionMs === null ? null : now + retentionMs },
    ...(row.deadBlocks ? {} : { place: null }),
  });
  if (alert !== undefined && "note" in why) send(changes, row, alert, why.note);
  if (!row.deadBlocks) leave(changes, row);
  return true;
}

function send({ table, now }: PacketChanges, { flow }: PacketRow, alert: Alert, note: PacketNote): void {
  const nothing = { execution: null, key: null, lane: null, join: null, letter: null };
  const row = rowOf({ ...alert, flow, delayMs: 0, claim: false, ...nothing }, now);
  table.insert(row);
  table.change(row, { note });
}
