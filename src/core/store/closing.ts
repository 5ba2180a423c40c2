/** Closes a store once, after everything that works on it has ended its work. */
export class Closing {
  readonly #closeParts: () => Promise<void>;
  readonly #endings = new Set<() => Promise<void>>();
  #closing: Promise<void> | undefined;

  constructor(closeParts: () => Promise<void>) {
    this.#closeParts = closeParts;
  }

  /** Calls `end`, and waits for it, before the store closes. Returns how to take that back. */
  before(end: () => Promise<void>): () => void {
    this.#endings.add(end);
    return () => void this.#endings.delete(end);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    // Without an await when there is nothing to wait for: commits that come after the call of close() are refused.
    if (this.#endings.size > 0) await Promise.all([...this.#endings].map((end) => end()));
    await this.#closeParts();
  }
}
