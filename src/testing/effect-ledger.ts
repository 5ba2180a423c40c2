/** One raw call that reached the other side. */
export interface EffectCall {
  readonly key: string;
  readonly attempt: number | undefined;
  readonly at: number;
  /** Whether this call did it, or found it done. */
  readonly applied: boolean;
}

/**
 * Counts at the other side: every raw call per key, and the effects that were really applied. With `honoursKeys` it
 * behaves as providers with idempotency keys do: a second call with a key answers with the first one's result.
 *
 * @example
 * const effects = new EffectLedger({ honoursKeys: true });
 * effects.call("charge:1", { attempt: 1, result: { id: "ch_1" } });
 * effects.rawCalls("charge:1") === 1;
 */
export class EffectLedger {
  readonly #honoursKeys: boolean;
  readonly #now: () => number;
  readonly #calls = new Map<string, EffectCall[]>();
  readonly #results = new Map<string, unknown>();

  constructor({ honoursKeys, now = Date.now }: { readonly honoursKeys: boolean; readonly now?: () => number }) {
    this.#honoursKeys = honoursKeys;
    this.#now = now;
  }

  call<T>(key: string, { attempt, result }: { readonly attempt?: number; readonly result: T }): T {
    const known = this.#honoursKeys && this.#results.has(key);
    const calls = this.#calls.get(key) ?? [];
    calls.push({ key, attempt, at: this.#now(), applied: !known });
    this.#calls.set(key, calls);
    if (!known) this.#results.set(key, result);
    return this.#results.get(key) as T;
  }

  /** What the other side has for this key, as a reconciling caller would ask for it. */
  find(key: string): { readonly found: unknown } | "absent" {
    return this.#results.has(key) ? { found: this.#results.get(key) } : "absent";
  }

  rawCalls(key: string): number {
    return this.#calls.get(key)?.length ?? 0;
  }

  applied(key: string): number {
    return this.calls(key).filter((call) => call.applied).length;
  }

  calls(key: string): readonly EffectCall[] {
    return this.#calls.get(key) ?? [];
  }

  keys(): readonly string[] {
    return [...this.#calls.keys()];
  }
}
