import { knowErrors, OnceflowError } from "../core/errors/errors.js";
import { inWords, type SchemaIssue } from "../core/values/schema.js";

/** Thrown by `step()` and `parallel()` if the flow already has a step or stage with this name. */
export class StepAlreadyExistsError extends OnceflowError {
  static override readonly kind: string = "StepAlreadyExistsError";
  readonly step: string;
  constructor(flow: string, step: string) {
    super(`flow "${flow}" already has a step "${step}"; step names must be unique in a flow, because results and step keys use them`, {
      code: "STEP_ALREADY_EXISTS",
    });
    this.step = step;
  }
}

/** Another call or process is running the flow under this key. Thrown with `onRunning: "throw"`; retry after `retryAfterMs`. */
export class FlowAlreadyRunningError extends OnceflowError {
  static override readonly kind: string = "FlowAlreadyRunningError";
  readonly flow: string;
  constructor(flow: string, key: string, facts: { readonly attempt?: number; readonly retryAfterMs?: number } = {}) {
    super(`flow "${flow}" is already running under key "${key}"; try again later, or use onRunning: "wait"`, {
      code: "FLOW_ALREADY_RUNNING",
      retryable: true,
      key,
      ...facts,
    });
    this.flow = flow;
  }
}

/** There is no usable record under this key: none was started, it has expired, or it is not in a state that allows the operation. */
export class IdempotencyRecordNotFoundError extends OnceflowError {
  static override readonly kind: string = "IdempotencyRecordNotFoundError";
  constructor(key: string, problem = "no record found; start it first") {
    super(`key "${key}": ${problem}`, { code: "IDEMPOTENCY_RECORD_NOT_FOUND", key });
  }
}

/** One attempt of a step exceeded `timeoutMs`. Its signal is aborted; its body may still be running. */
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

/** The input does not match the schema of the flow. No step ran, and nothing was stored. `issues` lists the problems. */
export class FlowValidationError extends OnceflowError {
  static override readonly kind: string = "FlowValidationError";
  readonly issues: readonly SchemaIssue[];
  constructor(flow: string, issues: readonly SchemaIssue[] = []) {
    super(`flow "${flow}" received an invalid input: ${inWords("input", issues)}`, { code: "FLOW_VALIDATION" });
    this.issues = issues;
  }
}

knowErrors(StepAlreadyExistsError, FlowAlreadyRunningError, IdempotencyRecordNotFoundError, StepTimeoutError, FlowValidationError);
