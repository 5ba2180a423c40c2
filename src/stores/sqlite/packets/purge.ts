import { discard } from "../../../core/packets/rules/letters.js";
import type { PacketTable } from "../../../core/packets/rules/table.js";
import type { Prepared } from "../connection/prepared.js";

const selectOver = "SELECT no FROM onceflow_executions WHERE expires_at <= ? ORDER BY expires_at LIMIT ?";
const selectOldLetters = "SELECT no FROM onceflow_packets WHERE expires_at <= ? ORDER BY expires_at, no LIMIT ?";
const removeExecution = "DELETE FROM onceflow_executions WHERE no = ?";
const removeEntries = "DELETE FROM onceflow_deliveries WHERE execution = ?";
const removeAttributes = "DELETE FROM onceflow_execution_attributes WHERE execution = ?";
const removeNotes = "DELETE FROM onceflow_notes WHERE execution = ?";

/** Whether no execution and no dead letter has expired. Reads without a lock. */
export function nothingIsOver(sql: Prepared, now: number): boolean {
  return [selectOver, selectOldLetters].every((select) => sql(select).get(now, 1) === undefined);
}

/**
 * Inside a write transaction: removes at most `limit` expired executions and dead letters. Packets that a dead letter blocked
 * become due.
 */
export function purgePackets(sql: Prepared, table: PacketTable, limit: number): number {
  const over = sql(selectOver).all(table.now(), limit) as { no: number }[];
  for (const { no } of over) for (const remove of [removeExecution, removeNotes, removeEntries, removeAttributes]) sql(remove).run(no);
  const letters = sql(selectOldLetters).all(table.now(), limit - over.length) as { no: number }[];
  for (const { no } of letters) discard(table, no);
  return over.length + letters.length;
}
