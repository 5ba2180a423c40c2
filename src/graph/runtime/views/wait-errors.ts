import { OnceflowError } from "../../../core/errors/errors.js";

/** `runtime.wait` was given a time, and the execution has not ended in it. It goes on: wait again. */
export class WaitTimeoutError extends OnceflowError {
  static override readonly kind: string = "WaitTimeoutError";
  readonly executionId: string;
  readonly timeoutMs: number;

  constructor(executionId: string, timeoutMs: number) {
    super(`[onceflow] execution ${executionId} is still running after ${timeoutMs} ms; it goes on, and can be waited for again`, {
      code: "WAIT_TIMEOUT",
      retryable: true,
    });
    this.executionId = executionId;
    this.timeoutMs = timeoutMs;
  }
}

/** There is no such execution in the store: it was never there, its flow keeps nothing, or it was purged after its retention. */
export class ExecutionNotFoundError extends OnceflowError {
  static override readonly kind: string = "ExecutionNotFoundError";
  readonly executionId: string;

  constructor(executionId: string) {
    super(`[onceflow] there is no execution ${executionId}: it was purged, its flow keeps nothing, or it is in another store`, {
      code: "EXECUTION_NOT_FOUND",
    });
    this.executionId = executionId;
  }
}
