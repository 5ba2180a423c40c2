/** Somebody else's service, which knows idempotency keys: a key that it has seen has its effect no second time. */
export class Provider {
  readonly #calls = new Map<string, number>();

  /** Says what it is asked for, and how often it was asked under this key. */
  call(what: string, key: string): { readonly id: string } {
    const calls = (this.#calls.get(key) ?? 0) + 1;
    this.#calls.set(key, calls);
    console.error(`provider      ${what} ${key}: ${calls === 1 ? "done" : "done before, and not again"} (call ${calls})`);
    return { id: `${what}-${key}` };
  }

  /** Effects, whatever the number of calls. */
  effects(key: string): number {
    return this.#calls.has(key) ? 1 : 0;
  }
}
