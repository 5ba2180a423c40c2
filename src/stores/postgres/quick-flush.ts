import { decide, forgets, outcomeOf, verdictOf } from "../../core/decide.js";
import { assert } from "../../core/errors.js";
import type { Begin, Operation, Settle } from "../../core/operation.js";
import type { Verdicted } from "../../core/store.js";
import type { PgClient } from "./driver.js";
import { type QuickShape, quickStatement } from "./quick-statement.js";
import { type RecordRow, toRecord } from "./row.js";

type Scalar = string | number | boolean | null;

interface QuickRow {
  readonly verb: "begin" | "settle";
  readonly ord: number;
  readonly now: number;
  readonly done: boolean;
  readonly record: RecordRow | null;
}

/** What the quick statement could settle of a flush; `undefined` for what has to go through the full one. */
export async function quickFlush(client: PgClient, schema: string, operations: readonly Operation[]): Promise<(Verdicted | undefined)[]> {
  const verdicts: (Verdicted | undefined)[] = operations.map(() => undefined);
  const begins: [index: number, begin: Begin][] = [];
  const settles: [index: number, settle: Settle][] = [];
  for (const [i, operation] of operations.entries()) {
    if (operation.verb === "begin" && operation.over === null) begins.push([i, operation]);
    else if (operation.verb === "settle") settles.push([i, operation]);
  }
  if (begins.length + settles.length === 0) return verdicts;

  const shape: QuickShape = { begins: countOf(begins), settles: countOf(settles) };
  const values = [...bind(begins.map(([, begin]) => beginValues(begin))), ...bind(settles.map(([, settle]) => settleValues(settle)))];
  const { rows } = await client.query<QuickRow>({ ...statementFor(schema, shape), values });
  for (const { verb, ord, now, done, record } of rows) {
    const [index, operation] = (verb === "begin" ? begins[ord - 1] : settles[ord - 1]) ?? [];
    assert(index !== undefined && operation !== undefined, "every row of a flush answers an operation");
    const { answer, next } = decide(record === null ? undefined : toRecord(record), operation, now);
    if (verb === "settle") verdicts[index] = { answer: { kind: "settled" }, record: undefined, now };
    else if (done) verdicts[index] = { answer, record: next, now };
    // A record was there, and nothing has to be written: a replay, or a refusal. Else it is for the full statement.
    else if (record !== null && next === undefined) verdicts[index] = { answer, record: toRecord(record), now };
  }
  return verdicts;
}

const statements = new Map<string, { readonly name: string; readonly text: string }>();

function statementFor(schema: string, shape: QuickShape): { readonly name: string; readonly text: string } {
  const name = `onceflow-${schema}-${shape.begins}-${shape.settles}`;
  const known = statements.get(name) ?? { name, text: quickStatement(schema, shape) };
  statements.set(name, known);
  return known;
}

function countOf(operations: readonly unknown[]): "none" | "one" | "many" {
  return operations.length === 0 ? "none" : operations.length === 1 ? "one" : "many";
}

/** One row as plain values; many, column by column, as arrays. */
function bind(rows: readonly (readonly Scalar[])[]): Scalar[] {
  const [first] = rows;
  if (first === undefined) return [];
  return rows.length === 1 ? [...first] : first.map((_, column) => arrayLiteral(rows.map((row) => row[column] ?? null)));
}

/** PostgreSQL's text form of an array. The driver can make one too, at several times the cost. */
function arrayLiteral(values: readonly Scalar[]): string {
  return `{${values.map((value) => (typeof value === "string" ? quote(value) : String(value))).join(",")}}`;
}

function quote(text: string): string {
  return `"${/["\\]/.test(text) ? text.replace(/["\\]/g, "\\$&") : text}"`;
}

function beginValues(begin: Begin): Scalar[] {
  const { scope, key, owner, fingerprint, effect, leaseMs, retentionMs, horizonMs, reconcileAfterMs } = begin;
  return [scope, key, owner, fingerprint, effect, leaseMs, retentionMs, horizonMs, reconcileAfterMs];
}

function settleValues(settle: Settle): Scalar[] {
  const { scope, key, owner, attempt, to, note } = settle;
  return [scope, key, owner, attempt, to.state, outcomeOf(to), forgets(to), verdictOf(settle), note];
}
