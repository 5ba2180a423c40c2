/** Closes a store once, after everything that uses it has stopped. */
export class Closing {
  readonly #closeParts: () => Promise<void>;
  readonly #endings = new Set<() => Promise<void>>();
  #closing: Promise<void> | undefined;

  constructor(closeParts: () => Promise<void>) {
    this.#closeParts = closeParts;
  }

  /** Registers `end`, which is called and awaited before the store closes. Returns a function that unregisters it. */
  before(end: () => Promise<void>): () => void {
    this.#endings.add(end);
    return () => void this.#endings.delete(end);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // No await if there is nothing to wait for: commits right after the call of close() must be refused.
    if (this.#endings.size > 0) await Promise.all([...this.#endings].map((end) => end()));
    await this.#closeParts();
  }
}
