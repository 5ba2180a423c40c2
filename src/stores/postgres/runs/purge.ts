import { workerKeptMs } from "../../../core/runs/run.js";
import type { PgClient } from "../driver.js";
import { serverNow } from "../ledger/read.js";

/**
 * Removes expired runs with everything that belongs to them. Only ended runs without unsettled steps have an expiry. The time is a
 * subquery that is evaluated once: a join, or a volatile function, would not limit the index scan. One statement, limited to
 * `limit` runs; locked runs are skipped until the next purge, so that a purge does not wait.
 */
export async function purgeRuns(client: PgClient, schema: string, limit: number): Promise<number> {
  const theirs = "run = ANY (ARRAY(SELECT id FROM over))";
  const sql = `
    WITH over AS MATERIALIZED (
      SELECT id FROM ${schema}.runs WHERE expires_at <= (SELECT ${serverNow}) ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
    ),
    entries AS (DELETE FROM ${schema}.journal WHERE ${theirs}),
    letters AS (DELETE FROM ${schema}.mail WHERE ${theirs}),
    tokens AS (DELETE FROM ${schema}.hooks WHERE ${theirs}),
    pieces AS (DELETE FROM ${schema}.chunks WHERE ${theirs}),
    silent AS (DELETE FROM ${schema}.run_workers WHERE seen_at <= (SELECT ${serverNow}) - ${workerKeptMs}),
    removed AS (DELETE FROM ${schema}.runs WHERE id = ANY (ARRAY(SELECT id FROM over)) RETURNING 1)
    SELECT count(*) AS purged FROM removed`;
  const { rows } = await client.query<{ purged: number }>(sql, [limit]);
  return rows[0]?.purged ?? 0;
}
