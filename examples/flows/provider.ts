/** An external service with idempotency keys: a second call with the same key has no second effect. */
export class Provider {
  readonly #calls = new Map<string, number>();

  /** Prints each call, and how many times this key was used. */
  call(what: string, key: string): { readonly id: string } {
    const calls = (this.#calls.get(key) ?? 0) + 1;
    this.#calls.set(key, calls);
    console.error(`provider      ${what} ${key}: ${calls === 1 ? "done" : "already done, no second effect"} (call ${calls})`);
    return { id: `${what}-${key}` };
  }

  /** The number of effects under this key, independent of the number of calls. */
  effects(key: string): number {
    return this.#calls.has(key) ? 1 : 0;
  }
}
