import { requireStore } from "../store/require-store.js";
import type { AuditedEntry, Store } from "../store/store.js";
import { decode } from "../values/codec.js";
import { decodeError } from "../values/stored-error.js";
import { idOf, type KeyRef } from "./key-ref.js";
import { type AttemptEntry, entryOf } from "./record.js";
import { type RecordSummary, summarise } from "./summary.js";

export interface Inspection extends RecordSummary {
  readonly value?: unknown;
  readonly error?: Error;
  /** False: completed, but the result could not be kept. */
  readonly kept: boolean;
  /** Oldest first, the present one last; the oldest are left out beyond `attemptsMax` of them. */
  readonly attempts: readonly AttemptEntry[];
  /** Who asked and did not get to run it, the newest of them; only of stores opened with `audit: "all"`. */
  readonly audit: readonly AuditedEntry[];
}

const attemptsMax = 1000;

/** The record of a key and its attempts, or undefined. Reads only. */
export async function inspect(store: Store, ref: KeyRef): Promise<Inspection | undefined> {
  requireStore(store);
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
    // An attempt that was superseded between the two reads stands in both.
    audit: await store.audited(id, attemptsMax),
    attempts: [...past.filter((entry) => entry.attempt < record.attempt), entryOf(record)],
  };
}
