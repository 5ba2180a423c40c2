import { decide, forgets, outcomeOf, verdictOf } from "../../../core/ledger/decide.js";
import type { Begin, Settle } from "../../../core/ledger/operation.js";
import type { LedgerRecord, RecordId } from "../../../core/ledger/record.js";
import type { Verdicted } from "../../../core/store/store.js";
import type { SqliteDatabase, SqliteStatement, SqliteValue } from "../driver.js";
import { clockSql, selected } from "./row.js";

/** The values that a begin and a settle bind, in this order. */
const beginColumns = [
  "scope",
  "key",
  "owner",
  "fingerprint",
  "effect",
  "lease_ms",
  "retention_ms",
  "horizon_ms",
  "reconcile_after_ms",
  "progress",
] as const;
const settleColumns = ["scope", "key", "owner", "attempt", "to_state", "outcome", "forget", "verdict", "note"] as const;

/** SQL for a value in a statement: a bound parameter, or a column of a row. */
type ValueOf<Column> = (column: Column) => string;

/**
 * The two common operations with as few calls of the driver as possible: begins of keys that do not exist, and settles by the
 * owner of a running attempt. A single one is bound as plain values; several are passed as one JSON text, because every call, every
 * bound value and every returned column costs about as much as the row itself.
 *
 * If a statement applied only some of its operations, the caller rolls back and applies them record by record.
 */
export class QuickStatements {
  readonly #peekOne: SqliteStatement;
  readonly #peekMany: SqliteStatement;
  readonly #insertOne: SqliteStatement;
  readonly #insertMany: SqliteStatement;
  readonly #settleOne: SqliteStatement;
  readonly #settleMany: SqliteStatement;

  constructor(database: Pick<SqliteDatabase, "prepare">) {
    this.#peekOne = database.prepare(`SELECT ${selected} FROM onceflow_records r WHERE scope = ? AND key = ?`);
    this.#peekMany = database.prepare(
      `SELECT ${selected} FROM json_each(?) j CROSS JOIN onceflow_records r WHERE r.scope = j.value ->> 0 AND r.key = j.value ->> 1`,
    );
    const member = (column: string) => `j.${column}`;
    const clock = `FROM (SELECT ${clockSql} AS now) c`;
    this.#insertOne = database.prepare(insertSql("?1", boundFrom(2, beginColumns), "WHERE true"));
    this.#insertMany = database.prepare(rowsOf(beginColumns) + insertSql("?1", member, "FROM j WHERE true"));
    this.#settleOne = database.prepare(settleSql("c.now", boundFrom(1, settleColumns), clock));
    this.#settleMany = database.prepare(rowsOf(settleColumns) + settleSql("?1", member, "FROM j"));
  }

  /** The existing records of these begins. */
  peek(begins: readonly RecordId[]): LedgerRecord[] {
    const [only] = begins;
    if (only === undefined) return [];
    if (begins.length > 1) return this.#peekMany.all(JSON.stringify(begins.map(({ scope, key }) => [scope, key]))) as LedgerRecord[];
    const record = this.#peekOne.get(only.scope, only.key) as LedgerRecord | undefined;
    return record ? [record] : [];
  }

  /**
   * Begins one record; the statement is its own transaction. Returns whether it was inserted. Uses run(), which steps to the end and
   * so reports an error of the commit; get() with RETURNING would return its row before the commit.
   */
  beginOne(begin: Begin, now: number): boolean {
    return Number(this.#insertOne.run(now, ...beginValues(begin)).changes) === 1;
  }

  /** Settles one record; the statement is its own transaction. Returns false if it was not running under this owner. */
  settleOne(settle: Settle): boolean {
    return Number(this.#settleOne.run(...settleValues(settle)).changes) === 1;
  }

  /** Returns whether all of them were inserted. */
  begin(begins: readonly Begin[], now: number): boolean {
    return begins.length === 0 || Number(this.#insertMany.run(now, JSON.stringify(begins.map(beginValues))).changes) === begins.length;
  }

  /** Returns whether all of them were running under their owner and are now settled. */
  settle(settles: readonly Settle[], now: number): boolean {
    return settles.length === 0 || Number(this.#settleMany.run(now, JSON.stringify(settles.map(settleValues))).changes) === settles.length;
  }
}

/** The result of a begin that was inserted. */
export function started(begin: Begin, now: number): Verdicted {
  const { answer, next } = decide(undefined, begin, now);
  return { answer, record: next, now };
}

/** The rows of a JSON text. Materialized, so that each member is extracted only once. */
function rowsOf(columns: readonly string[]): string {
  const members = columns.map((column, i) => `value ->> ${i} AS ${column}`).join(", ");
  return `WITH j AS MATERIALIZED (SELECT ${members} FROM json_each(?2)) `;
}

/** Consecutive bound parameters that begin with `?first`. */
function boundFrom<Column extends string>(first: number, columns: readonly Column[]): ValueOf<Column> {
  return (column) => `?${columns.indexOf(column) + first}`;
}

function beginValues(begin: Begin): SqliteValue[] {
  const { scope, key, owner, fingerprint, effect, leaseMs, retentionMs, horizonMs, reconcileAfterMs, progress } = begin;
  return [scope, key, owner, fingerprint, effect, leaseMs, retentionMs, horizonMs, reconcileAfterMs, progress];
}

function insertSql(now: string, value: ValueOf<(typeof beginColumns)[number]>, from: string): string {
  return `INSERT INTO onceflow_records (scope, key, owner, fingerprint, effect, lease_until, retention_ms, horizon_ms, reconcile_after_ms,
      progress, state, attempt, created_at, started_at, verdict, rev)
    SELECT ${value("scope")}, ${value("key")}, ${value("owner")}, ${value("fingerprint")}, ${value("effect")}, ${now} + ${value("lease_ms")},
      ${value("retention_ms")}, ${value("horizon_ms")}, ${value("reconcile_after_ms")}, ${value("progress")},
      'running', 1, ${now}, ${now}, 'running', 1
    ${from} ON CONFLICT DO NOTHING`;
}

function settleValues(settle: Settle): SqliteValue[] {
  const { scope, key, owner, attempt, to, note } = settle;
  return [scope, key, owner, attempt, to.state, outcomeOf(to), forgets(to) ? 1 : 0, verdictOf(settle), note];
}

function settleSql(now: string, value: ValueOf<(typeof settleColumns)[number]>, from: string): string {
  const isSettled = `${value("to_state")} <> 'unknown'`;
  return `UPDATE onceflow_records AS r SET state = ${value("to_state")}, outcome = ${value("outcome")}, settled_at = ${now},
      fingerprint = CASE WHEN ${value("forget")} THEN NULL ELSE r.fingerprint END,
      expires_at = CASE WHEN ${isSettled} THEN ${now} + r.retention_ms END,
      gone_at = CASE WHEN ${isSettled} THEN ${now} + r.retention_ms + r.horizon_ms END,
      progress = CASE WHEN ${value("to_state")} = 'unknown' THEN r.progress END,
      verdict = ${value("verdict")}, note = ${value("note")}, rev = r.rev + 1
    ${from} WHERE r.scope = ${value("scope")} AND r.key = ${value("key")} AND r.owner = ${value("owner")}
      AND r.attempt = ${value("attempt")} AND r.state = 'running'`;
}
