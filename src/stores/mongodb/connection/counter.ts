import { assert } from "../../../core/errors/errors.js";
import { isDuplicateKey } from "../errors.js";
import type { Collections } from "../layout.js";

/** Returns the next number of a counter. Never in a transaction: any two transactions that count would conflict. */
export async function nextNumber({ meta, bounded }: Collections, counter: string): Promise<number> {
  const counters = meta as unknown as CounterCollection;
  const count = () =>
    counters.findOneAndUpdate({ _id: counter }, { $inc: { last: 1 } }, { upsert: true, returnDocument: "after", ...bounded });
  // Of two processes that count for the first time at the same time, one gets a duplicate key error.
  const counted = await count().catch((error: unknown) => (isDuplicateKey(error) ? count() : Promise.reject(error)));
  assert(counted !== null, "an upsert returns the document that it inserts");
  return counted.last;
}

/** The part of the driver's collection that a counter uses. */
interface CounterCollection {
  findOneAndUpdate(filter: { _id: string }, update: object, options: object): Promise<{ readonly last: number } | null>;
}
