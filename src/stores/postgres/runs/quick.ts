import type { Append, Entry, RunAnswer, RunOperation, StartRun } from "../../../core/runs/operation.js";
import type { PgClient } from "../driver.js";
import { codeOf } from "../errors.js";
import { binaryColumns } from "../parameters/binary-array.js";
import type { Scalar } from "../parameters/columns.js";
import { endsNotifiedMax } from "./notify.js";
import { type QuickParts, quickStatement } from "./quick-statement.js";
import { changeColumns, changeValues, entryColumns, entryValues, startColumns, startValues } from "./row.js";

interface QuickRow {
  readonly now: number;
  /** Numbers of operations, from 1, separated by commas; null if there are none. */
  readonly existing?: string | null;
  readonly unfit?: string | null;
  readonly changed?: string | null;
}

/** Operations of one part of the statement, with their index in the flush. */
type Part<Operation> = (readonly [index: number, operation: Operation])[];

interface Quick {
  readonly starts: Part<StartRun>;
  readonly holds: Part<Append>;
  readonly changes: Part<Append>;
}

/** After a lost race the statement is repeated: its new snapshot sees the other process's change, unless it loses again. */
const triesMax = 3;

/** Runs the quick statement. Undefined for an operation that needs its own transaction. */
export async function quickRuns(
  client: PgClient,
  schema: string,
  operations: readonly RunOperation[],
): Promise<(RunAnswer | "again" | undefined)[]> {
  const answers: (RunAnswer | "again" | undefined)[] = operations.map(() => undefined);
  const quick = quickOf(operations);
  const { starts, holds, changes } = quick;
  const given = starts.length + holds.length + changes.length;
  if (given === 0) return answers;

  const parts = partsOf(quick, given === 1);
  const query = { ...statementFor(schema, parts), values: valuesOf(quick, parts.alone) };
  const row = await tried(async () => (await client.query<QuickRow>(query)).rows[0]);
  if (row === undefined) return answers;
  if (row === "again") {
    for (const [i] of [...starts, ...holds, ...changes]) answers[i] = "again";
    return answers;
  }
  const done = { now: row.now, conflicts: [] };
  const [existing, unfit, changed] = [numbersOf(row.existing), numbersOf(row.unfit), numbersOf(row.changed)];
  for (const [n, [i]] of starts.entries()) if (!existing.has(n + 1)) answers[i] = { kind: "created", ...done };
  for (const [n, [i]] of holds.entries()) if (!unfit.has(n + 1)) answers[i] = { kind: "appended", ...done };
  for (const [n, [i]] of changes.entries()) if (changed.has(n + 1)) answers[i] = { kind: "appended", ...done };
  return answers;
}

function quickOf(operations: readonly RunOperation[]): Quick {
  const quick: Quick = { starts: [], holds: [], changes: [] };
  for (const [i, operation] of operations.entries()) {
    if (operation.verb === "start" && isPlainStart(operation)) quick.starts.push([i, operation]);
    if (operation.verb !== "append" || !isPlain(operation.entry)) continue;
    if (isHold(operation.entry)) quick.holds.push([i, operation]);
    else if (!endsSilently(operation.entry)) quick.changes.push([i, operation]);
  }
  return quick;
}

function partsOf({ starts, holds, changes }: Quick, alone: boolean): QuickParts {
  const notifies = {
    starts: starts.some(([, { first }]) => first === null),
    releases: changes.some(([, { entry }]) => entry.then.kind === "release"),
    ends: changes.length <= endsNotifiedMax && changes.some(([, { entry }]) => entry.then.kind === "end"),
  };
  return { starts: starts.length > 0, holds: holds.length > 0, changes: changes.length > 0, alone, notifies };
}

/** A single operation is passed as plain values: arrays took a fifth more time. */
function valuesOf({ starts, holds, changes }: Quick, alone: boolean): (Scalar | Buffer)[] {
  const started = starts.map(([, start]) => startValues(start));
  const held = holds.map(([, append]) => entryValues(append));
  const changed = changes.map(([, append]) => changeValues(append));
  if (alone) return [...started, ...held, ...changed].flat();
  return [...binaryColumns(started, startColumns), ...binaryColumns(held, entryColumns), ...binaryColumns(changed, changeColumns)];
}

/** Undefined: nothing was done, and each operation needs its own transaction to find out which one conflicts. */
async function tried<T>(send: () => Promise<T>): Promise<T | "again" | undefined> {
  for (let tries = 1; tries <= triesMax; tries++) {
    try {
      return await send();
    } catch (error) {
      const code = codeOf(error);
      if (code === "40P01" || code === "40001") return "again";
      if (code === "55P03") return undefined;
      if (code !== "23505") throw error;
    }
  }
  return undefined;
}

function isPlainStart({ first, chunks, timeoutMs }: StartRun): boolean {
  if (chunks !== undefined || timeoutMs !== undefined) return false;
  if (first === null) return true;
  const { entry } = first;
  return isPlain(entry) && entry.consumed === null && entry.then.kind === "hold";
}

/** Whether an entry does not change its run: only the journal is written. */
export function isHold(entry: Entry): boolean {
  return isPlain(entry) && onlyJournals(entry);
}

function isPlain({ hooks, children, voids, chunks, trial, then, outgoing, stopAt, attributes }: Entry): boolean {
  if (trial !== undefined || outgoing !== undefined || stopAt !== undefined || attributes !== undefined) return false;
  if (then.kind === "release" && (then.avoid !== undefined || then.seen !== undefined || then.status === "paused")) return false;
  if (then.kind === "end" && (then.unsettled || then.trouble !== undefined)) return false;
  return hooks.length === 0 && children.length === 0 && voids === undefined && chunks === undefined;
}

function onlyJournals({ events, consumed, then }: Entry): boolean {
  return events !== null && consumed === null && then.kind === "hold";
}

/** Whether a run ends without an entry. Then a row without events must still close the journal. */
function endsSilently({ events, then }: Entry): boolean {
  return events === null && then.kind === "end";
}

function numbersOf(text: string | null | undefined): Set<number> {
  return new Set(text ? text.split(",").map(Number) : []);
}

const statements = new Map<string, { readonly name: string; readonly text: string }>();

/** Prepared once per connection under its name; a connection serves one schema. */
function statementFor(schema: string, parts: QuickParts): { readonly name: string; readonly text: string } {
  const { starts, holds, changes, alone, notifies } = parts;
  const letters = [starts && "s", holds && "h", changes && "c", notifies.starts && "S", notifies.releases && "R", notifies.ends && "E"];
  const name = `onceflow-runs-${alone ? "one" : "many"}-${letters.filter(Boolean).join("")}`;
  const key = `${schema} ${name}`;
  let statement = statements.get(key);
  if (statement === undefined) {
    statement = { name, text: quickStatement(schema, parts) };
    statements.set(key, statement);
  }
  return statement;
}
