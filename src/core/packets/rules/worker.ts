import type { PacketTable } from "./table.js";

/** Removes a worker that stops. Its packets become due, and the attempt does not count. */
export function leaveWork(table: PacketTable, worker: number): void {
  const now = table.now();
  for (const row of table.ownedBy(worker)) table.change(row, { owner: null, since: row.since + 1, dueAt: now });
  table.removeWorker(worker);
}
