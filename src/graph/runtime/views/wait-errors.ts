import { OnceflowError } from "../../../core/errors/errors.js";

/** The execution has not ended within `timeoutMs` of `runtime.wait`. It goes on: wait again. */
export class WaitTimeoutError extends OnceflowError {
  static override readonly kind: string = "WaitTimeoutError";
  readonly executionId: string;
  readonly timeoutMs: number;

  constructor(executionId: string, timeoutMs: number) {
    super(`[onceflow] execution ${executionId} is still running after ${timeoutMs} ms; it continues, and you can wait again`, {
      code: "WAIT_TIMEOUT",
      retryable: true,
    });
    this.executionId = executionId;
    this.timeoutMs = timeoutMs;
  }
}

/** The store has no such execution: it never existed, its flow stores nothing, or it was purged after its retention. */
export class ExecutionNotFoundError extends OnceflowError {
  static override readonly kind: string = "ExecutionNotFoundError";
  readonly executionId: string;

  constructor(executionId: string) {
    super(`[onceflow] execution ${executionId} not found: it was purged, its flow stores nothing, or it is in another store`, {
      code: "EXECUTION_NOT_FOUND",
    });
    this.executionId = executionId;
  }
}
