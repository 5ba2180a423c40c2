import type { LogEntry, LogQuery } from "../../../core/runs/log.js";
import type { RunListQuery } from "../../../core/runs/operation.js";
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

/**
 * Reads the newest runs of every requested workflow and status by the index, and then the newest of those. Existing workflows are found by
 * jumps through the same index.
 */
export async function listRuns(client: PgClient, schema: string, { workflow, status, after, limit }: RunListQuery): Promise<RunRecord[]> {
  const values: (string | number)[] = [limit];
  const bind = (value: string | number) => `$${values.push(value)}`;
  const every = `(SELECT workflow FROM ${schema}.runs ORDER BY workflow LIMIT 1)
      UNION ALL
      SELECT (SELECT r.workflow FROM ${schema}.runs r WHERE r.workflow > n.workflow ORDER BY r.workflow LIMIT 1) FROM names n
      WHERE n.workflow IS NOT NULL`;
  const names = workflow === undefined ? every : `SELECT ${bind(workflow)}::text`;
  const statuses =
    status === undefined ? `unnest(enum_range(NULL::${schema}.run_status))` : `(SELECT ${bind(status)}::${schema}.run_status)`;
  const page = after && { at: `${bind(after.createdAt)}::bigint`, id: `${bind(after.id)}::text` };
  // The first condition is less exact, but the index can use it.
  const older = page ? `AND r.created_at <= ${page.at} AND (r.created_at, r.id) < (${page.at}, ${page.id})` : "";
  const { rows } = await client.query<RunRecord>(
    `WITH RECURSIVE names(workflow) AS (${names}),
    newest AS MATERIALIZED (
      SELECT x.id, x.created_at FROM names n, ${statuses} AS s(status) CROSS JOIN LATERAL (
        SELECT r.id, r.created_at FROM ${schema}.runs r WHERE r.workflow = n.workflow AND r.status = s.status ${older}
        ORDER BY r.created_at DESC, r.id DESC LIMIT $1) x
      ORDER BY x.created_at DESC, x.id DESC LIMIT $1)
    SELECT y.* FROM newest n CROSS JOIN LATERAL (SELECT ${selectedRun} FROM ${schema}.runs r WHERE r.id = n.id LIMIT 1) y
    ORDER BY n.created_at DESC, n.id DESC`,
    values,
  );
  return rows;
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
