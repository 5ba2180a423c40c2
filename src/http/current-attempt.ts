import { AsyncLocalStorage } from "node:async_hooks";
import type { Attempt } from "../core/ledger/run-attempt.js";

const attempts = new AsyncLocalStorage<Attempt>();

/**
 * The attempt that this request is being worked on under: its number, the key to hand to providers, the signal that says
 * stop. Undefined in a request that is not keyed.
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
