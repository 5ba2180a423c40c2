/** One call that reached the provider. */
export interface EffectCall {
  /** The idempotency key of the call. */
  readonly key: string;
  /** The attempt that made the call, if the caller sent it. */
  readonly attempt: number | undefined;
  /** Time of the call, in ms since the epoch. */
  readonly at: number;
  /** True when this call applied the effect; false when an earlier call with the same key had applied it. */
  readonly applied: boolean;
}

/**
 * A fake provider that counts, per key, the calls that arrive and the effects that are applied. With `honoursKeys` it
 * deduplicates like a provider with idempotency keys: a second call with a key returns the result of the first call.
 * Without it, every call applies the effect again.
 *
 * @example
 * const effects = new EffectLedger({ honoursKeys: true });
 * effects.call("charge:1", { attempt: 1, result: { id: "ch_1" } });
 * effects.call("charge:1", { attempt: 2, result: { id: "ch_2" } }); // → { id: "ch_1" }
 * effects.rawCalls("charge:1"); // → 2
 * effects.applied("charge:1"); // → 1
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

  /** Records a call and returns its result: `result`, or the first result of this key if keys are honoured. */
  call<T>(key: string, { attempt, result }: { readonly attempt?: number; readonly result: T }): T {
    const known = this.#honoursKeys && this.#results.has(key);
    const calls = this.#calls.get(key) ?? [];
    calls.push({ key, attempt, at: this.#now(), applied: !known });
    this.#calls.set(key, calls);
    if (!known) this.#results.set(key, result);
    return this.#results.get(key) as T;
  }

  /** Looks the key up at the provider, in the form that a `reconcile` function returns. */
  find(key: string): { readonly found: unknown } | "absent" {
    return this.#results.has(key) ? { found: this.#results.get(key) } : "absent";
  }

  /** Number of calls with this key, including those that applied nothing. */
  rawCalls(key: string): number {
    return this.#calls.get(key)?.length ?? 0;
  }

  /** Number of times that the effect of this key was applied. */
  applied(key: string): number {
    return this.calls(key).filter((call) => call.applied).length;
  }

  /** The calls with this key, in order of arrival. */
  calls(key: string): readonly EffectCall[] {
    return this.#calls.get(key) ?? [];
  }

  /** Every key that was called. */
  keys(): readonly string[] {
    return [...this.#calls.keys()];
  }
}
