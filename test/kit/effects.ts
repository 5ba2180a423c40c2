import type { EffectLedger } from "onceflow/testing";

/** All calls that came to the other side, of every key. */
export function callsIn(effects: Pick<EffectLedger, "keys" | "rawCalls">): number {
  return effects.keys().reduce((sum, key) => sum + effects.rawCalls(key), 0);
}
