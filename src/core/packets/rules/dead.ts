import type { Alert } from "../operation.js";
import type { PacketNote } from "../packet.js";
import { leave } from "./lane.js";
import { rowOf } from "./row.js";
import type { PacketChanges, PacketRow } from "./table.js";

/**
 * `history`: the worker that delivered the packet says how it failed. `note`: the store makes the dead letter by itself, and
 * sends its alert, because no worker has the packet.
 */
type Why = { readonly history: string | null } | { readonly note: PacketNote };

/**
 * Turns a packet into a dead letter. False: its edge keeps no dead letters, and the packet was dropped. The caller settles
 * the packet's key and counts it in its execution.
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
