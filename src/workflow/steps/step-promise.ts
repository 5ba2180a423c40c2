/**
 * The promise of a step call, which knows whether the code has observed it. `await`, `then`, `catch`, `finally` and the
 * combinators of Promise all read `constructor` first, and nothing else does, so a getter there detects all of them. The
 * getter returns `Promise`, so that `await` takes as many microtasks as for a plain promise: with more, the calls of two
 * parallel branches could change their order, and existing journals would diverge.
 */
export class StepPromise<T> extends Promise<T> {
  #observed = false;
  /** Called once, when the code first observes the promise. */
  onObserved: (() => void) | undefined;

  get observed(): boolean {
    return this.#observed;
  }

  /** Prevents an unhandled rejection: the code may observe the promise later, or never. Does not count as observed. */
  ignoreRejection(): void {
    const seen = this.#observed;
    this.#observed = true;
    this.catch(() => {});
    this.#observed = seen;
  }

  /** Called by the getter of `constructor`. */
  static observe(promise: StepPromise<unknown>): void {
    if (promise.#observed) return;
    promise.#observed = true;
    promise.onObserved?.();
  }
}

Object.defineProperty(StepPromise.prototype, "constructor", {
  get(this: unknown): PromiseConstructor {
    // A debugger may read it from the prototype itself.
    if (this instanceof StepPromise && this !== StepPromise.prototype) StepPromise.observe(this);
    return Promise;
  },
  configurable: true,
});
