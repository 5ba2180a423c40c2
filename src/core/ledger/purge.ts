import { InvalidInputError } from "../errors/errors.js";
import { knownOptions } from "../errors/known-options.js";
import { requireStore } from "../store/require-store.js";
import type { Store } from "../store/store.js";
import { whole } from "./key-ref.js";

/**
 * Removes what is over (retention and horizon), the results of what is past its retention, and abandoned attempts: running
 * records of the classes `idempotent` and `keyed` whose lease ended that long ago. Never what is unknown. It also runs by itself; this is for those who want it now. Returns how many records it touched.
 */
export async function purge(store: Store, options: { readonly before?: Date | number; readonly limit?: number } = {}): Promise<number> {
  requireStore(store);
  knownOptions("purge", options, { before: true, limit: true });
  const { before, limit = 1000 } = options;
  whole("limit", limit, 1, 10_000);
  if (before === undefined) return await store.purge({ limit });
  const at = Number(before);
  if (!Number.isFinite(at)) throw new InvalidInputError("before", "must be a date or milliseconds since 1970");
  return await store.purge({ before: at, limit });
}
