import { key, once, type Store } from "onceflow";
import { type Contender, measure } from "../measure.js";
import { type Kind, names } from "./subject.js";

/** The value that every handler returns and every floor stores. */
export const result = { charge: "ch_1", paid: true };
export const outcome = JSON.stringify(result);

export type Keys = () => string;

/** Returns fresh keys, for our store and for the floors. */
export function freshKeys(prefix = "charge"): Keys {
  let made = 0;
  return () => {
    made += 1;
    return `${prefix}:order-${made}`;
  };
}

/** Cycles through the same keys. There are more keys than callers, so that no two callers ask for one at the same time. */
export const settledCount = 1000;

export function settledKeys(): Keys {
  let asked = 0;
  return () => {
    asked += 1;
    return `settled:order-${asked % settledCount}`;
  };
}

export async function ours(store: Store, kind: Kind): Promise<Contender> {
  if (kind === "replayed") await settleAll(store);
  return {
    name: names.ours,
    work: kind === "executed" ? executes(store, freshKeys()) : replays(store),
    count: () => store.metrics.flushes,
  };
}

export function executes(store: Store, keys: Keys): () => Promise<unknown> {
  return () => once(store, { key: key.of(keys()) }, async () => result);
}

export function replays(store: Store): () => Promise<unknown> {
  const keys = settledKeys();
  return async () => {
    const { status } = await once(store, { key: key.of(keys()) }, async () => result);
    if (status !== "replayed") throw new Error(`a settled key was ${status} instead of replayed`);
  };
}

/** Executes every key of `settledKeys` once. */
export async function settleAll(store: Store): Promise<void> {
  const keys = settledKeys();
  await times(settledCount, 64, executes(store, keys));
}

/** Makes a fixed number of calls with this many callers. */
export async function times(count: number, callers: number, work: () => Promise<unknown>): Promise<void> {
  let left = count;
  const caller = async () => {
    while (left > 0) {
      left -= 1;
      await work();
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
}

/** Tries the variants one after another, and returns the one with the highest rate. */
export async function fastest(variants: readonly Contender[], callers: number, tryMs: number): Promise<Contender> {
  let best: { readonly contender: Contender; readonly perSecond: number } | undefined;
  for (const contender of variants) {
    await measure(contender, { callers, forMs: tryMs / 4 });
    const { perSecond } = await measure(contender, { callers, forMs: tryMs });
    if (best === undefined || perSecond > best.perSecond) best = { contender, perSecond };
  }
  if (best === undefined) throw new Error("there are no variants to choose from");
  return best.contender;
}
