import { effectClasses, type LedgerRecord, type RecordId, type State, type Verdict } from "../../core/record.js";

/** The fields of a record in the order of record-script.ts. */
export type Fields = readonly (string | null)[];

export function toRecord({ scope, key }: RecordId, fields: Fields): LedgerRecord {
  const [state, owner, attempt, effect, fingerprint, created, started, lease, settled, retention, horizon, reconcile, ...rest] = fields;
  const [outcome, expires, gone, verdict, note, rev, , progress] = rest;
  return {
    scope,
    key,
    state: state as State,
    fingerprint: fingerprint ?? null,
    effect: effectClasses[Number(effect)] ?? "atMostOnce",
    attempt: Number(attempt),
    owner: owner as string,
    createdAt: Number(created),
    startedAt: Number(started),
    leaseUntil: Number(lease),
    settledAt: numberOrNull(settled),
    retentionMs: numberOrNull(retention),
    horizonMs: Number(horizon ?? 0),
    reconcileAfterMs: Number(reconcile ?? 0),
    progress: progress ?? null,
    outcome: outcome ?? null,
    expiresAt: numberOrNull(expires),
    goneAt: numberOrNull(gone),
    verdict: (verdict ?? state) as Verdict,
    note: note ?? null,
    rev: Number(rev),
  };
}

function numberOrNull(text: string | null | undefined): number | null {
  return text === null || text === undefined ? null : Number(text);
}
