import type { PacketTable } from "./table.js";

/** The worker stops: the packets that it owns become due, without counting an attempt. */
export function leaveWork(table: PacketTable, worker: number): void {
  const now = table.now();
  for (const row of table.ownedBy(worker)) table.change(row, { owner: null, since: row.since + 1, dueAt: now });
  table.removeWorker(worker);
}
