import type { LogEntry, LogQuery } from "../../../core/runs/log.js";
import type { HookRecord, JournalEntry, Mail, RunRecord } from "../../../core/runs/run.js";
import type { PgClient } from "../driver.js";
import { serverNow } from "../ledger/read.js";
import { selectedEntry, selectedHook, selectedLogEntry, selectedMail, selectedRun } from "./row.js";

export async function readRun(client: PgClient, schema: string, id: string): Promise<RunRecord | undefined> {
  const { rows } = await client.query<RunRecord>(`SELECT ${selectedRun} FROM ${schema}.runs WHERE id = $1`, [id]);
  return rows[0];
}

export async function readJournal(client: PgClient, schema: string, id: string, after: number, limit: number): Promise<JournalEntry[]> {
  const sql = `SELECT ${selectedEntry} FROM ${schema}.journal WHERE run = $1 AND seq > $2 AND events IS NOT NULL ORDER BY seq LIMIT $3`;
  const { rows } = await client.query<JournalEntry>(sql, [id, after, limit]);
  return rows;
}

export async function readMail(client: PgClient, schema: string, run: string, after: number): Promise<Mail[]> {
  const sql = `SELECT ${selectedMail} FROM ${schema}.mail WHERE run = $1 AND seq > $2 ORDER BY seq`;
  const { rows } = await client.query<Mail>(sql, [run, after]);
  return rows;
}

export async function readHook(client: PgClient, schema: string, token: string): Promise<HookRecord | undefined> {
  const { rows } = await client.query<HookRecord>(`SELECT ${selectedHook} FROM ${schema}.hooks WHERE token = $1`, [token]);
  return rows[0];
}

/** The conditions are those of the index runs_stop. The time is a subquery that is evaluated once: a volatile function would not limit the index scan. */
export async function readOverdueStops(client: PgClient, schema: string, limit: number): Promise<string[]> {
  const sql = `SELECT id FROM ${schema}.runs WHERE stop_at <= (SELECT ${serverNow}) AND ended_at IS NULL
    AND (owner IS NULL OR wake_at <= (SELECT ${serverNow})) ORDER BY stop_at LIMIT $1`;
  const { rows } = await client.query<{ id: string }>(sql, [limit]);
  return rows.map(({ id }) => id);
}

export async function readLog(client: PgClient, schema: string, { subject, id, before, limit }: LogQuery): Promise<LogEntry[]> {
  const values: (string | number)[] = [limit];
  const given = Object.entries({ "subject =": subject, "id =": id, "no <": before });
  const where = given.flatMap(([condition, value]) => (value === undefined ? [] : [`${condition} $${values.push(value)}`]));
  const sql = `SELECT ${selectedLogEntry} FROM ${schema}.operator_log ${where.length === 0 ? "" : `WHERE ${where.join(" AND ")}`}
    ORDER BY no DESC LIMIT $1`;
  const { rows } = await client.query<LogEntry>(sql, values);
  return rows;
}
