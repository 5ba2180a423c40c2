import type { PacketTable } from "./table.js";

/** A worker that stops: what it has not delivered is due, and was no attempt. */
export function leaveWork(table: PacketTable, worker: number): void {
  const now = table.now();
  for (const row of table.ownedBy(worker)) table.change(row, { owner: null, since: row.since + 1, dueAt: now });
  table.removeWorker(worker);
}
