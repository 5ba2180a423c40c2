import type { Clock } from "./clock.js";
import { OnceflowError } from "./errors.js";

export interface CallBounds {
  /** Then its signal aborts. */
  readonly timeoutMs: number;
  /** How long after that it is given up. */
  readonly graceMs: number;
  /** What taking too long is called. */
  readonly late: () => Error;
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
   * What `work` comes to. After `timeoutMs` its signal aborts, and it has `graceMs` to end: what it says by then counts,
   * because it is known. After that its body may still be running, and the next attempt may overlap with it.
   */
  bound<T>(clock: Clock, { timeoutMs, graceMs, late }: CallBounds, work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      let cancel = clock.after(timeoutMs, () => {
        const reason = late();
        this.abort(reason);
        cancel = clock.after(graceMs, () => reject(reason));
      });
      const end = (): void => cancel();
      work.then(
        (value) => {
          end();
          resolve(value);
        },
        (error: unknown) => {
          end();
          // What it says for good is known; of anything else its being cut short may be the cause.
          reject(error instanceof OnceflowError && !error.retryable ? error : (this.#reason ?? error));
        },
      );
    });
  }
}
