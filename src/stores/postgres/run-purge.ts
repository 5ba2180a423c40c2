import type { PgClient } from "./driver.js";
import { serverNow } from "./read.js";

/**
 * Only ended runs have an expiry. One statement, bounded by `limit`, with all that belongs to the runs; those that
 * somebody holds are left for the next time, so that a purge waits for nobody.
 */
export async function purgeRuns(client: PgClient, schema: string, limit: number): Promise<number> {
  const theirs = "run = ANY (ARRAY(SELECT id FROM over))";
  const sql = `
    WITH clock AS MATERIALIZED (SELECT ${serverNow} AS now),
    over AS MATERIALIZED (
      SELECT r.id FROM ${schema}.runs r, clock WHERE r.expires_at <= now ORDER BY r.expires_at LIMIT $1 FOR UPDATE OF r SKIP LOCKED
    ),
    entries AS (DELETE FROM ${schema}.journal WHERE ${theirs}),
    letters AS (DELETE FROM ${schema}.mail WHERE ${theirs}),
    tokens AS (DELETE FROM ${schema}.hooks WHERE ${theirs}),
    removed AS (DELETE FROM ${schema}.runs WHERE id = ANY (ARRAY(SELECT id FROM over)) RETURNING 1)
    SELECT count(*) AS purged FROM removed`;
  const { rows } = await client.query<{ purged: number }>(sql, [limit]);
  return rows[0]?.purged ?? 0;
}
