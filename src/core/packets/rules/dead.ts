import type { Alert } from "../operation.js";
import type { PacketNote } from "../packet.js";
import { leaveLane } from "./lane.js";
import { rowOf } from "./row.js";
import type { PacketChanges, PacketRow } from "./table.js";

/**
 * `history`: the worker that delivered the packet reports how it failed. `note`: the store itself makes the dead letter, and sends the
 * alert, because no worker has the packet.
 */
type Why = { readonly history: string | null } | { readonly note: PacketNote };

/**
 * Makes a packet a dead letter. Returns false if its edge has no dead letters: then the packet is removed. The caller settles
 * the packet's key and counts it in its execution.
 */
export function toDead(changes: PacketChanges, row: PacketRow, why: Why): boolean {
  const { table, now } = changes;
  if (row.letter === null) {
    table.remove(row);
    leaveLane(changes, row);
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
  if (alert !== undefined && "note" in why) sendAlert(changes, row, alert, why.note);
  if (!row.deadBlocks) leaveLane(changes, row);
  return true;
}

function sendAlert({ table, now }: PacketChanges, { flow }: PacketRow, alert: Alert, note: PacketNote): void {
  const plain = { execution: null, key: null, lane: null, join: null, letter: null };
  const row = rowOf({ ...alert, flow, delayMs: 0, claim: false, ...plain }, now);
  table.insert(row);
  table.change(row, { note });
}
