import type { PacketTable } from "./table.js";

/** A worker that stops: what it has not delivered is due, and was no attempt. */
export function leaveWork(table: PacketTable, worker: number): void {
  const now = table.now();
  for (const row of table.ownedBy(worker, Number.MAX_SAFE_INTEGER))
    table.change(row, { owner: null, attempt: row.attempt - 1, dueAt: now });
  table.removeWorker(worker);
}
