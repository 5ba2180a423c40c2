import type { LedgerRecord } from "../../../../core/ledger/record.js";
import type { Columns, Scalar } from "../../parameters/columns.js";

/** A ledger record as packets write it. The last column, `was`, is the revision that it replaces. */
export const recordColumns: Columns = [
  ["scope", "text"],
  ["key", "text"],
  ["state", "text"],
  ["fingerprint", "text"],
  ["effect", "text"],
  ["attempt", "bigint"],
  ["owner", "text"],
  ["created_at", "bigint"],
  ["started_at", "bigint"],
  ["lease_until", "bigint"],
  ["settled_at", "bigint"],
  ["retention_ms", "bigint"],
  ["horizon_ms", "bigint"],
  ["reconcile_after_ms", "bigint"],
  ["outcome", "text"],
  ["expires_at", "bigint"],
  ["gone_at", "bigint"],
  ["purge_from", "bigint"],
  ["verdict", "text"],
  ["note", "text"],
  ["progress", "text"],
  ["rev", "bigint"],
  ["was", "bigint"],
];

export function recordValues({ next: r, was }: { readonly next: LedgerRecord; readonly was: number }): Scalar[] {
  return [
    ...[r.scope, r.key, r.state, r.fingerprint, r.effect, r.attempt, r.owner, r.createdAt, r.startedAt, r.leaseUntil],
    ...[r.settledAt, r.retentionMs, r.horizonMs, r.reconcileAfterMs, r.outcome, r.expiresAt, r.goneAt],
    // As a begin sets it: never later than the real expiry.
    ...[r.retentionMs === null ? null : r.startedAt + r.retentionMs, r.verdict, r.note, r.progress, r.rev, was],
  ];
}
