import { InvalidInputError } from "../../../core/errors/errors.js";
import type { OptionNames } from "../../../core/errors/known-options.js";
import type { Store } from "../../../core/store/store.js";
import { sha256 } from "../../../core/values/canonical.js";
import { ActionRefusedError, RunNotFoundError, StaleActionError } from "../../define/errors.js";
import { readingStore } from "../../process/ambient-store.js";
import { type ActionOptions, type ActionResult, actionOptionNames, checkActionOptions, firstAnswer, perform } from "./action.js";
import { mustBeAllowed, readFailedRun, reopening } from "./reopen.js";

/** Options of {@link retryRun}. */
export interface RetryOptions extends ActionOptions {
  /**
   * The failed steps to run again, by stepId or by the id of the call ("charge#0"), and failed child runs to retry, by their id. Default: the one that failed for
   * good. If several failed, they must be named. An empty array retries none: the code goes on from where it threw.
   */
  readonly steps?: readonly string[];
  /** Steps, child runs and hooks that began after the failure, and may be forgotten: by their ids. They are made anew under new ids. */
  readonly force?: readonly string[];
}

/** A step that a retry runs again. */
export interface RetriedStep {
  readonly callId: string;
  readonly stepId: string;
  /** The attempt that failed for good; the next one has the next number. */
  readonly attempt: number;
}

/** Result of {@link retryRun}. */
export interface RetryResult extends ActionResult {
  /** The steps that run again, with the same stepId. If there are neither steps nor children, the code goes on from where it threw. */
  readonly steps: readonly RetriedStep[];
  /** Child runs that had failed, and are retried, too. */
  readonly children: readonly string[];
  /** Ids of calls that had begun after the failure, and of hooks created after it. They are made anew under new ids. */
  readonly renewed: readonly string[];
  /** Tokens of hooks that are open again. */
  readonly hooks: readonly string[];
}

const optionNames: OptionNames<RetryOptions> = { ...actionOptionNames, steps: true, force: true };

/**
 * Continues a failed run: its failed step runs again with the same stepId, so that a provider recognises the call, and the code goes on
 * as if the step had not failed. What happened before, and meanwhile, stays. Throws ActionRefusedError (several steps failed and none is named; a
 * compensation or another step began after the failure; a hook's token is in use; the parent has received the failure), StaleActionError if the run
 * has changed meanwhile, RunNotFoundError, and InvalidInputError.
 *
 * @example
 * const { steps } = await retryRun("order-1", { reason: "the bank is back" });
 */
export async function retryRun(runId: string, options: RetryOptions = {}): Promise<RetryResult> {
  checkActionOptions("retryRun", options, optionNames);
  checkIds("steps", options.steps);
  checkIds("force", options.force);
  const store = await readingStore(options.store);
  const result = await firstAnswer<Answer>({ store, action: "retry", run: runId, options }, () => retry(store, runId, options));
  // The parent waits for the ends of these runs again. If this process dies before they are retried, the same call retries them.
  if (!result.dryRun) for (const child of result.children) await retryChild(child, result, { ...options, store });
  return result;
}

/**
 * Refusals from which follows that another call has retried the child meanwhile: it runs, or has ended in another way, or has failed anew and reported that to the
 * parent. The parent was retried, and gets whatever end the child has, also if the child was deleted.
 */
const wasRetried: ReadonlySet<string> = new Set(["notFailed", "parentTook", "parentReads", "parentSetAside"]);

async function retryChild(child: string, result: RetryResult, options: RetryOptions): Promise<void> {
  try {
    await retryRun(child, optionsOf(child, result, options));
  } catch (error) {
    // The child has changed since the decision: decide again.
    if (error instanceof StaleActionError) return await retryChild(child, result, options);
    if (!(error instanceof RunNotFoundError || (error instanceof ActionRefusedError && wasRetried.has(error.because)))) throw error;
  }
}

type Answer = Pick<RetryResult, "steps" | "children" | "renewed" | "hooks">;

async function retry(store: Store, runId: string, options: RetryOptions): Promise<RetryResult> {
  const { steps, force } = options;
  const run = await store.runs.read(runId);
  if (run === undefined) throw new RunNotFoundError(runId);
  const failed = await readFailedRun(store, run);
  const { plan, expect, change } = reopening(store, failed, { at: await timeOf(store), steps, force });
  if (options.dryRun) await mustBeAllowed(store, run, change);
  const children: string[] = [];
  for (const child of plan.children) if (await mustBeRetried(store, run.id, child)) children.push(child);
  const answer: Answer = {
    steps: plan.failures.map(({ id, attempt }) => ({ callId: id, stepId: failed.stepIdOf(id), attempt })),
    children,
    renewed: plan.retry.renewed,
    hooks: [...plan.hooks.values()].map(({ token }) => token),
  };
  return await perform({ store, action: "retry", run: runId, expect, change, answer, options });
}

/** Whether the child is still failed. Throws if it could not be retried: then the parent would wait for it in vain. */
async function mustBeRetried(store: Store, parent: string, id: string): Promise<boolean> {
  const child = await store.runs.read(id);
  if (child === undefined) throw new ActionRefusedError(parent, "childGone", `its child run "${id}" does not exist any more`, [id]);
  if (child.status !== "failed") return false;
  if (child.parent !== parent)
    throw new ActionRefusedError(
      parent,
      "childFailed",
      `it waits for run "${id}", which has failed and is not its child; retry that run first`,
      [id],
    );
  const { plan, change } = reopening(store, await readFailedRun(store, child), { at: 0 });
  await mustBeAllowed(store, { id, parent: null }, change);
  for (const grandchild of plan.children) await mustBeRetried(store, id, grandchild);
  return true;
}

function optionsOf(child: string, { actionId }: RetryResult, { store, actor, reason }: RetryOptions): RetryOptions {
  const why = { ...(actor === undefined ? {} : { actor }), ...(reason === undefined ? {} : { reason }) };
  return { ...why, ...(store === undefined ? {} : { store }), actionId: sha256(`${actionId}\0${child}`) };
}

/** The time of the store: a claim without workflows claims nothing, and its answer has the time. */
export async function timeOf(store: Store): Promise<number> {
  return (await store.runs.claim({ owner: "operator", workflows: [], leaseMs: 1000, limit: 1 })).now;
}

function checkIds(what: string, ids: readonly string[] | undefined): void {
  if (ids === undefined || (Array.isArray(ids) && ids.every((id) => typeof id === "string" && id !== ""))) return;
  throw new InvalidInputError(what, "must be an array of ids");
}
