import { InvalidInputError } from "../../../core/errors/errors.js";
import { hasEnded, type RunStatus } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { ActionRefusedError, RunNotFoundError } from "../../define/errors.js";
import { readingStore } from "../../process/ambient-store.js";
import { type ActionOptions, type ActionResult, actionOptionNames, checkActionOptions, firstAnswer, perform } from "./action.js";

/** Options of {@link deleteRun}. */
export interface DeleteOptions extends ActionOptions {
  readonly reason: string;
}

/** Result of {@link deleteRun}. */
export interface DeleteResult extends ActionResult {
  /** How the run had ended. */
  readonly status: RunStatus;
}

/**
 * Removes an ended run with its journal, streams and values. Its entries in the operator log stay. Its id can be used again: a late duplicate of the request that started
 * it would start a new run. Throws ActionRefusedError if the run has not ended, or the outcome of a step is unknown; RunNotFoundError; and
 * InvalidInputError if there is no reason.
 *
 * @example
 * await deleteRun("order-1", { reason: "test order" });
 */
export async function deleteRun(runId: string, options: DeleteOptions): Promise<DeleteResult> {
  checkActionOptions("deleteRun", options, actionOptionNames);
  if (options.reason === undefined) throw new InvalidInputError("reason", "is missing; say why the run is deleted");
  const store = await readingStore(options.store);
  return await firstAnswer({ store, action: "delete", run: runId, options }, () => remove(store, runId, options));
}

async function remove(store: Store, runId: string, options: DeleteOptions): Promise<DeleteResult> {
  const run = await store.runs.read(runId);
  if (run === undefined) throw new RunNotFoundError(runId);
  const { creator, status, epoch, unsettled } = run;
  // The store checks both again; here for a dry run.
  if (!hasEnded(status)) throw new ActionRefusedError(runId, "running", `it is ${status}; cancel it first`);
  if (unsettled > 0) throw new ActionRefusedError(runId, "unsettled", "the outcome of a step is unknown; resolve the step first");
  return await perform({
    store,
    action: "delete",
    run: runId,
    expect: { creator, status, epoch },
    change: { kind: "remove" },
    answer: { status },
    options,
  });
}
