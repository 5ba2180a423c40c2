import type { Reading } from "../store/store.js";
import { effectKeyOf } from "./key.js";
import { type EffectClass, hasLapsed, type State, stateAt } from "./record.js";

/** A record without its outcome: its state at the time of reading, and instants as dates. */
export interface RecordSummary {
  readonly scope: string;
  readonly key: string;
  /** The idempotency key that handlers pass to providers. */
  readonly effectKey: string;
  readonly state: State;
  /** True: the record is running and its lease has expired. */
  readonly lapsed: boolean;
  readonly effect: EffectClass;
  readonly attempt: number;
  readonly owner: string;
  readonly fingerprint: string | undefined;
  readonly createdAt: Date;
  readonly startedAt: Date;
  readonly leaseUntil: Date;
  readonly settledAt: Date | undefined;
  /** Until when the outcome can be replayed. */
  readonly expiresAt: Date | undefined;
  /** Until when a late retry is refused. */
  readonly goneAt: Date | undefined;
}

export function summarise({ record, now }: Reading): RecordSummary {
  const { scope, key, effect, attempt, owner } = record;
  return {
    scope,
    key,
    effectKey: effectKeyOf(scope, key),
    state: stateAt(record, now),
    lapsed: hasLapsed(record, now),
    effect,
    attempt,
    owner,
    fingerprint: record.fingerprint ?? undefined,
    createdAt: new Date(record.createdAt),
    startedAt: new Date(record.startedAt),
    leaseUntil: new Date(record.leaseUntil),
    settledAt: date(record.settledAt),
    expiresAt: date(record.expiresAt),
    goneAt: date(record.goneAt),
  };
}

function date(at: number | null): Date | undefined {
  return at === null ? undefined : new Date(at);
}
