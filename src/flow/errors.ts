import { OnceflowError, registerErrors } from "../core/errors/errors.js";
import { inWords, type SchemaIssue } from "../core/values/schema.js";

/** Two steps of one flow have the same name. */
export class StepAlreadyExistsError extends OnceflowError {
  static override readonly kind: string = "StepAlreadyExistsError";
  readonly step: string;
  constructor(flow: string, step: string) {
    super(`flow "${flow}" already has a step "${step}"; names are unique in a flow, because results and keys go by them`, {
      code: "STEP_ALREADY_EXISTS",
    });
    this.step = step;
  }
}

/** Somebody else is running the flow under this key now. */
export class FlowAlreadyRunningError extends OnceflowError {
  static override readonly kind: string = "FlowAlreadyRunningError";
  readonly flow: string;
  constructor(flow: string, key: string, facts: { readonly attempt?: number; readonly retryAfterMs?: number } = {}) {
    super(`flow "${flow}" is already running under key "${key}"; try again later, or ask for onRunning: "wait"`, {
      code: "FLOW_ALREADY_RUNNING",
      retryable: true,
      key,
      ...facts,
    });
    this.flow = flow;
  }
}

/** Nothing is stored under this key. */
export class IdempotencyRecordNotFoundError extends OnceflowError {
  static override readonly kind: string = "IdempotencyRecordNotFoundError";
  constructor(key: string, problem = "there is no record of it; start it first") {
    super(`key "${key}": ${problem}`, { code: "IDEMPOTENCY_RECORD_NOT_FOUND", key });
  }
}

/** One attempt of a step took too long. Its signal is aborted; its body may still be at it. */
export class StepTimeoutError extends OnceflowError {
  static override readonly kind: string = "StepTimeoutError";
  readonly step: string;
  readonly timeoutMs: number;
  constructor(step: string, timeoutMs: number) {
    super(`step "${step}" timed out after ${timeoutMs} ms`, { code: "STEP_TIMEOUT", retryable: true });
    this.step = step;
    this.timeoutMs = timeoutMs;
  }
}

/** The schema refused the input. No step ran, and nothing was stored. */
export class FlowValidationError extends OnceflowError {
  static override readonly kind: string = "FlowValidationError";
  readonly issues: readonly SchemaIssue[];
  constructor(flow: string, issues: readonly SchemaIssue[] = []) {
    super(`flow "${flow}" was given an invalid input: ${inWords("input", issues)}`, { code: "FLOW_VALIDATION" });
    this.issues = issues;
  }
}

registerErrors(StepAlreadyExistsError, FlowAlreadyRunningError, IdempotencyRecordNotFoundError, StepTimeoutError, FlowValidationError);
