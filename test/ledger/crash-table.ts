import type { CrashPoint } from "onceflow/testing";

/** One row of the crash table: the state after a crash at this point, and what the next caller gets. */
export interface Row {
  readonly point: CrashPoint;
  /** At a renewal: the handler is still running, and has not called the provider. */
  readonly act: "once" | "hold";
  readonly effect: "keyed" | "atMostOnce";
  readonly tx: boolean;
  readonly after: string;
  /** The state that the dead process leaves, before its lease expires. */
  readonly left: "absent" | "running" | "completed";
  /** What the next caller gets after the lease has expired. */
  readonly next: "executed" | "replayed" | "unknown";
  /** All calls at the provider. */
  readonly rawCalls: number;
  readonly businessRows?: number;
  /** Whether the lease that is left is longer than the one it began with. */
  readonly renewed?: boolean;
}

export const rows: readonly Row[] = [
  {
    point: "before begin",
    act: "once",
    effect: "keyed",
    tx: false,
    after: "there is no record",
    left: "absent",
    next: "executed",
    rawCalls: 1,
  },
  {
    point: "after begin",
    act: "once",
    effect: "keyed",
    tx: false,
    after: "the lease expires, and the next caller runs the handler",
    left: "running",
    next: "executed",
    rawCalls: 1,
  },
  {
    point: "before settle",
    act: "once",
    effect: "keyed",
    tx: false,
    after: "the handler runs again, and the provider deduplicates",
    left: "running",
    next: "executed",
    rawCalls: 2,
  },
  {
    point: "after settle",
    act: "once",
    effect: "keyed",
    tx: false,
    after: "the outcome is replayed",
    left: "completed",
    next: "replayed",
    rawCalls: 1,
  },
  {
    point: "before begin",
    act: "once",
    effect: "atMostOnce",
    tx: false,
    after: "there is no record",
    left: "absent",
    next: "executed",
    rawCalls: 1,
  },
  {
    point: "after begin",
    act: "once",
    effect: "atMostOnce",
    tx: false,
    after: "unknown: the provider may have been called",
    left: "running",
    next: "unknown",
    rawCalls: 0,
  },
  {
    point: "before settle",
    act: "once",
    effect: "atMostOnce",
    tx: false,
    after: "unknown: the provider was called, but its outcome was not saved",
    left: "running",
    next: "unknown",
    rawCalls: 1,
  },
  {
    point: "after settle",
    act: "once",
    effect: "atMostOnce",
    tx: false,
    after: "the outcome is replayed",
    left: "completed",
    next: "replayed",
    rawCalls: 1,
  },
  {
    point: "before transaction",
    act: "once",
    effect: "keyed",
    tx: true,
    after: "no row, no outcome",
    left: "running",
    next: "executed",
    rawCalls: 1,
    businessRows: 0,
  },
  {
    point: "before commit",
    act: "once",
    effect: "keyed",
    tx: true,
    after: "no row, no outcome",
    left: "running",
    next: "executed",
    rawCalls: 1,
    businessRows: 0,
  },
  {
    point: "after commit",
    act: "once",
    effect: "keyed",
    tx: true,
    after: "one row and its outcome",
    left: "completed",
    next: "replayed",
    rawCalls: 0,
    businessRows: 1,
  },
  {
    point: "before renew",
    act: "hold",
    effect: "keyed",
    tx: false,
    after: "the lease expires at its old time, and the next caller runs the handler",
    left: "running",
    next: "executed",
    rawCalls: 1,
    renewed: false,
  },
  {
    point: "after renew",
    act: "hold",
    effect: "keyed",
    tx: false,
    after: "the longer lease expires, too, and the next caller runs the handler",
    left: "running",
    next: "executed",
    rawCalls: 1,
    renewed: true,
  },
  {
    point: "before renew",
    act: "hold",
    effect: "atMostOnce",
    tx: false,
    after: "unknown: the provider may have been called",
    left: "running",
    next: "unknown",
    rawCalls: 0,
    renewed: false,
  },
  {
    point: "after renew",
    act: "hold",
    effect: "atMostOnce",
    tx: false,
    after: "unknown: the provider may have been called",
    left: "running",
    next: "unknown",
    rawCalls: 0,
    renewed: true,
  },
];

/** Attempt 1 called the provider and is unknown; a person resolves it, and the process dies while doing so. */
export interface ResolveRow {
  readonly point: "before resolve" | "after resolve";
  readonly as: "completed" | "notApplied";
  readonly after: string;
  readonly left: "unknown" | "completed" | "free";
  readonly next: "unknown" | "replayed" | "executed";
  /** The answer to the same resolution from another caller. */
  readonly again: "done" | "refused";
  /** Calls at the provider in the end, and the attempt that has the outcome. */
  readonly rawCalls: number;
}

export const resolveRows: readonly ResolveRow[] = [
  {
    point: "before resolve",
    as: "completed",
    after: "still unknown, and can be resolved",
    left: "unknown",
    next: "unknown",
    again: "done",
    rawCalls: 1,
  },
  {
    point: "after resolve",
    as: "completed",
    after: "resolved, and replayed",
    left: "completed",
    next: "replayed",
    again: "refused",
    rawCalls: 1,
  },
  {
    point: "before resolve",
    as: "notApplied",
    after: "still unknown, and can be resolved",
    left: "unknown",
    next: "unknown",
    again: "done",
    rawCalls: 2,
  },
  {
    point: "after resolve",
    as: "notApplied",
    after: "free, and the next caller runs the handler",
    left: "free",
    next: "executed",
    again: "refused",
    rawCalls: 2,
  },
];

/** The same, with `reconcile` instead of a person. The next caller always gets the outcome of attempt 1. */
export interface ReconcileRow {
  readonly point: "inside reconcile" | "before resolve" | "after resolve";
  readonly after: string;
  readonly left: "unknown" | "completed";
  /** How often the next caller calls reconcile. */
  readonly asks: number;
}

export const reconcileRows: readonly ReconcileRow[] = [
  { point: "inside reconcile", after: "nothing was written, and the next caller calls reconcile", left: "unknown", asks: 1 },
  { point: "before resolve", after: "the found outcome is lost, and the next caller calls reconcile", left: "unknown", asks: 1 },
  { point: "after resolve", after: "the found outcome is replayed", left: "completed", asks: 0 },
];

/** Three concurrent calls for a completed key, in a store that logs them. */
export interface AuditRow {
  readonly point: "before audit" | "after audit";
  readonly after: string;
  /** How many of their log entries are stored. */
  readonly left: 0 | 3;
}

export const auditRows: readonly AuditRow[] = [
  { point: "before audit", after: "the callers were answered, and the log has no entries", left: 0 },
  { point: "after audit", after: "the log has all entries", left: 3 },
];

/** One record is past its horizon, another one has an expired result; all other records must stay. */
export interface PurgeRow {
  readonly point: "before purge" | "inside purge" | "after purge";
  /** What happens to a statement whose client died. Only where there is a server. */
  readonly server?: "goes on";
  readonly after: string;
  /** What is left of the expired data. */
  readonly left: "all" | "nothing";
}

export const purgeRows: readonly PurgeRow[] = [
  { point: "before purge", after: "everything is there, and the next purge removes it", left: "all" },
  { point: "inside purge", after: "everything is there, and the next purge removes it", left: "all" },
  { point: "inside purge", server: "goes on", after: "everything is removed", left: "nothing" },
  { point: "after purge", after: "everything is removed", left: "nothing" },
];

/** A worker writes deaths, avoided workers and unsettled steps: everything is written, or nothing. */
export interface RunRow {
  readonly write: "a claim that counts a death" | "a release" | "an end with unsettled steps" | "an entry after the end";
  /** One statement in PostgreSQL, so it has no point inside. */
  readonly statement?: true;
  readonly after: string;
}

export const runRows: readonly RunRow[] = [
  { write: "a claim that counts a death", statement: true, after: "neither counted nor claimed, and the next claim does both" },
  { write: "a release", after: "its lease expires, and the death is counted" },
  { write: "an end with unsettled steps", after: "its lease expires, and the next owner ends the run" },
  { write: "an entry after the end", after: "still unsettled and kept, and the entry can be sent again" },
];

/** Schema versions at which a ledger is left. Only SQLite has a version after 6. */
type Version = 4 | 5 | 6;

/** The first process that opens a new database, or one that was last opened with an older schema version. */
export interface MigrationRow {
  readonly of: "a new database" | "an old ledger" | `a ledger of version ${Version}`;
  readonly point: "before migration" | "inside migration" | "after migration";
  readonly after: string;
  readonly left: "as it was" | "migrated";
}

export const migrationRows: readonly MigrationRow[] = [
  { of: "a new database", point: "before migration", after: "the database is empty, and the next open migrates it", left: "as it was" },
  { of: "a new database", point: "inside migration", after: "the database is empty, and the next open migrates it", left: "as it was" },
  { of: "a new database", point: "after migration", after: "the schema is complete, and the next open changes nothing", left: "migrated" },
  { of: "an old ledger", point: "before migration", after: "the ledger is unchanged, and the next open migrates it", left: "as it was" },
  { of: "an old ledger", point: "inside migration", after: "the ledger is unchanged, and the next open migrates it", left: "as it was" },
  { of: "an old ledger", point: "after migration", after: "the schema is complete, and the next open changes nothing", left: "migrated" },
  {
    of: "a ledger of version 4",
    point: "inside migration",
    after: "the ledger is unchanged, and the next open migrates it",
    left: "as it was",
  },
  {
    of: "a ledger of version 5",
    point: "inside migration",
    after: "the ledger is unchanged, and the next open migrates it",
    left: "as it was",
  },
  {
    of: "a ledger of version 6",
    point: "before migration",
    after: "the ledger is unchanged, and the next open migrates it",
    left: "as it was",
  },
  {
    of: "a ledger of version 6",
    point: "inside migration",
    after: "the ledger is unchanged, and the next open migrates it",
    left: "as it was",
  },
];
