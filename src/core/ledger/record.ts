/**
 * The row of a key.
 *
 *   (none) ──begin──▶ running ──settle──▶ completed | failed        replayed until expiresAt, refused until goneAt
 *                       │  ▲ └──settle──▶ free ──begin──▶ running    the attempt number goes on
 *                       │  └──begin (lease lapsed, may re-run)
 *                       └──settle or lapse──▶ unknown ──late owner or resolve──▶ completed | failed | free
 *
 *   unknown ──begin (reconcile: absent)──▶ running
 *   completed | failed ──resolve with erase──▶ free
 *
 * A running record whose lease has lapsed and whose effect may not be blindly re-run *is* unknown, without
 * anybody having touched it: see `stateAt`.
 */
export type State = "free" | "running" | "completed" | "failed" | "unknown";

export const states = ["free", "running", "completed", "failed", "unknown"] as const satisfies readonly State[];

/** From the most lenient to the strictest: on a difference the stricter one holds. */
export const effectClasses = ["idempotent", "keyed", "reconcile", "atMostOnce"] as const;
export type EffectClass = (typeof effectClasses)[number];

/** How an attempt ended, as the attempt log tells it. */
export type Verdict = "running" | "completed" | "failed" | "threw" | "released" | "unknown" | "lapsed" | "resolved";

export interface RecordId {
  readonly scope: string;
  readonly key: string;
}

/** One text for a record's id. NUL is refused in keys and scopes, so that no two records share it. */
export function rowOf({ scope, key }: RecordId): string {
  return `${scope}\0${key}`;
}

export interface LedgerRecord extends RecordId {
  readonly state: State;
  readonly fingerprint: string | null;
  readonly effect: EffectClass;
  /** The fence: numbered from 1, +1 at every new attempt, never back while the record lives. */
  readonly attempt: number;
  readonly owner: string;
  readonly createdAt: number;
  readonly startedAt: number;
  readonly leaseUntil: number;
  readonly settledAt: number | null;
  readonly retentionMs: number | null;
  readonly horizonMs: number;
  readonly reconcileAfterMs: number;
  /** What the attempt, and those before it, have got done: whoever goes on after a crash begins there. Null once it is over. */
  readonly progress: string | null;
  /** Encoded result or error. Null: none, or completed without a value that could be kept. */
  readonly outcome: string | null;
  /** Until when the outcome can be replayed; null: for ever, or not settled. */
  readonly expiresAt: number | null;
  /** Until when a late retry is refused, with the answer `gone`; from then on the record counts as removed. */
  readonly goneAt: number | null;
  readonly verdict: Verdict;
  /** What the verdict alone does not say: the name of the error, who resolved it. */
  readonly note: string | null;
  /** Raised by every write: what compare-and-set writes are made against. */
  readonly rev: number;
}

/** One past or present attempt, as evidence. */
export interface AttemptEntry {
  readonly attempt: number;
  readonly owner: string;
  readonly startedAt: number;
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

/** The state as it is true at `now`, whether or not anybody has written it down. */
export function stateAt(record: LedgerRecord, now: number): State {
  return hasLapsed(record, now) && !mayRunAgain(record.effect) ? "unknown" : record.state;
}

/**
 * When a running record may be removed whose owner never came back: as late as if it had been settled when its lease ended. Null: never.
 * Only of classes that any caller may execute again: of the others it is the evidence that an effect may have happened.
 */
export function abandonedAt({ state, effect, leaseUntil, retentionMs, horizonMs }: LedgerRecord): number | null {
  return state === "running" && mayRunAgain(effect) && retentionMs !== null ? leaseUntil + retentionMs + horizonMs : null;
}

/** Whether there is an outcome that can still be replayed. */
export function hasKept({ state, expiresAt }: LedgerRecord, now: number): boolean {
  return (state === "completed" || state === "failed") && (expiresAt === null || now < expiresAt);
}

/** The present attempt as an entry of the attempt log. */
export function entryOf(record: LedgerRecord): AttemptEntry {
  const { attempt, owner, startedAt, settledAt, verdict, note } = record;
  return { attempt, owner, startedAt, endedAt: settledAt, verdict, note };
}
