import type { AttemptEntry, LedgerRecord } from "../../../core/ledger/record.js";
import type { SqliteValue } from "../driver.js";

/** Columns and record members, in the order in which statements bind them. */
export const columns = {
  scope: "scope",
  key: "key",
  state: "state",
  fingerprint: "fingerprint",
  effect: "effect",
  attempt: "attempt",
  owner: "owner",
  created_at: "createdAt",
  started_at: "startedAt",
  lease_until: "leaseUntil",
  settled_at: "settledAt",
  retention_ms: "retentionMs",
  horizon_ms: "horizonMs",
  reconcile_after_ms: "reconcileAfterMs",
  progress: "progress",
  outcome: "outcome",
  expires_at: "expiresAt",
  gone_at: "goneAt",
  verdict: "verdict",
  note: "note",
  rev: "rev",
} as const satisfies Record<string, keyof LedgerRecord>;

/** `r.a AS b, …`: returns rows of `onceflow_records AS r` with the record's member names. */
export const selected = Object.entries(columns)
  .map(([column, member]) => `r.${column} AS "${member}"`)
  .join(", ");

export const attemptColumns = `attempt, owner, started_at AS "startedAt", ended_at AS "endedAt", verdict, note`;

/** The time in milliseconds, from SQLite: the same for all processes on this machine. */
export const clockSql = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)";

const members = Object.values(columns);

export function bindRecord(record: LedgerRecord): SqliteValue[] {
  return members.map((member) => record[member]);
}

export function bindAttempt({ scope, key }: LedgerRecord, entry: AttemptEntry): SqliteValue[] {
  return [scope, key, entry.attempt, entry.owner, entry.startedAt, entry.endedAt, entry.verdict, entry.note];
}
