import { OnceflowError, registerErrors } from "../core/errors/errors.js";

/**
 * Throw it in a handler if the message can never succeed: the message becomes a dead letter without further attempts. Any
 * error with `retryable: false` has the same effect.
 *
 * @example
 * throw new PermanentError("the order was cancelled");
 */
export class PermanentError extends OnceflowError {
  static override readonly kind: string = "PermanentError";
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super(message, { code: "PERMANENT", retryable: false, ...options });
  }
}

registerErrors(PermanentError);

export function isPermanent(error: unknown): boolean {
  return typeof error === "object" && error !== null && "retryable" in error && error.retryable === false;
}

/** All attempts are used up, and the last one ended because its process died. */
export function exhausted(attempt: number, attemptsMax: number): OnceflowError {
  const message = `attempt ${attempt} was not started: the limit is ${attemptsMax} attempts, and during the last one the process died or stopped responding while it handled no other message. The message may be crashing its process.`;
  return new OnceflowError(message, { code: "ATTEMPTS_EXHAUSTED", attempt });
}

export function tookTooLong(timeoutMs: number): OnceflowError {
  return new OnceflowError(`the handler did not finish within ${timeoutMs} ms`, { code: "HANDLER_TIMEOUT", retryable: true });
}
