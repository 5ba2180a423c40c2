import type { Append, RunAnswer, RunOperation } from "../../../core/runs/operation.js";
import { applyRun } from "../../../core/runs/rules/apply.js";
import type { Gate } from "../../../core/work/gate.js";
import { LoadedRunTable } from "../../shared/loaded-run-table.js";
import { again, asking } from "../connection/ask.js";
import type { MongoClient, SessionOption } from "../driver.js";
import { isDuplicateKey } from "../errors.js";
import type { Collections } from "../layout.js";
import { inTransaction } from "../transactions/in-transaction.js";
import { writeLog } from "./log.js";
import { isOneDocument, startAlone } from "./start.js";
import { loadTouched } from "./touched.js";
import { writeChanges } from "./write.js";

/**
 * Each operation is atomic by itself, and they run concurrently. If one of them fails, all are sent again; those that were applied find
 * their own success.
 */
export async function flushRuns(
  client: MongoClient,
  collections: Collections,
  gate: Gate,
  operations: readonly RunOperation[],
): Promise<(RunAnswer | "again")[]> {
  return await gate.runAll(operations, (operation) => apply(client, collections, operation));
}

async function apply(client: MongoClient, collections: Collections, operation: RunOperation): Promise<RunAnswer | "again"> {
  const what = `a run's ${operation.verb}`;
  if (operation.verb === "append" && isOneEntry(operation))
    return await asking(what, () => again(() => appendWithoutTransaction(collections, operation)));
  if (operation.verb === "start" && isOneDocument(operation))
    return await asking(what, () => again(() => startAlone(collections, operation)));
  return await inTransaction(client, what, (options) => decide(collections, operation, options));
}

/** Inside a transaction: loads the documents that the operation may touch, applies the rules, and writes the changes. */
export async function decide(collections: Collections, operation: RunOperation, options: SessionOption): Promise<RunAnswer> {
  const { loaded, numbers } = await loadTouched(collections, operation, options);
  const table = new LoadedRunTable(loaded);
  const answer = applyRun(table, operation);
  await writeChanges(collections, table.changes(), numbers, options);
  return answer.kind === "acted" && !answer.repeated ? { ...answer, entry: await writeLog(collections, answer.entry, options) } : answer;
}

/** Whether an append writes only its entry: one document, whose id is the fence. */
function isOneEntry({
  entry: { events, consumed, hooks, children, then, voids, chunks, trial, outgoing, stopAt, attributes },
}: Append): boolean {
  if (voids !== undefined || chunks !== undefined || trial !== undefined) return false;
  if (outgoing !== undefined || stopAt !== undefined || attributes !== undefined) return false;
  return events !== null && consumed === null && hooks.length === 0 && children.length === 0 && then.kind === "hold";
}

/**
 * Appends without a transaction. What was read can only have changed through an entry with the same number; then the insert fails
 * with a duplicate id, and the append is decided once more.
 */
async function appendWithoutTransaction(collections: Collections, append: Append): Promise<RunAnswer> {
  try {
    return await decide(collections, append, {});
  } catch (error) {
    if (!isDuplicateKey(error)) throw error;
    return await decide(collections, append, {});
  }
}
