import type { Append, Entry, RunAnswer, RunOperation, StartRun } from "../../../core/runs/operation.js";
import { applyRun } from "../../../core/runs/rules/apply.js";
import { conflictsAfter } from "../../../core/runs/rules/hooks.js";
import type { Tx } from "../../../core/store/store.js";
import { LoadedRunTable } from "../../shared/loaded-run-table.js";
import { asClient } from "../transactions/transact.js";
import { ask, type RunConnection } from "./ask.js";
import { isHold } from "./quick.js";
import { holdWithin } from "./quick-statement.js";
import { entryValues } from "./row.js";
import { type HeldRuns, holdRuns, loadTouched } from "./touched.js";
import { Overtaken, writeChanges } from "./write.js";

/** The first time a late owner can have been faster; the second time its entry is seen, unless it was faster again. */
const triesMax = 3;

/**
 * Locks the runs that an operation may touch, loads the rest, applies the rules and writes the difference: three trips, inside
 * an open transaction. Holds do not lock their run, so that the fence can be taken in between: then it is decided again.
 */
export async function decideInside(connection: RunConnection, operation: RunOperation, first?: HeldRuns): Promise<RunAnswer> {
  for (let tries = 1; tries <= triesMax; tries++) {
    const held = tries === 1 && first ? first : await holdRuns(connection, operation, "lock");
    const table = new LoadedRunTable(await loadTouched(connection, operation, held));
    const answer = applyRun(table, operation);
    const lost = await writeChanges(connection, table, operation);
    if (lost !== "refused") return lost.size === 0 ? answer : withConflicts(answer, operation, table, lost);
  }
  throw new Overtaken("other processes have appended to the run again and again");
}

/** Another run got a token between the reading and the writing: then this hook was not made, and nothing else is different. */
function withConflicts(answer: RunAnswer, operation: RunOperation, table: LoadedRunTable, lost: ReadonlySet<string>): RunAnswer {
  if (answer.kind !== "created" && answer.kind !== "appended") return answer;
  const entry: Entry | undefined =
    operation.verb === "append" ? operation.entry : operation.verb === "start" ? operation.first?.entry : undefined;
  const hook = (token: string) => (lost.has(token) ? { run: "", about: "" } : table.hook(token));
  return { ...answer, conflicts: conflictsAfter({ hook }, "id" in operation ? operation.id : "", entry) };
}

/** The answer to a start whose run is there, by reads only: its own creator sends again, or another one has the id. */
export async function findStarted(connection: RunConnection, start: StartRun): Promise<RunAnswer | undefined> {
  const found = await holdRuns(connection, start, "read");
  if (!found.runs.some(({ id }) => id === start.id)) return undefined;
  return applyRun(new LoadedRunTable(await loadTouched(connection, start, found)), start);
}

/** The append as the last statements of a transaction, ours or the user's own. A plain one is two trips. */
export async function appendWithin(tx: Tx, schema: string, append: Append): Promise<RunAnswer> {
  // Not prepared: the connection is not ours, and may be another one at every transaction.
  const connection = { client: asClient(tx), schema, prepared: false };
  const held = await holdRuns(connection, append, "lock");
  if (isHold(append.entry)) {
    const done = await ask<{ now: number }>(connection, { name: "hold", text: holdWithin }, entryValues(append));
    if (done !== undefined) return { kind: "appended", now: done.now, conflicts: [] };
  }
  return await decideInside(connection, append, held);
}
