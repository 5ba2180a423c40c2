import { type LedgerRecord, stateAt } from "../../../core/ledger/record.js";
import type { ListQuery, Reading } from "../../../core/store/store.js";
import type { SqliteDatabase, SqliteValue } from "../driver.js";
import { selected } from "./row.js";

/** Filters by the state that is true now: a running record with an expired lease that must not be re-run counts as unknown. */
export function listRecords(database: SqliteDatabase, now: number, { scope, state, prefix, after, limit }: ListQuery): Reading[] {
  const where: string[] = [];
  const values: SqliteValue[] = [];
  const also = (condition: string, ...bound: SqliteValue[]) => {
    where.push(condition);
    values.push(...bound);
  };
  const mayNotRunAgain = "effect IN ('reconcile', 'atMostOnce')";
  if (scope !== undefined) also("scope = ?", scope);
  if (state === "unknown")
    // The first half repeats the index's condition literally, so that SQLite uses the index.
    also(`(state = 'unknown' OR (state = 'running' AND ${mayNotRunAgain})) AND (state = 'unknown' OR lease_until <= ?)`, now);
  else if (state === "running") also(`state = 'running' AND NOT (lease_until <= ? AND ${mayNotRunAgain})`, now);
  else if (state !== undefined) also("state = ?", state);
  // Not LIKE, which ignores case. The lower bound lets SQLite skip smaller keys by the index.
  if (prefix !== undefined) also("key >= ? AND substr(key, 1, length(?)) = ?", prefix, prefix, prefix);
  if (after !== undefined) also("(scope, key) > (?, ?)", after.scope, after.key);
  const sql = `SELECT ${selected} FROM onceflow_records r ${where.length > 0 ? `WHERE ${where.join(" AND ")}` : ""} ORDER BY scope, key LIMIT ?`;
  const records = database.prepare(sql).all(...values, limit) as LedgerRecord[];
  return records.filter((record) => state === undefined || stateAt(record, now) === state).map((record) => ({ record, now }));
}
