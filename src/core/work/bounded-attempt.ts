import type { Attempt } from "../ledger/run-attempt.js";
import type { Tx } from "../store/store.js";
import { BoundedCall } from "./bounded-call.js";
import type { Clock } from "./clock.js";

export interface AttemptBounds {
  readonly timeoutMs: number;
  readonly graceMs: number;
  /** Creates the error of an attempt that fails or is given up after its timeout. */
  readonly overdueError: () => Error;
}

/**
 * Runs a handler with a timeout, so that a handler that hangs does not keep its key running forever. A late success within the grace period
 * counts: the effect has happened, and its result is known.
 */
export function runBounded<Value>(
  clock: Clock,
  attempt: Attempt,
  { timeoutMs, graceMs, overdueError }: AttemptBounds,
  run: (attempt: Attempt) => Promise<Value>,
): Promise<Value> {
  const call = new BoundedCall(() => [attempt.signal]);
  const limits = {
    ...{ timeoutMs, graceMs, background: true },
    timeoutError: () => new Error(`the handler took longer than ${timeoutMs} ms`),
    giveUp: () => {
      throw overdueError();
    },
    judgeError: (error: unknown) => (call.isAborted ? overdueError() : error),
  };
  return call.limit(clock, limits, run(new BoundedAttempt(attempt, call)));
}

/** The attempt as the handler sees it: its signal also aborts at the timeout. */
class BoundedAttempt implements Attempt {
  readonly #attempt: Attempt;
  readonly #call: BoundedCall;
  readonly tx?: Tx;

  constructor(attempt: Attempt, call: BoundedCall) {
    this.#attempt = attempt;
    this.#call = call;
    if (attempt.tx !== undefined) this.tx = attempt.tx;
  }

  get key(): string {
    return this.#attempt.key;
  }

  get scope(): string {
    return this.#attempt.scope;
  }

  get effectKey(): string {
    return this.#attempt.effectKey;
  }

  get number(): number {
    return this.#attempt.number;
  }

  get startedAt(): Date {
    return this.#attempt.startedAt;
  }

  get signal(): AbortSignal {
    return this.#call.signal();
  }
}
