import type { EffectLedger } from "onceflow/testing";

/** All calls that reached the provider, over all keys. */
export function callsIn(effects: Pick<EffectLedger, "keys" | "rawCalls">): number {
  return effects.keys().reduce((sum, key) => sum + effects.rawCalls(key), 0);
}
