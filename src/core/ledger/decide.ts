import type { Answer, Begin, Operation, Renew, Resolve, Settle, Settlement } from "./operation.js";
import { type AttemptEntry, entryOf, hasLapsed, type LedgerRecord, mayRunAgain, stricter, type Verdict } from "./record.js";

/** What an operation does to a record: see {@link decide}. */
export interface Decision {
  readonly answer: Answer;
  /** The record after the operation. Absent: the operation changes nothing. */
  readonly next?: LedgerRecord;
  /** The attempt that has ended and moves into the attempt log. */
  readonly past?: AttemptEntry;
}

/**
 * The ledger's state machine, and the only one: from the record, an operation and the store's time it decides the answer and
 * the next record. Pure.
 *
 * The memory store uses it for every write, SQLite for writes that its quick statements (stores/sqlite/ledger/quick.ts) do not
 * cover. Those statements and the other stores repeat its conditions in their own language and call it to explain a refusal;
 * test/contract/differential.test.ts compares them.
 */
export function decide(record: LedgerRecord | undefined, operation: Operation, now: number): Decision {
  switch (operation.verb) {
    case "begin":
      return decideBegin(record, operation, now);
    case "settle":
      return decideSettle(record, operation, now);
    case "renew":
      return decideRenew(record, operation, now);
    case "resolve":
      return decideResolve(record, operation, now);
  }
}

function decideBegin(record: LedgerRecord | undefined, begin: Begin, now: number): Decision {
  if (record === undefined) return start(undefined, begin, now);

  // The same owner again: either its reply was lost and it finds its own success, or a packet is delivered again (its key is
  // begun by the owner `packet:<no>`).
  if (record.state === "running" && record.owner === begin.owner) {
    const { attempt, effect, startedAt, leaseUntil, progress } = record;
    return { answer: { kind: "started", attempt, effect, startedAt, leaseUntil, progress } };
  }

  // From goneAt on the record counts as removed. (The answer `gone` is given between expiresAt and goneAt.)
  if (record.goneAt !== null && now >= record.goneAt) return start(record, begin, now, "afresh");

  // Checked before any other answer: a caller with a different operation must not get this operation's outcome.
  const { attempt } = record;
  if (record.fingerprint !== null && begin.fingerprint !== null && record.fingerprint !== begin.fingerprint)
    return { answer: { kind: "mismatch", attempt } };

  const effect = stricter(record.effect, begin.effect);
  switch (record.state) {
    case "completed":
    case "failed":
      if (record.expiresAt !== null && now >= record.expiresAt) return { answer: { kind: "gone", attempt } };
      return { answer: { kind: "replay", record } };
    case "free":
      return start(record, begin, now);
    case "running":
      if (!hasLapsed(record, now)) return { answer: { kind: "running", attempt, forMs: record.leaseUntil - now } };
      if (mayRunAgain(effect)) return start(record, begin, now);
      break;
    case "unknown":
      break;
  }

  if (effect === "reconcile" && begin.over === attempt) return start(record, begin, now);
  const since = record.state === "unknown" ? (record.settledAt ?? now) : record.leaseUntil;
  const reconcileAfterMs = Math.max(record.reconcileAfterMs, begin.reconcileAfterMs);
  return { answer: { kind: "unknown", attempt, effect, reconcileInMs: Math.max(0, since + reconcileAfterMs - now) } };
}

function start(record: LedgerRecord | undefined, begin: Begin, now: number, afresh?: "afresh"): Decision {
  const again = record !== undefined && afresh === undefined;
  const attempt = (record?.attempt ?? 0) + 1;
  const leaseUntil = now + begin.leaseMs;
  const next: LedgerRecord = {
    scope: begin.scope,
    key: begin.key,
    state: "running",
    fingerprint: again ? (record.fingerprint ?? begin.fingerprint) : begin.fingerprint,
    effect: again ? stricter(record.effect, begin.effect) : begin.effect,
    attempt,
    owner: begin.owner,
    createdAt: again ? record.createdAt : now,
    startedAt: now,
    leaseUntil,
    settledAt: null,
    retentionMs: begin.retentionMs,
    horizonMs: begin.horizonMs,
    reconcileAfterMs: begin.reconcileAfterMs,
    progress: again ? (record.progress ?? begin.progress) : begin.progress,
    outcome: null,
    expiresAt: null,
    goneAt: null,
    verdict: "running",
    note: null,
    rev: (record?.rev ?? 0) + 1,
  };
  const answer: Answer = { kind: "started", attempt, effect: next.effect, startedAt: now, leaseUntil, progress: next.progress };
  return record === undefined ? { answer, next } : { answer, next, past: ended(record) };
}

/** The log entry of the previous attempt when a new attempt begins. */
function ended(record: LedgerRecord): AttemptEntry {
  return record.verdict === "running" ? { ...entryOf(record), endedAt: record.leaseUntil, verdict: "lapsed" } : entryOf(record);
}

function decideSettle(record: LedgerRecord | undefined, settle: Settle, now: number): Decision {
  if (record === undefined || record.owner !== settle.owner || record.attempt !== settle.attempt)
    return { answer: { kind: "stale", record } };
  // Sent again after a lost reply. Also stops a late failure of the same owner from reopening what it has completed.
  if (record.state === settle.to.state) return { answer: { kind: "settled" } };
  // The late owner of an unknown attempt may still settle it: it knows the outcome.
  if (record.state !== "running" && record.state !== "unknown") return { answer: { kind: "stale", record } };
  return { answer: { kind: "settled" }, next: settled(record, settle, now, verdictOf(settle)) };
}

export function verdictOf({ to, note }: Settle): Verdict {
  return to.state === "free" ? (note === null ? "released" : "threw") : to.state;
}

function decideRenew(record: LedgerRecord | undefined, renew: Renew, now: number): Decision {
  if (record?.state !== "running" || record.owner !== renew.owner || record.attempt !== renew.attempt)
    return { answer: { kind: "stale", record } };
  const leaseUntil = Math.max(record.leaseUntil, now + renew.leaseMs);
  const progress = renew.progress ?? record.progress;
  return { answer: { kind: "renewed", leaseUntil }, next: { ...record, leaseUntil, progress, rev: record.rev + 1 } };
}

function decideResolve(record: LedgerRecord | undefined, resolve: Resolve, now: number): Decision {
  if (record === undefined || record.attempt !== resolve.attempt) return { answer: { kind: "stale", record } };
  if (record.owner === resolve.owner && record.state === resolve.to.state) return { answer: { kind: "settled" } };
  // An expired lease is enough, whatever the record's effect class: a caller with a stricter class got the answer "unknown".
  const open = record.state === "unknown" || hasLapsed(record, now);
  if (!open && !(resolve.erase && record.state !== "running")) return { answer: { kind: "stale", record } };
  return { answer: { kind: "settled" }, next: settled(record, resolve, now, "resolved") };
}

function settled(record: LedgerRecord, { to, owner, note }: Settle | Resolve, now: number, verdict: Verdict): LedgerRecord {
  const expiresAt = to.state === "unknown" || record.retentionMs === null ? null : now + record.retentionMs;
  return {
    ...record,
    state: to.state,
    owner,
    fingerprint: forgets(to) ? null : record.fingerprint,
    settledAt: now,
    progress: to.state === "unknown" ? record.progress : null,
    outcome: outcomeOf(to),
    expiresAt,
    goneAt: expiresAt === null ? null : expiresAt + record.horizonMs,
    verdict,
    note,
    rev: record.rev + 1,
  };
}

export function outcomeOf(to: Settlement): string | null {
  return to.state === "completed" || to.state === "failed" ? to.outcome : null;
}

export function forgets(to: Settlement): boolean {
  return to.state === "free" && to.forget === true;
}
