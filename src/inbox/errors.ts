import { OnceflowError, registerErrors } from "../core/errors/errors.js";

/**
 * Thrown by a handler: this message will never succeed, make it a dead letter now. So does every error that has
 * `retryable: false`.
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

/** Attempts are used up, and the last one ended with its process. */
export function exhausted(attempt: number, attemptsMax: number): OnceflowError {
  const message = `attempt ${attempt} was not made: ${attemptsMax} attempts are allowed, and in the last one the process died or fell silent while it handled no other message. The message may be what kills its process.`;
  return new OnceflowError(message, { code: "ATTEMPTS_EXHAUSTED", attempt });
}

export function tookTooLong(timeoutMs: number): OnceflowError {
  return new OnceflowError(`the handler took longer than ${timeoutMs} ms, and was given up`, { code: "HANDLER_TIMEOUT", retryable: true });
}
