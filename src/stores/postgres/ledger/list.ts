import { type LedgerRecord, stateAt } from "../../../core/ledger/record.js";
import type { ListQuery, Reading } from "../../../core/store/store.js";
import type { PgClient } from "../driver.js";
import { selected, serverNow, toReading } from "./read.js";

/** Filters by the state that is true now: a running record with an expired lease that must not be re-run counts as unknown. */
export async function listRecords(client: PgClient, schema: string, query: ListQuery): Promise<Reading[]> {
  const { scope, state, prefix, after, limit } = query;
  const where: string[] = [];
  const values: (string | number)[] = [];
  const bind = (value: string | number) => `$${values.push(value)}`;
  const lapsedForGood = "lease_until <= clock.now AND effect >= 'reconcile'";
  if (scope !== undefined) where.push(`scope = ${bind(scope)}`);
  if (state === "unknown") where.push(`effect >= 'reconcile' AND (state = 'unknown' OR (state = 'running' AND ${lapsedForGood}))`);
  else if (state === "running") where.push(`state = 'running' AND NOT (${lapsedForGood})`);
  else if (state !== undefined) where.push(`state = ${bind(state)}`);
  if (prefix !== undefined) where.push(`starts_with(key, ${bind(prefix)})`);
  if (after !== undefined) where.push(`(scope, key) > (${bind(after.scope)}, ${bind(after.key)})`);
  const { rows } = await client.query<LedgerRecord & { now: number }>(
    // One instant for the whole page: with two, a record could be left out between them, and the page could look like the last one.
    `WITH clock AS MATERIALIZED (SELECT ${serverNow} AS now)
     SELECT ${selected}, clock.now FROM ${schema}.records, clock ${where.length > 0 ? `WHERE ${where.join(" AND ")}` : ""}
     ORDER BY scope, key LIMIT ${bind(limit)}`,
    values,
  );
  return rows.map(toReading).filter(({ record, now }) => state === undefined || stateAt(record, now) === state);
}
