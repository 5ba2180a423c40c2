import { AsyncLocalStorage } from "node:async_hooks";
import type { Attempt } from "../core/ledger/run-attempt.js";

const attempts = new AsyncLocalStorage<Attempt>();

/**
 * Returns the current attempt at this request: its number, the `effectKey` to pass to providers, and the signal that aborts when
 * the handler should stop. Undefined outside a request with an idempotency key.
 *
 * @example
 * await provider.charge(order, { idempotencyKey: currentAttempt()?.effectKey });
 */
export function currentAttempt(): Attempt | undefined {
  return attempts.getStore();
}

export function within<T>(attempt: Attempt, work: () => T): T {
  return attempts.run(attempt, work);
}
