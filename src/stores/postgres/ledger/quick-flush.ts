import { decide, forgets, outcomeOf, verdictOf } from "../../../core/ledger/decide.js";
import type { Begin, Operation, Settle } from "../../../core/ledger/operation.js";
import type { Verdicted } from "../../../core/store/store.js";
import type { PgClient } from "../driver.js";
import { columnsOf, type Scalar } from "../parameters/columns.js";
import { beginOneStatement, manyStatement, settleOneStatement } from "./quick-statement.js";
import { type RecordRow, toRecord } from "./row.js";

interface QuickRow {
  readonly now: number;
  /** In the first row: how many were done. */
  readonly begun?: number | null;
  readonly settled?: number | null;
  /** Number of the begin, from 1, for which `record` already exists. */
  readonly ord: number | null;
  readonly record: RecordRow | null;
}

/** Runs the quick statement. Undefined for an operation that needs the full statement. */
export async function quickFlush(client: PgClient, schema: string, operations: readonly Operation[]): Promise<(Verdicted | undefined)[]> {
  const verdicts: (Verdicted | undefined)[] = operations.map(() => undefined);
  const begins: [index: number, begin: Begin][] = [];
  const settles: [index: number, settle: Settle][] = [];
  for (const [i, operation] of operations.entries()) {
    if (operation.verb === "begin" && operation.over === null) begins.push([i, operation]);
    else if (operation.verb === "settle") settles.push([i, operation]);
  }
  if (begins.length + settles.length === 0) return verdicts;

  const alone = begins.length + settles.length === 1;
  const values = [
    ...columnsOf(
      begins.map(([, begin]) => beginValues(begin)),
      alone,
    ),
    ...columnsOf(
      settles.map(([, settle]) => settleValues(settle)),
      alone,
    ),
  ];
  const { rows, rowCount } = await client.query<QuickRow>({ ...statementFor(schema, begins.length, settles.length), values });
  const [counts] = rows;
  const now = counts?.now ?? 0;
  const existing = new Map(
    rows.flatMap(({ ord, record }) => (ord === null || record === null ? [] : [[ord - 1, toRecord(record)] as const])),
  );
  const allBegun = counts?.begun === begins.length - existing.size;
  for (const [n, [index, begin]] of begins.entries()) {
    const record = existing.get(n);
    const { answer, next } = decide(record, begin, now);
    // Inserted, or a replay or refusal, which writes nothing. Otherwise it needs the full statement.
    if (record === undefined ? allBegun : next === undefined) verdicts[index] = { answer, record: next ?? record, now };
  }
  const settled = counts === undefined ? rowCount : counts.settled;
  if (settled === settles.length) for (const [index] of settles) verdicts[index] = { answer: { kind: "settled" }, record: undefined, now };
  return verdicts;
}

interface Statement {
  readonly name: string;
  readonly text: string;
}

const statements = new Map<string, Statement>();

/** Prepared once per connection under its name. */
function statementFor(schema: string, begins: number, settles: number): Statement {
  const alone = begins + settles === 1;
  const name = `onceflow-${schema}-${alone ? "one" : "many"}${begins > 0 ? "-begin" : ""}${settles > 0 ? "-settle" : ""}`;
  let statement = statements.get(name);
  if (statement === undefined) {
    const one = () => (begins === 1 ? beginOneStatement(schema) : settleOneStatement(schema));
    statement = { name, text: alone ? one() : manyStatement(schema, { begins: begins > 0, settles: settles > 0 }) };
    statements.set(name, statement);
  }
  return statement;
}

function beginValues(begin: Begin): Scalar[] {
  const { scope, key, owner, fingerprint, effect, leaseMs, retentionMs, horizonMs, reconcileAfterMs, progress } = begin;
  return [scope, key, owner, fingerprint, effect, leaseMs, retentionMs, horizonMs, reconcileAfterMs, progress];
}

function settleValues(settle: Settle): Scalar[] {
  const { scope, key, owner, attempt, to, note } = settle;
  return [scope, key, owner, attempt, to.state, outcomeOf(to), forgets(to), verdictOf(settle), note];
}
