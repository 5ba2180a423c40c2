import { OnceflowError } from "../errors/errors.js";
import type { Clock } from "./clock.js";

/** Timeout, grace, and what their ends mean for the outcome of a call. */
export interface CallLimits<T> {
  /** After this time the signal aborts. */
  readonly timeoutMs: number;
  /** How long after that the call may still end. */
  readonly graceMs: number;
  /** Makes the reason with which the signal aborts. */
  readonly timeoutError: () => Error;
  /** Returns or throws the outcome of a call that has not ended when its grace is over. */
  readonly giveUp: () => T;
  /** Returns or throws the outcome of a call that has ended with `value`. Default: the value. */
  readonly judgeValue?: (value: T) => T;
  /** Returns the error of a call that has ended with `error`. Default: the error. */
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
   * Called when the call succeeds after `timeoutMs`, within `graceMs`. Undefined: the success is the outcome. An error: the
   * call has failed with that. Default: the success is the outcome.
   */
  readonly judgeLateSuccess?: (timeout: Error) => Error | undefined;
}

const noParents = (): readonly AbortSignal[] => [];

/**
 * One call of the user's code: its signal, and its bounds in time. The signal is made when the code asks for it, which most
 * code never does.
 *
 *   running    the signal is not aborted
 *   in grace   `timeoutMs` is over and the signal is aborted; the call may still end, and its end counts
 *   given up   `graceMs` is over, too. Only now may another attempt overlap with code that still runs
 */
export class BoundedCall {
  readonly #parents: () => readonly AbortSignal[];
  #controller: AbortController | undefined;
  #signal: AbortSignal | undefined;
  #aborted: { readonly reason: unknown } | undefined;

  /** `parents`: signals that abort this call's signal, too. */
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

  /** The first reason stays. */
  abort(reason: unknown): void {
    this.#aborted ??= { reason };
    this.#controller?.abort(this.#aborted.reason);
  }

  /** Settles when `work` has ended, or when its timeout and grace are over. */
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
        // It keeps the process alive: the outcome has yet to be recorded.
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
   * `limit` with the rules of publishers, nodes and steps of flows: the timeout is the error of a call that is given up or
   * fails after it; a late success counts unless `judgeLateSuccess` says otherwise.
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
      // Code that blocks the event loop ends before the timer can fire.
      if (timeout === undefined && clock.now() > dueAt) this.abort(expire());
      const error = timeout === undefined ? undefined : judgeLateSuccess?.(timeout);
      if (error !== undefined) throw error;
      return value;
    };
    // A final error of ours is certain. Any other error may be a consequence of the abort.
    const judgeError = (error: unknown) => (error instanceof OnceflowError && !error.retryable ? error : (this.abortReason ?? error));
    return this.limit(clock, { timeoutMs, graceMs, timeoutError: expire, giveUp, judgeValue, judgeError }, work);
  }
}
