import type { PacketOperation } from "../packets/operation.js";
import type { RunOperation } from "../runs/operation.js";
import type { EffectClass, LedgerRecord, RecordId } from "./record.js";

/** Starts an attempt for a key. Every later verb carries the fence (owner, attempt) that it returns. */
export interface Begin extends RecordId {
  readonly verb: "begin";
  /** New for every begin, but unchanged when the same begin is sent again: so after a lost reply it finds its own success. */
  readonly owner: string;
  /** Null: not compared. */
  readonly fingerprint: string | null;
  readonly effect: EffectClass;
  readonly leaseMs: number;
  /** Null: kept forever. */
  readonly retentionMs: number | null;
  readonly horizonMs: number;
  readonly reconcileAfterMs: number;
  /** The unknown attempt that `reconcile` reported as absent: this begin may start a new attempt over it. */
  readonly over: number | null;
  /** Initial progress, used if no earlier attempt has saved any: what a later attempt needs in order to continue. */
  readonly progress: string | null;
}

/** The state that an attempt ends in. `outcome` is the encoded result or error. */
export type Settlement =
  /** `outcome` null: the result could not be stored. */
  | { readonly state: "completed"; readonly outcome: string | null }
  | { readonly state: "failed"; readonly outcome: string }
  /** `forget`: drop the fingerprint, so that the key may next be used with a different input. */
  | { readonly state: "free"; readonly forget?: boolean }
  | { readonly state: "unknown" };

/** Records how an attempt ended. */
export interface Settle extends RecordId {
  readonly verb: "settle";
  readonly owner: string;
  readonly attempt: number;
  readonly to: Settlement;
  readonly note: string | null;
}

/** Extends the lease of a running attempt, and may save its progress. */
export interface Renew extends RecordId {
  readonly verb: "renew";
  readonly owner: string;
  readonly attempt: number;
  readonly leaseMs: number;
  /** Replaces the saved progress. Absent: the saved progress stays. */
  readonly progress?: string;
}

/** Settles an unknown attempt by hand. It sets a new owner, so that the attempt's late owner is fenced. */
export interface Resolve extends RecordId {
  readonly verb: "resolve";
  readonly owner: string;
  readonly attempt: number;
  readonly to: Exclude<Settlement, { readonly state: "unknown" }>;
  readonly note: string | null;
  /** Also allowed on a record that is already settled: replaces its outcome. */
  readonly erase?: true;
}

/** One operation on one record of the ledger. */
export type Operation = Begin | Settle | Renew | Resolve;

interface Parts {
  readonly ledger: Operation;
  readonly run: RunOperation;
  readonly packet: PacketOperation;
}

/** A batch with exactly this part. */
export type Only<Part extends keyof Parts> = Pick<Parts, Part> & { readonly [Other in Exclude<keyof Parts, Part>]?: never };

/**
 * One atomic write: an operation on a ledger record; or on a run, with its journal entry, hooks, children and mail; or on a
 * packet, with its key and the packets that it sends. If the store refuses the operation, nothing of the batch is written.
 */
export type Batch = { readonly ledger: Operation } | { readonly run: RunOperation } | { readonly packet: PacketOperation };

/** What the store answers to an {@link Operation}. The comment of each kind names the verbs that can get it. */
export type Answer =
  /** begin: this caller owns the attempt and runs the operation. `effect` may be stricter than the requested class. */
  | {
      readonly kind: "started";
      readonly attempt: number;
      readonly effect: EffectClass;
      readonly startedAt: number;
      readonly leaseUntil: number;
      /** Progress that an earlier attempt saved; else the progress of this begin. */
      readonly progress: string | null;
    }
  /** begin: another attempt runs; its lease lasts `forMs` more. */
  | { readonly kind: "running"; readonly attempt: number; readonly forMs: number }
  /** begin: the operation has an outcome. */
  | { readonly kind: "replay"; readonly record: LedgerRecord }
  /** begin: the key was used with a different fingerprint. */
  | { readonly kind: "mismatch"; readonly attempt: number }
  /** begin: whether the effect of the attempt happened is not known; `reconcile` may be called in `reconcileInMs`. */
  | { readonly kind: "unknown"; readonly attempt: number; readonly effect: EffectClass; readonly reconcileInMs: number }
  /** begin: the outcome has expired, and the horizon has not passed. */
  | { readonly kind: "gone"; readonly attempt: number }
  /** settle, resolve: written now, or earlier by the same request. */
  | { readonly kind: "settled" }
  | { readonly kind: "renewed"; readonly leaseUntil: number }
  /** settle, renew, resolve: the fence is stale. Nothing was changed. `record`: the record as it is. */
  | { readonly kind: "stale"; readonly record: LedgerRecord | undefined };

export type AnswerKind = Answer["kind"];
