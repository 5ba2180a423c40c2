import { type RecordId, rowOf } from "../../../../core/ledger/record.js";
import type { LockedRows } from "../../../shared/loaded-packet-table.js";
import type { Wishes } from "../../../shared/packet-wishes.js";
import { arrayLiteral } from "../../parameters/columns.js";
import { ask, type PacketConnection } from "../ask.js";

/**
 * - try: skip lanes that another transaction has locked; wait for rows
 * - wait: wait for lanes and rows
 * - skip: wait for nothing
 */
export type LockMode = "try" | "wait" | "skip";

/** The locks that were acquired, until the end of the transaction. */
export interface Locked extends LockedRows {
  readonly isolation: string;
}

interface Answer {
  readonly lanes: readonly string[] | null;
  readonly executions: readonly number[] | null;
  readonly keys: readonly number[] | null;
  readonly isolation: string;
}

/**
 * Acquires locks in the same order in every transaction, so that there are no deadlocks: lanes by their hash, executions and
 * packets by number, keys in the order of the ledger's flushes. The parts of the result are evaluated from left to right. A lane
 * has no row of its own and may be empty, so its lock is advisory. The rows must be read by a statement that begins after this one,
 * because this statement sees the rows as they were before it waited.
 */
function lockStatement(mode: LockMode): string {
  const lock = mode === "wait" ? "pg_advisory_xact_lock(h) IS NOT NULL" : "pg_try_advisory_xact_lock(h)";
  const update = mode === "skip" ? "FOR UPDATE SKIP LOCKED" : "FOR UPDATE";
  return `WITH lanes AS MATERIALIZED (
  SELECT name, h, ${lock} AS had
  FROM (SELECT name, hashtextextended('$schema ' || name, 7) AS h FROM unnest($1::text[]) AS l(name) ORDER BY 2 OFFSET 0) l
), executions AS MATERIALIZED (
  SELECT e.no FROM $schema.executions e WHERE e.no = ANY ($2::bigint[]) ORDER BY e.no ${update}
), keys AS MATERIALIZED (
  SELECT a.ord FROM unnest($3::text[], $4::text[]) WITH ORDINALITY AS a(scope, key, ord), LATERAL (
    SELECT FROM $schema.records r WHERE r.scope = a.scope AND r.key = a.key ${update}) x
), packets AS MATERIALIZED (
  SELECT p.no FROM $schema.packets p WHERE p.no = ANY ($5::bigint[]) ORDER BY p.no ${update}
)
SELECT json_build_object('lanes', (SELECT json_agg(name) FROM lanes WHERE had), 'executions', (SELECT json_agg(no) FROM executions),
  'keys', (SELECT json_agg(ord) FROM keys), 'packets', (SELECT count(*) FROM packets),
  'isolation', current_setting('transaction_isolation'))::text AS answer`;
}

export async function lock(connection: PacketConnection, wishes: Wishes, mode: LockMode): Promise<Locked> {
  const { lanes, executions, keys, settled } = wishes;
  const ids = [...keys].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, id]) => id);
  const values = [arrayLiteral([...lanes.keys()]), list(executions), ...keyArrays(ids), list(settled)];
  const answer = await ask<Answer>(connection, { name: `lock-${mode}`, text: lockStatement(mode) }, values);
  return {
    lanes: new Set(answer.lanes),
    executions: new Set(answer.executions),
    keys: new Set((answer.keys ?? []).map((ord) => rowOf(ids[ord - 1] as RecordId))),
    isolation: answer.isolation,
  };
}

export function keyArrays(ids: readonly RecordId[]): [string, string] {
  return [arrayLiteral(ids.map(({ scope }) => scope)), arrayLiteral(ids.map(({ key }) => key))];
}

export function list(nos: Iterable<number>): string {
  return `{${[...nos].join(",")}}`;
}
