import type { PacketOperation } from "../packets/operation.js";
import type { RunOperation } from "../runs/operation.js";
import type { EffectClass, LedgerRecord, RecordId } from "./record.js";

/** The ledger's verbs. Each names one record; every verb after `begin` carries the fence (owner, attempt). */
export interface Begin extends RecordId {
  readonly verb: "begin";
  /** New for every begin, and the same when that begin is sent again: so a lost reply finds its own success. */
  readonly owner: string;
  readonly fingerprint: string | null;
  readonly effect: EffectClass;
  readonly leaseMs: number;
  /** Null: kept for ever. */
  readonly retentionMs: number | null;
  readonly horizonMs: number;
  readonly reconcileAfterMs: number;
  /** The unknown attempt that `reconcile` found not to have happened: it may be run over. */
  readonly over: number | null;
  /** Where to begin when nobody has got anywhere yet: what a later attempt has to know to go on. */
  readonly progress: string | null;
}

export type Settlement =
  | { readonly state: "completed"; readonly outcome: string | null }
  | { readonly state: "failed"; readonly outcome: string }
  /** `forget`: the next operation under this key may be another one (its fingerprint is dropped). */
  | { readonly state: "free"; readonly forget?: boolean }
  | { readonly state: "unknown" };

export interface Settle extends RecordId {
  readonly verb: "settle";
  readonly owner: string;
  readonly attempt: number;
  readonly to: Settlement;
  readonly note: string | null;
}

export interface Renew extends RecordId {
  readonly verb: "renew";
  readonly owner: string;
  readonly attempt: number;
  readonly leaseMs: number;
  /** Kept in the place of the last one. Absent: that one stays. */
  readonly progress?: string;
}

/** Settles an unknown attempt by hand. The new owner fences the late owner of that attempt. */
export interface Resolve extends RecordId {
  readonly verb: "resolve";
  readonly owner: string;
  readonly attempt: number;
  readonly to: Exclude<Settlement, { readonly state: "unknown" }>;
  readonly note: string | null;
  /** An outcome may be taken back, too: for what must be forgotten. */
  readonly erase?: true;
}

export type Operation = Begin | Settle | Renew | Resolve;

interface Parts {
  readonly ledger: Operation;
  readonly run: RunOperation;
  readonly packet: PacketOperation;
}

/** One part of a batch, and none of the others. */
export type Only<Part extends keyof Parts> = Pick<Parts, Part> & { readonly [Other in Exclude<keyof Parts, Part>]?: never };

/**
 * What one atomic write carries: an operation on a record of the ledger; or one on a run, with the journal entry, hooks,
 * children and mail that belong to it; or one on a packet, with its key and what it sends on. Its verdict decides whether
 * anything of it is written.
 */
export type Batch = { readonly ledger: Operation } | { readonly run: RunOperation } | { readonly packet: PacketOperation };

export type Answer =
  /** begin: run the operation. The class that holds may be stricter than the one asked for. */
  | {
      readonly kind: "started";
      readonly attempt: number;
      readonly effect: EffectClass;
      readonly startedAt: number;
      readonly leaseUntil: number;
      /** How far attempts before this one got; else what this begin brought. */
      readonly progress: string | null;
    }
  /** begin: somebody holds a live lease for `forMs` more. */
  | { readonly kind: "running"; readonly attempt: number; readonly forMs: number }
  | { readonly kind: "replay"; readonly record: LedgerRecord }
  | { readonly kind: "mismatch"; readonly attempt: number }
  /** begin: whether attempt happened can't be told from here; `reconcile` may be asked in `reconcileInMs`. */
  | { readonly kind: "unknown"; readonly attempt: number; readonly effect: EffectClass; readonly reconcileInMs: number }
  | { readonly kind: "gone"; readonly attempt: number }
  /** settle, resolve: written, or found to have been written by this very request before. */
  | { readonly kind: "settled" }
  | { readonly kind: "renewed"; readonly leaseUntil: number }
  /** settle, renew, resolve: the fence is stale; nothing was changed. */
  | { readonly kind: "stale"; readonly record: LedgerRecord | undefined };

export type AnswerKind = Answer["kind"];
