import type { RecordId } from "../../../core/ledger/record.js";
import type { AuditEntry, AuditedEntry } from "../../../core/store/store.js";
import type { PgClient } from "../driver.js";
import { serverNow } from "./read.js";

export async function appendAudit(client: PgClient, schema: string, entries: readonly AuditEntry[]): Promise<void> {
  const sql = `INSERT INTO ${schema}.audit (scope, key, at, owner, answer, attempt)
    SELECT scope, key, ${serverNow}, owner, answer, attempt
    FROM json_to_recordset($1::json) AS e(scope text, key text, owner text, answer text, attempt bigint)`;
  await client.query(sql, [JSON.stringify(entries)]);
}

export async function readAudit(client: PgClient, schema: string, { scope, key }: RecordId, limit: number): Promise<AuditedEntry[]> {
  const sql = `SELECT scope, key, at, owner, answer, attempt FROM ${schema}.audit WHERE scope = $1 AND key = $2 ORDER BY id DESC LIMIT $3`;
  const { rows } = await client.query<AuditedEntry>(sql, [scope, key, limit]);
  return rows.reverse();
}
