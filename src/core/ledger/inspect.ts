import { requireStore } from "../store/require-store.js";
import type { AuditedEntry, Store } from "../store/store.js";
import { decode } from "../values/codec.js";
import { decodeError } from "../values/stored-error.js";
import { checkRef, idOf, type KeyRef } from "./key-ref.js";
import { type AttemptEntry, entryOf } from "./record.js";
import { type RecordSummary, summarise } from "./summary.js";

/** What {@link inspect} returns: a record with its outcome and its attempts. */
export interface Inspection extends RecordSummary {
  /** The stored result, if the operation completed and its result could be stored. */
  readonly value?: unknown;
  /** The stored error, if the operation failed with `keepFailures`. */
  readonly error?: Error;
  /** False: the operation completed, but its result could not be stored. */
  readonly kept: boolean;
  /** Oldest first, the current attempt last; only the newest 1000. */
  readonly attempts: readonly AttemptEntry[];
  /** Calls that did not run the operation (replays and refusals), newest 1000. Only if the store was opened with `audit: "all"`. */
  readonly audit: readonly AuditedEntry[];
}

const attemptsMax = 1000;

/**
 * Reads the record of a key with its outcome and attempts. Undefined if there is no record. Changes nothing.
 *
 * @throws InvalidInputError if the key or scope is not valid; EncryptionError if the outcome cannot be decrypted.
 * @example
 * const found = await inspect(store, { key: "charge:order-1" });
 * console.log(found?.state, found?.attempts.length);
 */
export async function inspect(store: Store, ref: KeyRef): Promise<Inspection | undefined> {
  requireStore(store);
  checkRef("inspect", ref);
  const id = idOf(ref);
  const reading = await store.read(id);
  if (reading === undefined) return undefined;
  const { record } = reading;
  const past = await store.attempts({ ...id, afterAttempt: Math.max(0, record.attempt - attemptsMax), limit: attemptsMax });
  const summary = summarise(reading);
  const kept = record.state !== "completed" || record.outcome !== null;
  return {
    ...summary,
    kept,
    ...(record.state === "completed" && record.outcome !== null ? { value: decode(record.outcome) } : {}),
    ...(record.state === "failed" && record.outcome !== null ? { error: decodeError(record.outcome) } : {}),
    audit: await store.audited(id, attemptsMax),
    // If a new attempt began between the two reads, this attempt is in both results.
    attempts: [...past.filter((entry) => entry.attempt < record.attempt), entryOf(record)],
  };
}
