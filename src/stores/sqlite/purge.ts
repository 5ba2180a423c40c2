import type { PurgeQuery } from "../../core/store.js";
import type { SqliteDatabase } from "./driver.js";

/** Only settled records have an expiry: what is running or unknown is never touched. One transaction, bounded by `limit`. */
export function purgeRecords(database: SqliteDatabase, now: number, { before, limit }: PurgeQuery): number {
  const until = Math.min(before ?? now, now);
  const over = database
    .prepare(
      "SELECT scope, key, gone_at <= ?1 AS gone FROM onceflow_records WHERE expires_at <= ?1 AND (gone_at <= ?1 OR outcome IS NOT NULL) LIMIT ?2",
    )
    .all(until, limit) as { scope: string; key: string; gone: number }[];
  if (over.length === 0) return 0;
  database.exec("BEGIN IMMEDIATE");
  try {
    // Conditions again: between the read and the lock a key may have started afresh.
    const strip = database.prepare(
      "UPDATE onceflow_records SET outcome = NULL, rev = rev + 1 WHERE scope = ? AND key = ? AND expires_at <= ?",
    );
    const remove = database.prepare("DELETE FROM onceflow_records WHERE scope = ? AND key = ? AND gone_at <= ?");
    const forget = ["onceflow_attempts", "onceflow_audit"].map((table) =>
      database.prepare(`DELETE FROM ${table} WHERE scope = ? AND key = ?`),
    );
    for (const { scope, key, gone } of over) {
      if (!gone) strip.run(scope, key, until);
      else if (Number(remove.run(scope, key, until).changes) === 1) for (const log of forget) log.run(scope, key);
    }
    database.exec("COMMIT");
  } catch (error) {
    database.exec("ROLLBACK");
    throw error;
  }
  return over.length;
}
