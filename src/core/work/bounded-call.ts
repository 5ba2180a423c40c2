import { OnceflowError } from "../errors/errors.js";
import type { Clock } from "./clock.js";

/** Timeout and grace period of a call, and how they affect its outcome. */
export interface CallLimits<T> {
  /** The signal aborts after this time. */
  readonly timeoutMs: number;
  /** How long the call may go on after the timeout. */
  readonly graceMs: number;
  /** Creates the reason with which the signal aborts. */
  readonly timeoutError: () => Error;
  /** Returns or throws the outcome of a call that has not ended after the grace period. */
  readonly giveUp: () => T;
  /** Returns or throws the outcome of a call that returned `value`. Default: the value. */
  readonly judgeValue?: (value: T) => T;
  /** Returns the error of a call that threw `error`. Default: the error. */
  readonly judgeError?: (error: unknown) => unknown;
  /** The timer of `timeoutMs` does not keep the process alive. Default: false. */
  readonly background?: boolean;
}

export interface CallBounds {
  readonly timeoutMs: number;
  readonly graceMs: number;
  /** When the call began. Default: when `bound` is called. */
  readonly beganAt?: number;
  readonly timeoutError: () => Error;
  /**
   * Called when the call succeeds after `timeoutMs` but within `graceMs`. If it returns an error, the call fails with that error.
   * Default: the success counts.
   */
  readonly judgeLateSuccess?: (timeout: Error) => Error | undefined;
}

const noParents = (): readonly AbortSignal[] => [];

/**
 * One call of the user's code with its abort signal and time limits. The signal is created at its first use, because most code
 * never uses it.
 *
 *   running    the signal is not aborted
 *   in grace   `timeoutMs` has passed and the signal is aborted; the call may still end, and its outcome counts
 *   given up   `graceMs` has passed too. Only from now on can another attempt overlap with code that still runs
 */
export class BoundedCall {
  readonly #parents: () => readonly AbortSignal[];
  #controller: AbortController | undefined;
  #signal: AbortSignal | undefined;
  #aborted: { readonly reason: unknown } | undefined;

  /** `parents`: signals that also abort this call's signal. */
  constructor(parents = noParents) {
    this.#parents = parents;
  }

  signal(): AbortSignal {
    if (this.#signal === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted !== undefined) this.#controller.abort(this.#aborted.reason);
      const parents = this.#parents();
      this.#signal = parents.length === 0 ? this.#controller.signal : AbortSignal.any([this.#controller.signal, ...parents]);
    }
    return this.#signal;
  }

  get isAborted(): boolean {
    return this.#aborted !== undefined;
  }

  /** Undefined: `abort` was not called. */
  get abortReason(): unknown {
    return this.#aborted?.reason;
  }

  /** Aborts the signal. If called again, the first reason stays. */
  abort(reason: unknown): void {
    this.#aborted ??= { reason };
    this.#controller?.abort(this.#aborted.reason);
  }

  /** Settles when `work` has ended, or after its timeout and grace period. */
  limit<T>(
    clock: Clock,
    { timeoutMs, graceMs, timeoutError, giveUp, judgeValue, judgeError, background = false }: CallLimits<T>,
    work: Promise<T>,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const settle = (outcome: () => T) => {
        try {
          resolve(outcome());
        } catch (error) {
          reject(error);
        }
      };
      const expire = () => {
        this.abort(timeoutError());
        // This timer keeps the process alive, because the outcome must still be recorded.
        cancel = clock.after(graceMs, () => settle(giveUp));
      };
      let cancel = clock.after(timeoutMs, expire, background);
      work.then(
        (value) => {
          cancel();
          if (judgeValue === undefined) resolve(value);
          else settle(() => judgeValue(value));
        },
        (error: unknown) => {
          cancel();
          reject(judgeError === undefined ? error : judgeError(error));
        },
      );
    });
  }

  /**
   * `limit` with the rules for publishers, graph nodes and steps of flows: a call that is given up, or fails after its timeout, fails with
   * the timeout error; a late success counts unless `judgeLateSuccess` returns an error.
   */
  bound<T>(clock: Clock, bounds: CallBounds, work: Promise<T>): Promise<T> {
    const { timeoutMs, graceMs, timeoutError, judgeLateSuccess, beganAt = clock.now() } = bounds;
    const dueAt = beganAt + timeoutMs;
    let timeout: Error | undefined;
    const expire = (): Error => {
      timeout ??= timeoutError();
      return timeout;
    };
    const giveUp = () => {
      throw expire();
    };
    const judgeValue = (value: T): T => {
      // Code that blocks the event loop ends before its timer can fire.
      if (timeout === undefined && clock.now() > dueAt) this.abort(expire());
      const error = timeout === undefined ? undefined : judgeLateSuccess?.(timeout);
      if (error !== undefined) throw error;
      return value;
    };
    // A final OnceflowError is certain. Any other error may be a consequence of the abort.
    const judgeError = (error: unknown) => (error instanceof OnceflowError && !error.retryable ? error : (this.abortReason ?? error));
    return this.limit(clock, { timeoutMs, graceMs, timeoutError: expire, giveUp, judgeValue, judgeError }, work);
  }
}
