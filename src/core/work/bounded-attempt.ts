import type { Attempt } from "../ledger/run-attempt.js";
import type { Tx } from "../store/store.js";
import type { Clock } from "./clock.js";

export interface Bounds {
  /** Then the attempt's signal aborts. */
  readonly timeoutMs: number;
  /** How long after that it is given up. */
  readonly graceMs: number;
  /** What giving up is called. */
  readonly overdue: () => Error;
}

/** A handler that hangs is told to stop, and given up some time after that: its key must not be taken for ever. */
export function runBounded<Value>(
  clock: Clock,
  attempt: Attempt,
  { timeoutMs, graceMs, overdue }: Bounds,
  run: (attempt: Attempt) => Promise<Value>,
): Promise<Value> {
  const stoppable = new StoppableAttempt(attempt);
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(overdue());
    const stop = () => {
      stoppable.stop(new Error(`the handler took longer than ${timeoutMs} ms`));
      cancel = clock.after(graceMs, giveUp);
    };
    let cancel = clock.after(timeoutMs, stop, true);
    run(stoppable)
      .finally(() => cancel())
      .then(resolve, (error) => (stoppable.stopped ? giveUp() : reject(error)));
  });
}

/** The attempt as the handler sees it: its signal also says that time is up. */
class StoppableAttempt implements Attempt {
  readonly #attempt: Attempt;
  readonly #limit = new AbortController();
  #signal: AbortSignal | undefined;
  readonly tx?: Tx;

  constructor(attempt: Attempt) {
    this.#attempt = attempt;
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
    this.#signal ??= AbortSignal.any([this.#attempt.signal, this.#limit.signal]);
    return this.#signal;
  }

  get stopped(): boolean {
    return this.#limit.signal.aborted;
  }

  stop(reason: Error): void {
    this.#limit.abort(reason);
  }
}
