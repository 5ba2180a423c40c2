import type { LedgerRecord, RecordId } from "../../../core/ledger/record.js";
import type { Reading } from "../../../core/store/store.js";
import type { PgClient } from "../driver.js";

export const serverNow = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

export const selected = `scope, key, state, fingerprint, effect, attempt, owner, created_at AS "createdAt", started_at AS "startedAt",
  lease_until AS "leaseUntil", settled_at AS "settledAt", retention_ms AS "retentionMs", horizon_ms AS "horizonMs",
  reconcile_after_ms AS "reconcileAfterMs", progress, outcome, expires_at AS "expiresAt", gone_at AS "goneAt", verdict, note, rev`;

export async function readRecord(client: PgClient, schema: string, { scope, key }: RecordId): Promise<Reading | undefined> {
  const sql = `SELECT ${selected}, ${serverNow} AS now FROM ${schema}.records WHERE scope = $1 AND key = $2`;
  const { rows } = await client.query<LedgerRecord & { now: number }>(sql, [scope, key]);
  return rows[0] && toReading(rows[0]);
}

export function toReading({ now, ...record }: LedgerRecord & { readonly now: number }): Reading {
  return { record, now };
}
