/** The signal of one try, made when it is asked for: most bodies never do. */
export class StepSignal {
  readonly #parents: readonly (AbortSignal | undefined)[];
  #controller: AbortController | undefined;
  #signal: AbortSignal | undefined;
  #aborted: { readonly reason: unknown } | undefined;

  constructor(...parents: readonly (AbortSignal | undefined)[]) {
    this.#parents = parents;
  }

  readonly signal = (): AbortSignal => {
    if (this.#signal === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted) this.#controller.abort(this.#aborted.reason);
      this.#signal = AbortSignal.any([this.#controller.signal, ...this.#parents.filter((parent) => parent !== undefined)]);
    }
    return this.#signal;
  };

  abort(reason: unknown): void {
    this.#aborted ??= { reason };
    this.#controller?.abort(reason);
  }
}
