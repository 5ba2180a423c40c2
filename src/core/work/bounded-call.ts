import { OnceflowError } from "../errors/errors.js";
import type { Clock } from "./clock.js";

export interface CallBounds {
  /** Then its signal aborts. */
  readonly timeoutMs: number;
  /** When the call began. Default: when `bound` is called. */
  readonly beganAt?: number;
  /** How long after that it is given up. */
  readonly graceMs: number;
  /** What taking too long is called. */
  readonly late: () => Error;
  /**
   * Asked when the call succeeds after `timeoutMs`, within `graceMs`. Undefined: the success is the outcome. An error: the
   * call has failed with that. Default: the success is the outcome.
   */
  readonly succeededLate?: (timeout: Error) => Error | undefined;
}

/** One call of somebody's code, bounded in time. Its signal is made when somebody asks for it. */
export class BoundedCall {
  #controller: AbortController | undefined;
  #reason: Error | undefined;

  signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#reason !== undefined && !this.#controller.signal.aborted) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  }

  /** Why; undefined: it may go on. */
  get aborted(): Error | undefined {
    return this.#reason;
  }

  abort(reason: Error): void {
    this.#reason ??= reason;
    this.#controller?.abort(this.#reason);
  }

  /**
   * The outcome of `work`. After `timeoutMs` its signal aborts, and it has `graceMs` to end. The promise settles when `work`
   * has ended or `graceMs` is over: only in the second case may the next attempt overlap with it.
   */
  bound<T>(clock: Clock, { timeoutMs, graceMs, late, succeededLate, beganAt = clock.now() }: CallBounds, work: Promise<T>): Promise<T> {
    const dueAt = beganAt + timeoutMs;
    return new Promise((resolve, reject) => {
      let timeout: Error | undefined;
      const expire = (): Error => {
        timeout = late();
        this.abort(timeout);
        return timeout;
      };
      let cancel = clock.after(timeoutMs, () => {
        const error = expire();
        cancel = clock.after(graceMs, () => reject(error));
      });
      work.then(
        (value) => {
          cancel();
          // A body that blocks the event loop ends before the timer can fire.
          if (timeout === undefined && clock.now() > dueAt) expire();
          const error = timeout === undefined ? undefined : succeededLate?.(timeout);
          if (error === undefined) resolve(value);
          else reject(error);
        },
        (error: unknown) => {
          cancel();
          // What it says for good is known; of anything else its being cut short may be the cause.
          reject(error instanceof OnceflowError && !error.retryable ? error : (this.#reason ?? error));
        },
      );
    });
  }
}
