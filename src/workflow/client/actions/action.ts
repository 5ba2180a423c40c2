import { randomUUID } from "node:crypto";
import { InvalidInputError, NotUnknownError } from "../../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import { oneOf } from "../../../core/ledger/options.js";
import { checkActionId, checkSame, checkText, type NewLogEntry } from "../../../core/runs/log.js";
import type { Act, ActionChange, ActionRefusal, RunAnswer, RunExpectation } from "../../../core/runs/operation.js";
import { type RunStatus, runStatuses } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { ActionRefusedError, RunNotFoundError, StaleActionError } from "../../define/errors.js";
import type { InStore } from "../in-store.js";
import { sendSafely } from "../send-mail.js";

/** Options of every action on a run. */
export interface ActionOptions extends InStore {
  /** Identifies the action: sent again with the same id, it is not done again, and the answer is the first one. Default: a new random id. */
  readonly actionId?: string;
  /** Who acts, for the operator log. Default "program". */
  readonly actor?: string;
  /** Why, for the operator log. */
  readonly reason?: string;
  /** Only says what the action would do. Default false. */
  readonly dryRun?: boolean;
  /** Act only if the run has this status, which the caller has seen. Otherwise StaleActionError. */
  readonly ifStatus?: RunStatus;
}

/** What every action answers. */
export interface ActionResult {
  readonly runId: string;
  readonly actionId: string;
  /** An earlier call with the same action id has done it; this is its answer. */
  readonly repeated: boolean;
  /** Nothing was done. */
  readonly dryRun: boolean;
}

export const actionOptionNames: OptionNames<ActionOptions> = {
  store: true,
  actionId: true,
  actor: true,
  reason: true,
  dryRun: true,
  ifStatus: true,
};

/** Options of an action on a handle, which has a store. */
export type HandleActionOptions = Omit<ActionOptions, "store">;

const { store: _, ...namesWithoutStore } = actionOptionNames;
export const handleActionNames: OptionNames<HandleActionOptions> = namesWithoutStore;

/** Called before anything is read: a mistake in the options must not be taken for a default. */
export function checkActionOptions(where: string, options: ActionOptions, names: Readonly<Record<string, true>>): void {
  if (typeof options !== "object" || options === null) throw new InvalidInputError(where, "takes options");
  knownOptions(where, options, names);
  const { dryRun, actionId, actor, reason, ifStatus } = options;
  if (dryRun !== undefined && typeof dryRun !== "boolean") throw new InvalidInputError("dryRun", "must be true or false");
  if (actionId !== undefined) checkActionId(actionId);
  if (actor !== undefined) checkText("actor", actor);
  if (reason !== undefined) checkText("reason", reason);
  if (ifStatus !== undefined) oneOf("ifStatus", ifStatus, runStatuses);
}

/** An action that was decided on a state of its run. */
interface Decided<Answer extends object> {
  readonly store: Store;
  /** Name of the action in the operator log. */
  readonly action: string;
  /** The run that the action is about. */
  readonly run: string;
  /** The run that is changed. Default: the same. A fork creates another one. */
  readonly id?: string;
  readonly expect: RunExpectation;
  readonly change: ActionChange;
  /** What the caller gets, now or when it sends the action again. */
  readonly answer: Answer;
  readonly options: ActionOptions;
}

/** Does an action and returns its answer. Throws StaleActionError if the run has changed since the decision, and ActionRefusedError. */
export async function perform<Answer extends object>(decided: Decided<Answer>): Promise<ActionResult & Answer> {
  const { store, action, run, id = run, change, answer, options } = decided;
  const log = logEntryOf({ action, run, answer, options });
  const { dryRun = false, ifStatus } = options;
  if (ifStatus !== undefined) await checkStatus(store, run, ifStatus);
  const result = { runId: run, actionId: log.id, repeated: false, dryRun };
  if (dryRun) return { ...answer, ...result };
  const expect = ifStatus === undefined ? decided.expect : { ...decided.expect, status: ifStatus };
  const operation: Act = { verb: "act", id, log, expect, change };
  const { entry, repeated } = acted(run, await sendSafely(store, operation));
  checkSame(entry, log);
  return { ...(JSON.parse(entry.detail ?? "{}") as Answer), ...result, repeated };
}

/** The store compares the status again with the write, except for a fork, which does not change the run. */
async function checkStatus(store: Store, id: string, ifStatus: RunStatus): Promise<void> {
  oneOf("ifStatus", ifStatus, runStatuses);
  const run = await store.runs.read(id);
  if (run === undefined) throw new RunNotFoundError(id);
  if (run.status !== ifStatus) throw new StaleActionError(id, run.status);
}

/** The entry of the operator log for an action. */
export function logEntryOf({ action, run, answer, options }: Pick<Decided<object>, "action" | "run" | "answer" | "options">): NewLogEntry {
  const { actionId = randomUUID(), actor = "program", reason = null } = options;
  checkActionId(actionId);
  checkText("actor", actor);
  if (reason !== null) checkText("reason", reason);
  return { id: actionId, actor, action, subject: run, reason, detail: JSON.stringify(answer) };
}

/** Identifies an action that may have been done before. */
interface Repeatable {
  readonly store: Store;
  readonly action: string;
  readonly run: string;
  readonly options: ActionOptions;
}

/**
 * The answer of an earlier call with this action id, or that of `act`. The log is read before anything is decided, because the run's state may be another one
 * by now, and again after a refusal: the same action may have been done in between, and it is its own success that this call has met.
 */
export async function firstAnswer<Answer extends object>(
  repeatable: Repeatable,
  act: () => Promise<ActionResult & Answer>,
): Promise<ActionResult & Answer> {
  const earlier = await earlierAnswer<Answer>(repeatable);
  if (earlier !== undefined) return earlier;
  try {
    return await act();
  } catch (error) {
    const meanwhile = isRefusal(error) ? await earlierAnswer<Answer>(repeatable) : undefined;
    if (meanwhile !== undefined) return meanwhile;
    throw error;
  }
}

function isRefusal(error: unknown): boolean {
  return (
    error instanceof ActionRefusedError ||
    error instanceof StaleActionError ||
    error instanceof RunNotFoundError ||
    error instanceof NotUnknownError ||
    // For example, what the caller names does not exist in a new run with the same id.
    error instanceof InvalidInputError
  );
}

async function earlierAnswer<Answer extends object>({
  store,
  action,
  run,
  options: { actionId },
}: Repeatable): Promise<(ActionResult & Answer) | undefined> {
  if (actionId === undefined) return undefined;
  checkActionId(actionId);
  const [entry] = await store.runs.log({ id: actionId, limit: 1 });
  if (entry === undefined) return undefined;
  checkSame(entry, { action, subject: run });
  return { ...(JSON.parse(entry.detail ?? "{}") as Answer), runId: run, actionId, repeated: true, dryRun: false };
}

function acted(run: string, answer: RunAnswer): Extract<RunAnswer, { kind: "acted" }> {
  switch (answer.kind) {
    case "acted":
      return answer;
    case "absent":
      throw new RunNotFoundError(run);
    case "ended":
      throw new ActionRefusedError(run, "ended", "the run has ended");
    case "exists":
      throw new ActionRefusedError(run, "exists", `a run with the id "${answer.run.id}" exists`);
    case "stale":
      throw new StaleActionError(run, answer.state.status);
    case "notAllowed":
      throw refusal(run, answer.why);
    default:
      throw new Error(`a store answered "${answer.kind}" to an action`);
  }
}

export function refusal(run: string, why: ActionRefusal): ActionRefusedError {
  return new ActionRefusedError(run, why.because, whyNot(why));
}

function whyNot(why: ActionRefusal): string {
  switch (why.because) {
    case "unsettled":
      return "the outcome of a step is unknown; resolve the step first";
    case "running":
      return "the run has not ended";
    case "alreadySent":
      return "the same request was sent before";
    case "parentTook":
      return `its parent "${why.parent}" has already received the failure; retry the parent instead`;
    case "parentReads":
      return `its parent "${why.parent}" is executed right now and may have received the failure; try again when the parent waits, or retry the parent when it has ended`;
    case "parentSetAside":
      return `its parent "${why.parent}" is parked or diverged, and may have received the failure; deploy code that matches the parent's journal, or wake the parent, and retry the parent if it fails`;
    case "token":
      return `its hook "${why.token}" cannot be registered again: another run uses the token now; end the other hook first`;
  }
}
