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

/** After losing a race with a late owner, the operation is decided again and sees the late owner's entry, unless it loses again. */
const triesMax = 3;

/**
 * Inside an open transaction: locks the runs that an operation may touch, loads the rest, applies the rules and writes the changes,
 * in three round trips. Appends that keep the run do not lock it, so one may use the entry number in between: then the operation is
 * decided again.
 */
export async function decideInside(connection: RunConnection, operation: RunOperation, first?: HeldRuns): Promise<RunAnswer> {
  for (let tries = 1; tries <= triesMax; tries++) {
    const held = tries === 1 && first ? first : await holdRuns(connection, operation, "lock");
    const table = new LoadedRunTable(await loadTouched(connection, operation, held));
    const answer = applyRun(table, operation);
    const written = await writeChanges(connection, table, operation);
    if (written === "refused") continue;
    const { lost, logNo } = written;
    if (operation.verb !== "act") return lost.size === 0 ? answer : withConflicts(answer, operation, table, lost);
    // A run that gets its hooks back gets all of them.
    if (lost.size > 0) throw new Overtaken("another run has taken the token of a hook");
    return answer.kind === "acted" && logNo !== undefined ? { ...answer, entry: { ...answer.entry, no: logNo } } : answer;
  }
  throw new Overtaken("other processes appended to the run at every try");
}

/**
 * Adds conflicts for tokens that another run got between reading and writing: those hooks were not created, everything else was
 * written.
 */
function withConflicts(answer: RunAnswer, operation: RunOperation, table: LoadedRunTable, lost: ReadonlySet<string>): RunAnswer {
  if (answer.kind !== "created" && answer.kind !== "appended") return answer;
  const entry: Entry | undefined =
    operation.verb === "append" ? operation.entry : operation.verb === "start" ? operation.first?.entry : undefined;
  const hook = (token: string) => (lost.has(token) ? { run: "", about: "" } : table.hook(token));
  return { ...answer, conflicts: conflictsAfter({ hook }, "id" in operation ? operation.id : "", entry) };
}

/** The answer to a start whose run already exists, without a write: the same request was sent before, or another one has created the id. */
export async function findStarted(connection: RunConnection, start: StartRun): Promise<RunAnswer | undefined> {
  const found = await holdRuns(connection, start, "read");
  if (!found.runs.some(({ id }) => id === start.id)) return undefined;
  return applyRun(new LoadedRunTable(await loadTouched(connection, start, found)), start);
}

/** Appends as the last statements of a user's transaction. A plain entry needs two round trips. */
export async function appendWithin(tx: Tx, schema: string, append: Append): Promise<RunAnswer> {
  // Not prepared: the connection belongs to the caller, and may differ for every transaction.
  const connection = { client: asClient(tx), schema, prepared: false };
  const held = await holdRuns(connection, append, "lock");
  if (isHold(append.entry)) {
    const done = await ask<{ now: number }>(connection, { name: "hold", text: holdWithin }, entryValues(append));
    if (done !== undefined) return { kind: "appended", now: done.now, conflicts: [] };
  }
  return await decideInside(connection, append, held);
}
