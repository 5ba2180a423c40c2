import type { LogEntry, LogQuery, NewLogEntry } from "../../../core/runs/log.js";
import type { Prepared } from "../connection/prepared.js";
import { text } from "./row.js";

const columns = "no, id, at, actor, action, subject, reason, detail";
const selectOne = `SELECT ${columns} FROM onceflow_operator_log WHERE id = ?`;
const insert = "INSERT INTO onceflow_operator_log (id, at, actor, action, subject, reason, detail) VALUES (?, ?, ?, ?, ?, ?, ?)";

export function logged(sql: Prepared, id: string): LogEntry | undefined {
  const row = sql(selectOne).get(text(id)) as LogEntry | undefined;
  return row && toLogEntry(row);
}

export function insertLog(sql: Prepared, entry: NewLogEntry, at: number): LogEntry {
  const { id, actor, action, subject, reason, detail } = entry;
  const { lastInsertRowid } = sql(insert).run(text(id), at, text(actor), text(action), text(subject), text(reason), text(detail));
  return { ...entry, no: Number(lastInsertRowid), at };
}

export function readLog(sql: Prepared, { subject, id, before, limit }: LogQuery): LogEntry[] {
  const conditions = [
    ["subject = ?", subject === undefined ? undefined : text(subject)],
    ["id = ?", id === undefined ? undefined : text(id)],
    ["no < ?", before],
  ] as const;
  const given = conditions.flatMap(([condition, value]) => (value === undefined ? [] : [{ condition, value }]));
  const where = given.length === 0 ? "" : `WHERE ${given.map(({ condition }) => condition).join(" AND ")}`;
  const select = `SELECT ${columns} FROM onceflow_operator_log ${where} ORDER BY no DESC LIMIT ?`;
  return (sql(select).all(...given.map(({ value }) => value), limit) as LogEntry[]).map(toLogEntry);
}

/** A plain object: the rows of one driver have no prototype. */
function toLogEntry({ no, id, at, actor, action, subject, reason, detail }: LogEntry): LogEntry {
  return { no, id, at, actor, action, subject, reason, detail };
}
