import { type LedgerRecord, stateAt } from "../../../core/ledger/record.js";
import type { ListQuery, Reading } from "../../../core/store/store.js";
import type { SqliteDatabase, SqliteValue } from "../driver.js";
import { selected } from "./row.js";

/**
 * The state asked for is the one that is true now: a lapsed record that may not be re-run counts as unknown, so both
 * listings look among the running ones.
 */
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
    // The first half is the index's own condition, to the letter: so it is found among millions.
    also(`(state = 'unknown' OR (state = 'running' AND ${mayNotRunAgain})) AND (state = 'unknown' OR lease_until <= ?)`, now);
  else if (state === "running") also(`state = 'running' AND NOT (lease_until <= ? AND ${mayNotRunAgain})`, now);
  else if (state !== undefined) also("state = ?", state);
  // Not LIKE: it ignores case. The lower bound lets the key's own order skip what comes before.
  if (prefix !== undefined) also("key >= ? AND substr(key, 1, length(?)) = ?", prefix, prefix, prefix);
  if (after !== undefined) also("(scope, key) > (?, ?)", after.scope, after.key);
  const sql = `SELECT ${selected} FROM onceflow_records r ${where.length > 0 ? `WHERE ${where.join(" AND ")}` : ""} ORDER BY scope, key LIMIT ?`;
  const records = database.prepare(sql).all(...values, limit) as LedgerRecord[];
  return records.filter((record) => state === undefined || stateAt(record, now) === state).map((record) => ({ record, now }));
}
