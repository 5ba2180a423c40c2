import { type AttemptEntry, effectClasses, type LedgerRecord, type RecordId, rowOf } from "../../../core/ledger/record.js";
import type { Reading } from "../../../core/store/store.js";
import { now } from "./expressions.js";

/** A record as it is stored. The class of its effect is its rank, so that the server can tell which of two is stricter. */
export interface RecordDocument extends Omit<LedgerRecord, "effect"> {
  readonly _id: string;
  readonly effect: number;
  /** The attempts that have ended, oldest first: in the record, so that a take-over is one write. */
  readonly past: readonly AttemptEntry[];
  /** From when on a purge has something to do here. Absent while it has not. */
  readonly purgeFrom?: number;
  /** When MongoDB may remove it by itself. Only on what is completed or failed. */
  readonly removeAt?: Date;
}

/** From this rank on, what has lapsed is unknown. */
export const strictFrom = effectClasses.indexOf("reconcile");

/** More of a key's ended attempts than these are forgotten, the oldest first. */
export const pastMax = 1000;

export const idOf = (id: RecordId): string => rowOf(id);

const members = [
  ...["scope", "key", "state", "fingerprint", "effect", "attempt", "owner", "createdAt", "startedAt", "leaseUntil", "settledAt"],
  ...["retentionMs", "horizonMs", "reconcileAfterMs", "progress", "outcome", "expiresAt", "goneAt", "verdict", "note", "rev"],
];

/** The record without its past, and the server's time with it. */
export const recordAndNow = { _id: 0, ...Object.fromEntries(members.map((name) => [name, 1])), now };

export type RecordAndNow = Omit<RecordDocument, "_id" | "past" | "purgeFrom" | "removeAt"> & { readonly now: number };

/**
 * Whether a reply has what the projection asks for. A write that the driver sends again by itself, because its reply was
 * lost, is answered by MongoDB with the document as it was written: without the projection, and so without the time.
 */
export function isReading(found: object | null): found is RecordAndNow {
  return found !== null && "now" in found && typeof found.now === "number";
}

export function toReading({ now: at, effect, ...rest }: RecordAndNow): Reading {
  return { record: { ...rest, effect: effectClasses[effect] ?? "atMostOnce" }, now: at };
}
