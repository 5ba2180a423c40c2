import { type AttemptEntry, effectClasses, type LedgerRecord } from "../../../core/ledger/record.js";
import type { Reading } from "../../../core/store/store.js";
import { now } from "./expressions.js";

/** A record as it is stored. The effect class is stored as its rank, so that the server can compare two of them. */
export interface RecordDocument extends Omit<LedgerRecord, "effect" | "state"> {
  readonly _id: string;
  /** The state. In the collection of a flow's keys it is `status`, and `in_progress` while an attempt runs. */
  readonly state?: LedgerRecord["state"];
  readonly status?: Exclude<LedgerRecord["state"], "running"> | "in_progress";
  readonly effect: number;
  /** The ended attempts, oldest first. In the record itself, so that a takeover is one write. */
  readonly past: readonly AttemptEntry[];
  /** When a purge can remove something of this record. Absent while it cannot. */
  readonly purgeFrom?: number;
  /** When MongoDB may remove the record itself. Only on completed or failed records. */
  readonly removeAt?: Date;
}

/** From this rank on, a running record with an expired lease is unknown. */
export const strictFrom = effectClasses.indexOf("reconcile");

/** Maximum number of ended attempts that are kept per key; the oldest are dropped. */
export const pastMax = 1000;

const members = [
  ...["scope", "key", "state", "status", "fingerprint", "effect", "attempt", "owner", "createdAt", "startedAt", "leaseUntil", "settledAt"],
  ...["retentionMs", "horizonMs", "reconcileAfterMs", "progress", "outcome", "expiresAt", "goneAt", "verdict", "note", "rev"],
];

/** Projection: the record without `past`, with the server's time. */
export const recordAndNow = { _id: 0, ...Object.fromEntries(members.map((name) => [name, 1])), now };

export type RecordAndNow = Omit<RecordDocument, "_id" | "past" | "purgeFrom" | "removeAt"> & { readonly now: number };

/**
 * Whether a reply has the projected fields. If the driver retries a write whose reply was lost, MongoDB answers with the document
 * as it was written: without the projection, and so without the time.
 */
export function isReading(found: object | null): found is RecordAndNow {
  return found !== null && "now" in found && typeof found.now === "number";
}

export function toReading({ now: at, effect, state, status, ...rest }: RecordAndNow): Reading {
  const word = state ?? status ?? "unknown";
  return {
    record: { ...rest, state: word === "in_progress" ? "running" : word, effect: effectClasses[effect] ?? "atMostOnce" },
    now: at,
  };
}
