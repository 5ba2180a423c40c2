import type { PurgeQuery } from "../../../core/store/store.js";
import type { PgClient } from "../driver.js";
import { serverNow } from "./read.js";

/**
 * Removes expired records and abandoned running records (core/ledger/record.ts, `abandonedAt`), but never an unknown one. One statement,
 * limited to `limit` rows; locked rows are skipped until the next purge, so that a purge does not wait.
 */
export async function purgeRecords(client: PgClient, schema: string, { before, limit }: PurgeQuery): Promise<number> {
  const sql = `
    WITH clock AS MATERIALIZED (SELECT least(coalesce($1::bigint, ${serverNow}), ${serverNow}) AS until),
    over AS MATERIALIZED (
      SELECT scope, key, coalesce(gone_at <= until, true) AS gone FROM ${schema}.records, clock
      WHERE purge_from <= until AND (
        (expires_at <= until AND (gone_at <= until OR outcome IS NOT NULL))
        OR (state = 'running' AND effect < 'reconcile' AND lease_until + retention_ms + horizon_ms <= until))
      ORDER BY purge_from LIMIT $2 FOR UPDATE OF records SKIP LOCKED
    ),
    removed AS (DELETE FROM ${schema}.records r USING over o WHERE o.gone AND r.scope = o.scope AND r.key = o.key RETURNING r.scope, r.key),
    forgotten AS (DELETE FROM ${schema}.attempts a USING removed x WHERE a.scope = x.scope AND a.key = x.key),
    unaudited AS (DELETE FROM ${schema}.audit a USING removed x WHERE a.scope = x.scope AND a.key = x.key),
    stripped AS (
      UPDATE ${schema}.records r SET outcome = NULL, rev = r.rev + 1 FROM over o WHERE NOT o.gone AND r.scope = o.scope AND r.key = o.key
      RETURNING 1
    )
    SELECT (SELECT count(*) FROM removed) + (SELECT count(*) FROM stripped) AS purged`;
  const { rows } = await client.query<{ purged: number }>(sql, [before ?? null, limit]);
  return Number(rows[0]?.purged ?? 0);
}
