import { type ErrorFacts, lineageOf, OnceflowError, registerErrors } from "../../core/errors/errors.js";
import { type OptionNames, warnOfUnknownOption } from "../../core/errors/known-options.js";
import { type DivergenceFacts, divergenceMessage } from "./divergence-message.js";

// Messages of errors that workflow code can catch at run time (conflicts, mismatches, cycles, runs that failed or are gone,
// closed streams) must not change: a workflow may pass the message to a step, and a replay under a newer version of this
// package must pass the same argument.

/**
 * Base class of the errors that the workflow engine throws. FatalError and RetryableError, which user code throws, do not
 * extend it.
 */
export class WorkflowError extends OnceflowError {
  /**
   * Recognises stored errors by the names of the subclasses. The name of this class is not stored with an error: an error
   * that a workflow passes to a step must encode as it did in runs that were journaled before this class existed.
   */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (this !== WorkflowError) return super[Symbol.hasInstance](value);
    if (Function.prototype[Symbol.hasInstance].call(this, value)) return true;
    return typeof value === "object" && value !== null && lineageOf(value).some((kind) => workflowKinds.has(kind));
  }

  constructor(message: string, facts: Partial<ErrorFacts> = {}) {
    super(message, { code: "WORKFLOW", ...facts });
    if (new.target === WorkflowError) Object.defineProperty(this, "name", { value: "WorkflowError", configurable: true, writable: true });
  }
}

const workflowKinds = new Set<string>();

/**
 * Thrown by a step to fail without a retry. A step whose retries are exhausted also rejects with it in its workflow.
 *
 * @example
 * throw new FatalError("card declined");
 */
export class FatalError extends OnceflowError {
  static override readonly kind: string = "FatalError";
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super(message, { code: "FATAL", ...options });
  }

  get fatal(): true {
    return true;
  }
}

/** Options of {@link RetryableError}. */
export interface RetryableErrorOptions {
  /** When to retry: milliseconds from now, a duration such as "30s", or a date. Default: the `backoff` of the step. */
  readonly retryAfter?: number | string | Date;
  readonly cause?: unknown;
}

const retryableNames: OptionNames<RetryableErrorOptions> = { retryAfter: true, cause: true };

/**
 * Thrown by a step to be retried at a given time, as long as it has retries left.
 *
 * @example
 * throw new RetryableError("rate limited", { retryAfter: "30s" });
 */
export class RetryableError extends OnceflowError {
  static override readonly kind: string = "RetryableError";
  readonly retryAfter: number | string | Date | undefined;
  constructor(message: string, options: RetryableErrorOptions = {}) {
    super(message, { code: "RETRYABLE", retryable: true, cause: options.cause });
    // A warning instead of an error: an error here would hide the one that the step reports.
    warnOfUnknownOption("RetryableError", options, retryableNames);
    this.retryAfter = options.retryAfter;
  }
}

/** The run ended with an error, which is the `cause`. `cause.code` is the code of that error, or "USER_ERROR" if it has none. */
export class RunFailedError extends WorkflowError {
  static override readonly kind: string = "RunFailedError";
  declare readonly cause: Error & { readonly code?: string | number };
  readonly runId: string;
  constructor(runId: string, cause: Error = new Error("no cause was given")) {
    super(`run "${runId}" failed: ${cause.message}`, { code: "RUN_FAILED", cause });
    this.runId = runId;
  }
}

/** The run was cancelled. */
export class RunCancelledError extends WorkflowError {
  static override readonly kind: string = "RunCancelledError";
  readonly runId: string;
  constructor(runId: string) {
    super(`run "${runId}" was cancelled`, { code: "RUN_CANCELLED" });
    this.runId = runId;
  }
}

/** Facts of a {@link CancelledError}. */
export interface CancelledFacts {
  /** Why the run is cancelled, as the caller of `cancel` gave it; "deadline" if the run took longer than its `timeoutMs`. */
  readonly reason?: string | undefined;
  /** Default false. */
  readonly mayHaveHappened?: boolean;
}

/**
 * The run is being cancelled: what its code waits for rejects with this error, and the signals of running steps abort with it. The code can
 * clean up in `catch` and `finally`, and the run then ends as cancelled.
 *
 * @example
 * try {
 *   await charge(order);
 *   await ship(order);
 * } catch (error) {
 *   if (CancelledError.is(error)) await refund(order);
 *   throw error;
 * }
 */
export class CancelledError extends WorkflowError {
  static override readonly kind: string = "CancelledError";
  /** Why the run is cancelled; undefined if no reason was given. "deadline": the run took longer than its `timeoutMs`. */
  declare readonly reason?: string;
  /** Only of a step: an attempt of the step has begun, and its effect may have happened. False: it has not happened. */
  readonly mayHaveHappened: boolean;
  constructor({ reason, mayHaveHappened = false }: CancelledFacts = {}) {
    super(reason === undefined ? "the run is being cancelled" : `the run is being cancelled: ${reason}`, { code: "CANCELLED" });
    // Not assigned as undefined, because an own property would be stored with the error.
    if (reason !== undefined) Object.assign(this, { reason });
    this.mayHaveHappened = mayHaveHappened;
  }
}

/** The store has no run with this id: it was never started, or was removed after its retention. */
export class RunNotFoundError extends WorkflowError {
  static override readonly kind: string = "RunNotFoundError";
  readonly runId: string;
  constructor(runId: string) {
    super(`run "${runId}" not found in this store: it was never started, or was removed after its retention`, { code: "RUN_NOT_FOUND" });
    this.runId = runId;
  }
}

/**
 * An operator's action on a run was refused, and nothing was changed. `because` says why: "ended" or "running"; "notFailed" (a retry of a run, or of a step, that has not
 * failed for good); "ambiguous" (several steps failed; `ids` lists them); "begunAfter" (steps or child runs began after the failure; `ids` lists them);
 * "unsettled" (the outcome of a step is unknown); "parentTook", "parentReads", "childGone", "childFailed" (the runs must be retried together); "token" (a hook's token is in use);
 * "open" (a fork inside open requests; `ids` lists them); "exists"; or "alreadySent".
 */
export class ActionRefusedError extends WorkflowError {
  static override readonly kind: string = "ActionRefusedError";
  readonly runId: string;
  readonly because: string;
  readonly ids: readonly string[];
  constructor(runId: string, because: string, why: string, ids: readonly string[] = []) {
    super(`run "${runId}": the action was refused: ${why}`, { code: "ACTION_REFUSED" });
    this.runId = runId;
    this.because = because;
    this.ids = ids;
  }
}

/** The run has changed since the action was decided, and nothing was done. Look at the run again, and decide anew. */
export class StaleActionError extends WorkflowError {
  static override readonly kind: string = "StaleActionError";
  readonly runId: string;
  /** What the run's status is now. */
  readonly status: string;
  constructor(runId: string, status: string) {
    super(`run "${runId}" has changed since the action was decided; it is ${status} now. Nothing was done.`, {
      code: "STALE",
      retryable: true,
    });
    this.runId = runId;
    this.status = status;
  }
}

/** For user code that needs the result of a run only if the run has ended. The engine never throws it: `run.returnValue` waits. */
export class RunNotCompletedError extends WorkflowError {
  static override readonly kind: string = "RunNotCompletedError";
  readonly runId: string;
  readonly status: string;
  constructor(runId: string, status: string) {
    super(`run "${runId}" has not completed; it is ${status}`, { code: "RUN_NOT_COMPLETED", retryable: true });
    this.runId = runId;
    this.status = status;
  }
}

/** The awaited run waits, directly or through other runs, for the run that awaits it. Without this error none of them would end. */
export class RunCycleError extends WorkflowError {
  static override readonly kind: string = "RunCycleError";
  readonly runId: string;
  /** The runs of the cycle: each waits for the next one, and the last one for the first. */
  readonly runs: readonly string[];
  constructor(runId: string, runs: readonly string[] = []) {
    super(`run "${runId}" cannot be awaited here: these runs wait for each other: ${[...runs, runs[0]].join(" → ")}`, {
      code: "RUN_CYCLE",
    });
    this.runId = runId;
    this.runs = runs;
  }
}

/**
 * Thrown by `start` with an id that is in use: with `onMismatch: "refuse"` if the run has another input or workflow; in a
 * workflow always if it is a run of another workflow.
 */
export class RunMismatchError extends WorkflowError {
  static override readonly kind: string = "RunMismatchError";
  readonly runId: string;
  constructor(runId: string) {
    super(`run "${runId}" was started before with another input or another workflow; one id names one run`, { code: "RUN_MISMATCH" });
    this.runId = runId;
  }
}

/** Thrown by `start` with an id that is in use by a run of another scope. Nothing about that run is told. */
export class RunScopeError extends WorkflowError {
  static override readonly kind: string = "RunScopeError";
  readonly runId: string;
  constructor(runId: string) {
    super(`run id "${runId}" is in use in another scope; put the scope into the id, so that tenants cannot choose the same one`, {
      code: "RUN_SCOPE",
    });
    this.runId = runId;
  }
}

/** A step with the option `key` was called twice in one run with the same key and different arguments. */
export class StepMismatchError extends WorkflowError {
  static override readonly kind: string = "StepMismatchError";
  readonly step: string;
  constructor(step: string, key: string) {
    super(
      `step "${step}" was called before in this run with the key "${key}" and other arguments; one key names one call. ` +
        "Put what differs into the key, or call the step with the same arguments.",
      { code: "STEP_MISMATCH", key },
    );
    this.step = step;
  }
}

/** The token of this hook is in use by another active hook. */
export class HookConflictError extends WorkflowError {
  static override readonly kind: string = "HookConflictError";
  readonly token: string;
  /** The run of the other hook. Undefined for conflicts that were journaled by versions that did not record it. */
  declare readonly runId?: string;

  /**
   * Without a run id the message is that of versions that did not record the run: a workflow may have passed the message to
   * a step, and its replay must pass the same.
   */
  constructor(token: string, runId?: string) {
    super(
      runId === undefined
        ? `the token "${token}" belongs to another active hook; a token is unique while its hook exists`
        : `hook token "${token}" is already in use by run "${runId}"; a token is unique while its hook exists`,
      { code: "HOOK_CONFLICT" },
    );
    this.token = token;
    // Not assigned as undefined, because an own property would be stored with the error.
    if (runId !== undefined) Object.assign(this, { runId });
  }

  get conflictingRunId(): string | undefined {
    return this.runId;
  }
}

/** No active hook has this token: it was not created yet, was disposed of, or its run has ended. */
export class HookNotFoundError extends WorkflowError {
  static override readonly kind: string = "HookNotFoundError";
  readonly token: string;
  constructor(token: string) {
    super(`hook not found: no active hook has the token "${token}"; it was not created yet, was disposed of, or its run has ended`, {
      code: "HOOK_NOT_FOUND",
    });
    this.token = token;
  }
}

/** A stored value refers to a step that is not defined in this process. */
export class StepNotRegisteredError extends WorkflowError {
  static override readonly kind: string = "StepNotRegisteredError";
  readonly step: string;
  constructor(step: string) {
    super(`no step is defined under the name "${step}" in this process; import the module that defines it before it is needed`, {
      code: "STEP_NOT_REGISTERED",
    });
    this.step = step;
  }

  get stepName(): string {
    return this.step;
  }
}

/** A function passed to `start`, or a stored value, refers to a workflow that is not defined in this process. */
export class WorkflowNotRegisteredError extends WorkflowError {
  static override readonly kind: string = "WorkflowNotRegisteredError";
  readonly workflow: string;
  constructor(workflow: string) {
    super(
      `"${workflow}" is not a workflow in this process. If it has "use workflow", its file was not transformed: run it with ` +
        "`node --import onceflow/register`, or build it with a plugin such as onceflow/vite. Otherwise define it with workflow(name, fn), and import its module.",
      { code: "WORKFLOW_NOT_REGISTERED" },
    );
    this.workflow = workflow;
  }

  get workflowName(): string {
    return this.workflow;
  }
}

/** Something is stored under a former name that several functions had, so it is unclear which function it refers to. */
export class AmbiguousNameError extends WorkflowError {
  static override readonly kind: string = "AmbiguousNameError";
  /** The stored name. */
  readonly stored: string;
  /** The current names of the functions that had the stored name. */
  readonly candidates: readonly string[];
  constructor(kind: "step" | "workflow", stored: string, candidates: readonly string[] = []) {
    const list = candidates.map((name) => `"${name}"`).join(" and ");
    super(
      `the ${kind} "${stored}" is stored under a name of an earlier version, which ${list} shared. Deploy only one of them until the ` +
        `runs that are stored under this name have ended, or define the right one as ${kind}("${stored}", fn)`,
      { code: "AMBIGUOUS_NAME" },
    );
    this.stored = stored;
    this.candidates = candidates;
  }
}

/** A write to, or a second close of, a stream of a run that is already closed. */
export class StreamClosedError extends WorkflowError {
  static override readonly kind: string = "StreamClosedError";
  readonly stream: string;
  constructor(stream: string) {
    super(
      `stream "${stream}" is closed; close it once, where the last chunk is written (pipeTo closes it, too, unless preventClose is set)`,
      {
        code: "STREAM_CLOSED",
      },
    );
    this.stream = stream;
  }
}

/** A function was called where it does not work, for example `sleep()` outside of a workflow. */
export class ContextError extends WorkflowError {
  static override readonly kind: string = "ContextError";
  constructor(what: string, where: string) {
    super(`${what} can only be used in ${where}`, { code: "WRONG_CONTEXT" });
  }
}

/** The store rejects the data of a journal entry, and a retry would not help. The run has failed; its journal shows which steps have completed. */
export class RunNotWritableError extends WorkflowError {
  static override readonly kind: string = "RunNotWritableError";
  readonly runId: string;
  constructor(runId: string, why: string) {
    super(`run "${runId}" cannot continue, because the store rejects its next journal entry: ${why}`, { code: "RUN_NOT_WRITABLE" });
    this.runId = runId;
  }
}

/** The code of a run makes other requests than its journal has. The run is set aside (status "diverged"), and the differing request was not executed. */
export class DivergenceError extends WorkflowError {
  static override readonly kind: string = "DivergenceError";
  constructor(runId: string, facts: DivergenceFacts = nothingKnown) {
    super(divergenceMessage(runId, facts), { code: "DIVERGED" });
  }
}

const nothingKnown: DivergenceFacts = { expected: "nothing", found: "nothing" };

const workflowErrors = [
  RunFailedError,
  RunCancelledError,
  CancelledError,
  RunNotFoundError,
  RunNotCompletedError,
  RunMismatchError,
  StepMismatchError,
  RunCycleError,
  HookConflictError,
  HookNotFoundError,
  StepNotRegisteredError,
  WorkflowNotRegisteredError,
  AmbiguousNameError,
  StreamClosedError,
  ContextError,
  DivergenceError,
  RunNotWritableError,
  ActionRefusedError,
  StaleActionError,
] as const;

for (const { kind } of workflowErrors) workflowKinds.add(kind);
registerErrors(FatalError, RetryableError, ...workflowErrors);
