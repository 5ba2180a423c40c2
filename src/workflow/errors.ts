import { knowErrors, OnceflowError } from "../core/errors.js";

/** Thrown in a step: do not try again. What an exhausted step rejects with in its workflow, too. */
export class FatalError extends OnceflowError {
  static override readonly kind: string = "FatalError";
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super(message, { code: "FATAL", ...options });
  }
}

/**
 * Thrown in a step: try again, at the time it names.
 *
 * @example
 * throw new RetryableError("rate limited", { retryAfter: "30s" });
 */
export class RetryableError extends OnceflowError {
  static override readonly kind: string = "RetryableError";
  readonly retryAfter: number | string | Date | undefined;
  constructor(message: string, options: { readonly retryAfter?: number | string | Date; readonly cause?: unknown } = {}) {
    super(message, { code: "RETRYABLE", retryable: true, cause: options.cause });
    this.retryAfter = options.retryAfter;
  }
}

/** The run ended with an error; `cause` is that error. */
export class RunFailedError extends OnceflowError {
  static override readonly kind: string = "RunFailedError";
  readonly runId: string;
  constructor(runId: string, cause: Error) {
    super(`run "${runId}" failed: ${cause.message}`, { code: "RUN_FAILED", cause });
    this.runId = runId;
  }
}

export class RunCancelledError extends OnceflowError {
  static override readonly kind: string = "RunCancelledError";
  readonly runId: string;
  constructor(runId: string) {
    super(`run "${runId}" was cancelled`, { code: "RUN_CANCELLED" });
    this.runId = runId;
  }
}

export class RunNotFoundError extends OnceflowError {
  static override readonly kind: string = "RunNotFoundError";
  readonly runId: string;
  constructor(runId: string) {
    super(`there is no run "${runId}" in this store; it was never started, or its retention is over`, { code: "RUN_NOT_FOUND" });
    this.runId = runId;
  }
}

/** `start` with an id that exists, another input, and `onMismatch: "refuse"`. */
export class RunMismatchError extends OnceflowError {
  static override readonly kind: string = "RunMismatchError";
  readonly runId: string;
  constructor(runId: string) {
    super(`run "${runId}" was started before with another input or another workflow; one id names one run`, { code: "RUN_MISMATCH" });
    this.runId = runId;
  }
}

/** The token of this hook belongs to another hook that is active. */
export class HookConflictError extends OnceflowError {
  static override readonly kind: string = "HookConflictError";
  readonly token: string;
  constructor(token: string) {
    super(`the token "${token}" belongs to another active hook; a token is unique while its hook exists`, { code: "HOOK_CONFLICT" });
    this.token = token;
  }
}

export class HookNotFoundError extends OnceflowError {
  static override readonly kind: string = "HookNotFoundError";
  readonly token: string;
  constructor(token: string) {
    super(`no active hook has the token "${token}"; it was never created, was disposed of, or its run has ended`, {
      code: "HOOK_NOT_FOUND",
    });
    this.token = token;
  }
}

/** A stored value refers to a step that is not defined in this process. */
export class StepNotRegisteredError extends OnceflowError {
  static override readonly kind: string = "StepNotRegisteredError";
  readonly step: string;
  constructor(step: string) {
    super(`no step is defined under the name "${step}" in this process; import the module that defines it before it is needed`, {
      code: "STEP_NOT_REGISTERED",
    });
    this.step = step;
  }
}

/** Nothing in this process is a workflow of this name: what was to be started, or what a stored value refers to. */
export class WorkflowNotRegisteredError extends OnceflowError {
  static override readonly kind: string = "WorkflowNotRegisteredError";
  readonly workflow: string;
  constructor(workflow: string) {
    super(
      `"${workflow}" is not a workflow in this process. If it says "use workflow", its file was not transformed: run it with ` +
        "`node --import onceflow/register`, or build it with a plugin such as onceflow/vite. Else make it one with workflow(name, fn), and import its module.",
      { code: "WORKFLOW_NOT_REGISTERED" },
    );
    this.workflow = workflow;
  }
}

/** This stream of the run was closed: no chunk can come behind its end. */
export class StreamClosedError extends OnceflowError {
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

/** What is asked is only possible in a workflow, or only in a step. */
export class ContextError extends OnceflowError {
  static override readonly kind: string = "ContextError";
  constructor(what: string, where: string) {
    super(`${what} can only be used in ${where}`, { code: "WRONG_CONTEXT" });
  }
}

/** The code of a run asks for something else than its journal says. The run is parked; nothing was executed. */
export class DivergenceError extends OnceflowError {
  static override readonly kind: string = "DivergenceError";
  constructor(runId: string, expected: string, found: string, where: string) {
    super(
      `run "${runId}" has diverged from its journal. Expected: ${expected}. Found: ${found}, at ${where}. ` +
        "The run is parked and goes on under code that matches its journal.",
      { code: "DIVERGED" },
    );
  }
}

knowErrors(
  FatalError,
  RetryableError,
  RunFailedError,
  RunCancelledError,
  RunNotFoundError,
  RunMismatchError,
  HookConflictError,
  HookNotFoundError,
  StepNotRegisteredError,
  WorkflowNotRegisteredError,
  ContextError,
  DivergenceError,
);
