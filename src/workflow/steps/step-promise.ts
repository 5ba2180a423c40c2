/**
 * The promise of a step call, which knows whether the code has looked at it. `await`, `then`, `catch`, `finally` and the
 * combinators of Promise all read `constructor` first, and nothing else does: so a getter there sees every one of them.
 * It answers `Promise`, as a plain promise does, so that `await` takes as many turns as for a plain one: with more, the
 * calls of two branches could change places under journals that are there already.
 */
export class StepPromise<T> extends Promise<T> {
  #observed = false;
  /** Called once, when the code first looks at it. */
  onObserved: (() => void) | undefined;

  get observed(): boolean {
    return this.#observed;
  }

  /** The code may look at it later, or never: until then its rejection is no mistake of the code. */
  ignoreRejection(): void {
    const seen = this.#observed;
    this.#observed = true;
    this.catch(() => {});
    this.#observed = seen;
  }

  /** What the getter of `constructor` does. */
  static observe(promise: StepPromise<unknown>): void {
    if (promise.#observed) return;
    promise.#observed = true;
    promise.onObserved?.();
  }
}

Object.defineProperty(StepPromise.prototype, "constructor", {
  get(this: unknown): PromiseConstructor {
    // Also read from the prototype itself, by a debugger say.
    if (this instanceof StepPromise && this !== StepPromise.prototype) StepPromise.observe(this);
    return Promise;
  },
  configurable: true,
});
