import type { PurgeQuery } from "../../../core/store/store.js";
import { undo } from "../connection/connections.js";
import type { SqliteDatabase } from "../driver.js";

/**
 * Number of records that one purge checks for abandoned ones. There is no index of them: every begin and settle would have to
 * maintain it.
 */
const sweptMax = 10_000;

interface Found {
  readonly scope: string;
  readonly key: string;
  readonly gone: number;
}

/** As `abandonedAt` in core/ledger/record.ts. */
const abandoned = "state = 'running' AND effect IN ('idempotent', 'keyed') AND lease_until + retention_ms + horizon_ms <= ?1";

/**
 * Removes expired records and abandoned running records, but never an unknown one. One transaction, limited to `limit`
 * records. The search for abandoned records continues where the previous purge ended.
 */
export class RecordPurge {
  readonly #database: SqliteDatabase;
  #sweptTo: Pick<Found, "scope" | "key"> = { scope: "", key: "" };

  constructor(database: SqliteDatabase) {
    this.#database = database;
  }

  purge(now: number, { before, limit }: PurgeQuery): number {
    const until = Math.min(before ?? now, now);
    const over = this.#database
      .prepare(
        "SELECT scope, key, gone_at <= ?1 AS gone FROM onceflow_records WHERE expires_at <= ?1 AND (gone_at <= ?1 OR outcome IS NOT NULL) LIMIT ?2",
      )
      .all(until, limit) as Found[];
    const all = over.length === limit ? over : [...over, ...this.#sweep(until, limit - over.length)];
    if (all.length > 0) this.#remove(until, all);
    return all.length;
  }

  #sweep(until: number, limit: number): Found[] {
    const { scope, key } = this.#sweptTo;
    const end = this.#database
      .prepare("SELECT scope, key FROM onceflow_records WHERE (scope, key) > (?, ?) ORDER BY scope, key LIMIT 1 OFFSET ?")
      .get(scope, key, sweptMax - 1) as Found | undefined;
    const upTo = end === undefined ? "" : "AND (scope, key) <= (?5, ?6)";
    const found = this.#database
      .prepare(
        `SELECT scope, key, 1 AS gone FROM onceflow_records WHERE (scope, key) > (?3, ?4) ${upTo} AND ${abandoned} ORDER BY scope, key LIMIT ?2`,
      )
      .all(until, limit, scope, key, ...(end === undefined ? [] : [end.scope, end.key])) as Found[];
    this.#sweptTo = (found.length === limit ? found.at(-1) : end) ?? { scope: "", key: "" };
    return found;
  }

  #remove(until: number, found: readonly Found[]): void {
    const database = this.#database;
    database.exec("BEGIN IMMEDIATE");
    try {
      // Repeat the conditions: between the read and the lock a key may have been begun again.
      const strip = database.prepare(
        "UPDATE onceflow_records SET outcome = NULL, rev = rev + 1 WHERE scope = ? AND key = ? AND expires_at <= ?",
      );
      const remove = database.prepare(`DELETE FROM onceflow_records WHERE scope = ?2 AND key = ?3 AND (gone_at <= ?1 OR (${abandoned}))`);
      const forget = ["onceflow_attempts", "onceflow_audit"].map((table) =>
        database.prepare(`DELETE FROM ${table} WHERE scope = ? AND key = ?`),
      );
      for (const { scope, key, gone } of found) {
        if (!gone) strip.run(scope, key, until);
        else if (Number(remove.run(until, scope, key).changes) === 1) for (const log of forget) log.run(scope, key);
      }
      database.exec("COMMIT");
    } catch (error) {
      undo(database);
      throw error;
    }
  }
}
