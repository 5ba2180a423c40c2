import { workerKeptMs } from "../../../core/runs/run.js";
import type { PgClient } from "../driver.js";
import { serverNow } from "../ledger/read.js";

/**
 * Only runs that have ended and are settled have an expiry. The instant is a subquery, read once: joined, it would not bound the scan of the index,
 * and neither would a function that may change from row to row. One statement, bounded by `limit`, with all that belongs to the runs; those that
 * somebody holds are left for the next time, so that a purge waits for nobody.
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
