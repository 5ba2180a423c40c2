/**
 * State of the record of a key.
 *
 *   (none) ──begin──▶ running ──settle──▶ completed | failed        replayed until expiresAt, refused until goneAt
 *                       │  ▲ └──settle──▶ free ──begin──▶ running    the attempt number continues
 *                       │  └──begin (lease expired, may re-run)
 *                       └──settle or expiry──▶ unknown ──late owner or resolve──▶ completed | failed | free
 *
 *   unknown ──begin (reconcile: absent)──▶ running
 *   completed | failed ──resolve with erase──▶ free
 *
 * A running record whose lease has expired and whose effect must not be re-run blindly counts as unknown without any
 * write: see `stateAt`.
 */
export type State = "free" | "running" | "completed" | "failed" | "unknown";

export const states = ["free", "running", "completed", "failed", "unknown"] as const satisfies readonly State[];

/** From the most lenient to the strictest. If a record and a caller differ, the stricter class counts. */
export const effectClasses = ["idempotent", "keyed", "reconcile", "atMostOnce"] as const;
/**
 * What may happen after an attempt crashed or threw:
 *
 * - `idempotent`: the handler runs again; repeating it does no harm.
 * - `keyed`: the handler runs again; the provider deduplicates by `effectKey`.
 * - `reconcile`: the outcome is unknown until `reconcile` has asked the external system.
 * - `atMostOnce`: the outcome is unknown, and the handler does not run again until `resolve` frees the key.
 */
export type EffectClass = (typeof effectClasses)[number];

/**
 * How an attempt ended, in the attempt log. `threw`: the handler threw, and the key became free. `released`: the attempt was given
 * back without running. `lapsed`: its lease expired. `resolved`: its outcome was set by hand or by `reconcile`.
 */
export type Verdict = "running" | "completed" | "failed" | "threw" | "released" | "unknown" | "lapsed" | "resolved";

/** Identifies a record of the ledger. */
export interface RecordId {
  readonly scope: string;
  readonly key: string;
}

/** A record's id as one text. Keys and scopes cannot contain NUL, so it is unique. */
export function rowOf({ scope, key }: RecordId): string {
  return `${scope}\0${key}`;
}

/** The record of a key, as a store keeps it. Instants are milliseconds since 1970 on the store's clock. */
export interface LedgerRecord extends RecordId {
  /** As written. `stateAt` gives the state that is true now. */
  readonly state: State;
  /** Hash of the input. Null: not compared. */
  readonly fingerprint: string | null;
  readonly effect: EffectClass;
  /** The fence: starts at 1, increases with every new attempt, and never decreases while the record exists. */
  readonly attempt: number;
  /** Process and begin that own the attempt. */
  readonly owner: string;
  readonly createdAt: number;
  readonly startedAt: number;
  readonly leaseUntil: number;
  readonly settledAt: number | null;
  readonly retentionMs: number | null;
  readonly horizonMs: number;
  readonly reconcileAfterMs: number;
  /** Progress saved by this attempt and earlier ones: the next attempt after a crash continues there. Null once settled. */
  readonly progress: string | null;
  /** Encoded result or error. Null: not settled, or completed with a result that could not be stored. */
  readonly outcome: string | null;
  /** Until when the outcome can be replayed. Null: forever, or not settled. */
  readonly expiresAt: number | null;
  /** Until when a late retry gets the answer `gone`. From then on the record counts as removed. */
  readonly goneAt: number | null;
  readonly verdict: Verdict;
  /** Details of the verdict: the name of the error, or how the attempt was resolved. */
  readonly note: string | null;
  /** Increases with every write: compare-and-set writes compare it. */
  readonly rev: number;
}

/** One past or current attempt of a key, in the attempt log. */
export interface AttemptEntry {
  readonly attempt: number;
  readonly owner: string;
  readonly startedAt: number;
  /** Null: still running. */
  readonly endedAt: number | null;
  readonly verdict: Verdict;
  readonly note: string | null;
}

export function stricter(a: EffectClass, b: EffectClass): EffectClass {
  return effectClasses.indexOf(a) >= effectClasses.indexOf(b) ? a : b;
}

export function mayRunAgain(effect: EffectClass): boolean {
  return effect === "idempotent" || effect === "keyed";
}

export function hasLapsed(record: LedgerRecord, now: number): boolean {
  return record.state === "running" && now >= record.leaseUntil;
}

/** The state at `now`: a running record with an expired lease is unknown if its effect class forbids another run. */
export function stateAt(record: LedgerRecord, now: number): State {
  return hasLapsed(record, now) && !mayRunAgain(record.effect) ? "unknown" : record.state;
}

/**
 * When a running record whose owner never returned may be removed: as late as if it had been settled when its lease ended.
 * Null: it must not be removed. Only for effect classes that may run again: for the others the record is the evidence that
 * the effect may have happened.
 */
export function abandonedAt({ state, effect, leaseUntil, retentionMs, horizonMs }: LedgerRecord): number | null {
  return state === "running" && mayRunAgain(effect) && retentionMs !== null ? leaseUntil + retentionMs + horizonMs : null;
}

/** Whether the record has an outcome that can still be replayed. */
export function hasKept({ state, expiresAt }: LedgerRecord, now: number): boolean {
  return (state === "completed" || state === "failed") && (expiresAt === null || now < expiresAt);
}

/** The current attempt as an entry of the attempt log. */
export function entryOf(record: LedgerRecord): AttemptEntry {
  const { attempt, owner, startedAt, settledAt, verdict, note } = record;
  return { attempt, owner, startedAt, endedAt: settledAt, verdict, note };
}
