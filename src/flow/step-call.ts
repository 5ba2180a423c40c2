import { BoundedCall } from "../core/work/bounded-call.js";

/** One attempt of a step. Its signal is made when the body asks for it (most bodies never do), and also follows `parents`. */
export class StepCall extends BoundedCall {
  readonly #parents: readonly (AbortSignal | undefined)[];
  #signal: AbortSignal | undefined;

  constructor(...parents: readonly (AbortSignal | undefined)[]) {
    super();
    this.#parents = parents;
  }

  override signal(): AbortSignal {
    this.#signal ??= AbortSignal.any([super.signal(), ...this.#parents.filter((parent) => parent !== undefined)]);
    return this.#signal;
  }
}
