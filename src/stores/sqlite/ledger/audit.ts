import type { RecordId } from "../../../core/ledger/record.js";
import type { AuditEntry, AuditedEntry } from "../../../core/store/store.js";
import type { SqliteDatabase } from "../driver.js";

export function appendAudit(database: SqliteDatabase, now: number, entries: readonly AuditEntry[]): void {
  database
    .prepare(
      `INSERT INTO onceflow_audit (scope, key, at, owner, answer, attempt)
       SELECT value ->> 'scope', value ->> 'key', ?, value ->> 'owner', value ->> 'answer', value ->> 'attempt' FROM json_each(?)`,
    )
    .run(now, JSON.stringify(entries));
}

export function readAudit(database: SqliteDatabase, { scope, key }: RecordId, limit: number): AuditedEntry[] {
  const newest = database
    .prepare("SELECT scope, key, at, owner, answer, attempt FROM onceflow_audit WHERE scope = ? AND key = ? ORDER BY rowid DESC LIMIT ?")
    .all(scope, key, limit) as AuditedEntry[];
  return newest.reverse();
}
