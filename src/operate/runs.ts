import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { newOwner } from "../core/ledger/owner.js";
import { requireRuns, type Store } from "../core/store/store.js";
import { type ActionOptions, type ActionResult, handleActionNames } from "../workflow/client/actions/action.js";
import { type DeleteResult, deleteRun } from "../workflow/client/actions/delete-run.js";
import { type ForkOptions, type ForkResult, forkRun } from "../workflow/client/actions/fork-run.js";
import { mailRun } from "../workflow/client/actions/mail-run.js";
import { type OperatorLogItem, type OperatorLogOptions, readOperatorLog } from "../workflow/client/actions/operator-log.js";
import { type RetryOptions, type RetryResult, retryRun } from "../workflow/client/actions/retry-run.js";
import type { CancelOptions, CancelResult } from "../workflow/client/cancel-run.js";
import { encodeForRun } from "../workflow/client/kept-value.js";
import type { PauseOptions, PauseResult } from "../workflow/client/pause-run.js";
import { resolveStep, type StepResolution } from "../workflow/client/resolve-step.js";
import { Run } from "../workflow/client/run-handle.js";
import { type WakeOptions, type WakeResult, wakeRun } from "../workflow/client/wake-run.js";
import { HookNotFoundError } from "../workflow/define/errors.js";

/**
 * The actions of operators on runs, as plain functions: the command line, the HTTP API and the studio call these and have no logic of their own. Each takes
 * the store and the operator's name, is compared with the state that the operator has seen (`ifStatus`), is written to the operator log in the same commit, answers
 * alike when it is sent again with the same `actionId`, and with `dryRun` only says what it would do.
 */
export interface Operator extends Omit<ActionOptions, "store"> {
  readonly actor: string;
}

type By<Options> = Omit<Options, "store"> & Operator;
/** For actions that cannot be undone, or that state what an operator found out. */
type ForReason<Options> = By<Options> & { readonly reason: string };

export async function retry(store: Store, run: string, options: By<RetryOptions>): Promise<RetryResult> {
  return await retryRun(run, { ...by(store, options), store });
}

export async function fork(store: Store, run: string, options: By<ForkOptions>): Promise<ForkResult> {
  return await forkRun(run, { ...by(store, options), store });
}

export async function cancel(store: Store, run: string, options: By<CancelOptions>): Promise<CancelResult> {
  return await new Run(run, store).cancel(by(store, options));
}

export async function terminate(store: Store, run: string, options: ForReason<object>): Promise<CancelResult> {
  return await new Run(run, store).terminate(forReason(by(store, options)));
}

export async function pause(store: Store, run: string, options: By<PauseOptions>): Promise<PauseResult> {
  return await new Run(run, store).pause(by(store, options));
}

export async function resume(store: Store, run: string, options: Operator): Promise<ActionResult> {
  return await new Run(run, store).resume(by(store, options));
}

export async function wake(store: Store, run: string, options: By<WakeOptions>): Promise<WakeResult> {
  return await wakeRun(store, run, by(store, options));
}

/** An attempt of a step, and what an operator found out about it. */
export interface StepToResolve {
  readonly stepId: string;
  readonly attempt: number;
  readonly as: StepResolution;
}

export async function resolve(store: Store, run: string, step: StepToResolve, options: ForReason<object>): Promise<ActionResult> {
  const { stepId, attempt, as } = step;
  return await resolveStep({ ...forReason(by(store, options)), runId: run, stepId, attempt, store }, as);
}

/** A payload for a hook. */
export interface Delivery {
  readonly token: string;
  readonly payload: unknown;
  /** A payload with a key that the hook has received is not delivered again. */
  readonly key?: string;
}

const deliveryNames: OptionNames<Delivery> = { token: true, payload: true, key: true };

/** Delivers a payload to the hook with this token. Throws HookNotFoundError if no run has it. */
export async function deliver(store: Store, delivery: Delivery, options: Operator): Promise<ActionResult> {
  const operator = by(store, options);
  knownOptions("deliver", delivery, deliveryNames);
  knownOptions("deliver", operator, handleActionNames);
  const { token, payload: value, key } = delivery;
  const payload = await encodeForRun("payload", value, store);
  const hook = await store.runs.hook(token);
  if (hook === undefined) throw new HookNotFoundError(token);
  const { about, run } = hook;
  const named = key === undefined ? newOwner() : `${token}\0${key}`;
  const { state, ...result } = await mailRun(store, run, {
    action: "deliver",
    kind: "hook",
    payload,
    hook: { about, token },
    key: named,
    options: operator,
  });
  if (state === "ended") throw new HookNotFoundError(token);
  return result;
}

export async function remove(store: Store, run: string, options: ForReason<object>): Promise<DeleteResult> {
  return await deleteRun(run, { ...forReason(by(store, options)), store });
}

export async function log(store: Store, options: Omit<OperatorLogOptions, "store"> = {}): Promise<OperatorLogItem[]> {
  return await readOperatorLog({ ...options, store });
}

function by<Options extends Operator>(store: Store, options: Options): Options {
  requireRuns(store);
  if (typeof options !== "object" || options === null || typeof options.actor !== "string" || options.actor === "")
    throw new InvalidInputError("actor", "is missing; say who acts, for the operator log");
  return options;
}

function forReason<Options extends { readonly reason: string }>(options: Options): Options {
  if (typeof options.reason !== "string" || options.reason === "")
    throw new InvalidInputError("reason", "is missing; say why, for the operator log");
  return options;
}
