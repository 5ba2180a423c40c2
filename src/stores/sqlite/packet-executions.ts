import { type ExecutionNote, notesMax } from "../../core/packet.js";
import type { ExecutionRow } from "../../core/packets/table.js";
import type { SqliteValue } from "./driver.js";
import type { Prepared } from "./prepared.js";
import { text } from "./run-row.js";

export const selectedExecution = `no, flow, entry, input, key, open, duplicates, dead, created_at AS "createdAt", ended_at AS "endedAt",
  outputs, retention_ms AS "retentionMs"`;
const select = `SELECT ${selectedExecution} FROM onceflow_executions WHERE no = ?`;
const insert = `INSERT INTO onceflow_executions
  (no, flow, entry, key, open, duplicates, dead, created_at, ended_at, retention_ms, expires_at, outputs, input)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
const change = "UPDATE onceflow_executions SET open = ?, duplicates = ?, dead = ?, ended_at = ?, expires_at = ?, outputs = ? WHERE no = ?";
const insertNote = `INSERT INTO onceflow_notes (execution, at, kind, queue, packet, about)
  SELECT ?, ?, ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM onceflow_executions WHERE no = ?)
  AND (SELECT count(*) FROM onceflow_notes WHERE execution = ?) < ${notesMax}`;

export function readExecution(sql: Prepared, no: number): ExecutionRow | undefined {
  const row = sql(select).get(no);
  return row === undefined ? undefined : toExecution(row);
}

export function toExecution(found: unknown): ExecutionRow {
  const row = found as Omit<ExecutionRow, "outputs"> & { readonly outputs: string | null };
  const { no, flow, entry, input, key, open, duplicates, dead, createdAt, endedAt, retentionMs } = row;
  const outputs = row.outputs === null ? [] : (JSON.parse(row.outputs) as string[]);
  return { no, flow, entry, input, key, open, duplicates, dead, createdAt, endedAt, outputs, retentionMs };
}

export function insertExecution(sql: Prepared, row: ExecutionRow): void {
  const { no, flow, entry, key, open, duplicates, dead, createdAt, endedAt, retentionMs, input } = row;
  const names = [no, text(flow), text(entry), text(key)];
  sql(insert).run(...names, open, duplicates, dead, createdAt, endedAt, retentionMs, expiryOf(row), outputsOf(row), text(input));
}

export function changeExecution(sql: Prepared, row: ExecutionRow): void {
  const { no, open, duplicates, dead, endedAt } = row;
  sql(change).run(open, duplicates, dead, endedAt, expiryOf(row), outputsOf(row), no);
}

export function writeNote(sql: Prepared, execution: number, { at, kind, queue, packet, about }: ExecutionNote): void {
  sql(insertNote).run(execution, at, kind, queue, packet, text(about), execution, execution);
}

/** Only what has ended has an expiry. */
function expiryOf({ endedAt, retentionMs }: ExecutionRow): SqliteValue {
  return endedAt === null || retentionMs === null ? null : endedAt + retentionMs;
}

function outputsOf({ outputs }: ExecutionRow): SqliteValue {
  return outputs.length === 0 ? null : JSON.stringify(outputs);
}
