import { InvalidInputError } from "../errors/errors.js";
import { knownOptions } from "../errors/known-options.js";
import { requireStore } from "../store/require-store.js";
import type { Store } from "../store/store.js";
import { whole } from "./key-ref.js";

/**
 * Removes expired records now, without waiting for the purge that every store runs in the background.
 *
 * It removes records past retention and horizon, the results of records past their retention, and abandoned attempts (running
 * records of the effect classes `idempotent` and `keyed` whose lease expired longer ago than retention and horizon together).
 * It never removes a record whose outcome is unknown. Returns the number of records that it removed or changed, at most `limit`
 * (default 1000).
 *
 * @throws InvalidInputError if an option is not valid.
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
