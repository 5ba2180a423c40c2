import { effectClasses, type LedgerRecord, type RecordId, type State, type Verdict } from "../../../core/ledger/record.js";

/** The fields of a record in the order of scripts/record.ts. */
export type Fields = readonly (string | null)[];

export function toRecord({ scope, key }: RecordId, fields: Fields): LedgerRecord {
  const [owner, s, attempt, effect, fingerprint, created, started, lease, settled, retention, horizon, wait, ...rest] = fields;
  const [outcome, verdict, note, rev, , progress] = rest;
  const state = (s ?? "running") as State;
  const settledAt = numberOrNull(settled);
  const retentionMs = numberOrNull(retention);
  const horizonMs = Number(horizon ?? 0);
  const expiresAt = settledAt === null || state === "unknown" || retentionMs === null ? null : settledAt + retentionMs;
  return {
    scope,
    key,
    state,
    fingerprint: fingerprint ?? null,
    effect: effectClasses[Number(effect ?? 0)] ?? "atMostOnce",
    attempt: Number(attempt ?? 1),
    owner: owner as string,
    createdAt: Number(created ?? started),
    startedAt: Number(started),
    leaseUntil: Number(lease),
    settledAt,
    retentionMs,
    horizonMs,
    reconcileAfterMs: Number(wait ?? 0),
    progress: progress ?? null,
    outcome: outcome ?? null,
    expiresAt,
    goneAt: expiresAt === null ? null : expiresAt + horizonMs,
    verdict: (verdict ?? state) as Verdict,
    note: note ?? null,
    rev: Number(rev ?? 1),
  };
}

function numberOrNull(text: string | null | undefined): number | null {
  return text === null || text === undefined ? null : Number(text);
}
