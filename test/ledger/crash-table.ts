import type { CrashPoint } from "onceflow/testing";

/** One line of the crash table: what is true after a death at this point, and what the next caller finds. */
export interface Row {
  readonly point: CrashPoint;
  /** At a renewal: its handler is still at it, and has called nobody. */
  readonly act: "once" | "hold";
  readonly effect: "keyed" | "atMostOnce";
  readonly tx: boolean;
  readonly after: string;
  /** The state that is left behind, before its lease is over. */
  readonly left: "absent" | "running" | "completed";
  /** What the next caller gets, once the lease is over. */
  readonly next: "executed" | "replayed" | "unknown";
  /** Calls at the other side, all in all. */
  readonly rawCalls: number;
  readonly businessRows?: number;
  /** Whether the lease that is left behind is longer than the one it began with. */
  readonly renewed?: boolean;
}

export const rows: readonly Row[] = [
  {
    point: "before begin",
    act: "once",
    effect: "keyed",
    tx: false,
    after: "nothing is there",
    left: "absent",
    next: "executed",
    rawCalls: 1,
  },
  {
    point: "after begin",
    act: "once",
    effect: "keyed",
    tx: false,
    after: "the lease lapses, the next one runs it",
    left: "running",
    next: "executed",
    rawCalls: 1,
  },
  {
    point: "before settle",
    act: "once",
    effect: "keyed",
    tx: false,
    after: "it runs again, the provider dedupes",
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
    after: "nothing is there",
    left: "absent",
    next: "executed",
    rawCalls: 1,
  },
  {
    point: "after begin",
    act: "once",
    effect: "atMostOnce",
    tx: false,
    after: "unknown: it may have been called",
    left: "running",
    next: "unknown",
    rawCalls: 0,
  },
  {
    point: "before settle",
    act: "once",
    effect: "atMostOnce",
    tx: false,
    after: "unknown: it was called",
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
    after: "its lease lapses as it stood, the next one runs it",
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
    after: "its longer lease lapses too, the next one runs it",
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
    after: "unknown: it may have been called",
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
    after: "unknown: it may have been called",
    left: "running",
    next: "unknown",
    rawCalls: 0,
    renewed: true,
  },
];

/** Attempt 1 was called and is unknown; somebody who has looked settles it by hand, and dies over it. */
export interface ResolveRow {
  readonly point: "before resolve" | "after resolve";
  readonly as: "completed" | "notApplied";
  readonly after: string;
  readonly left: "unknown" | "completed" | "free";
  readonly next: "unknown" | "replayed" | "executed";
  /** What becomes of the same resolution when it comes again, from somebody else. */
  readonly again: "done" | "refused";
  /** Calls at the other side when it is over, and the attempt that the outcome is of. */
  readonly rawCalls: number;
}

export const resolveRows: readonly ResolveRow[] = [
  {
    point: "before resolve",
    as: "completed",
    after: "unknown as before, and can be resolved",
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
    after: "unknown as before, and can be resolved",
    left: "unknown",
    next: "unknown",
    again: "done",
    rawCalls: 2,
  },
  {
    point: "after resolve",
    as: "notApplied",
    after: "free, the next one runs it",
    left: "free",
    next: "executed",
    again: "refused",
    rawCalls: 2,
  },
];

/** The same, but it is `reconcile` that looks. The next caller gets the outcome of attempt 1 in every case. */
export interface ReconcileRow {
  readonly point: "inside reconcile" | "before resolve" | "after resolve";
  readonly after: string;
  readonly left: "unknown" | "completed";
  /** How often the next caller asks the other side. */
  readonly asks: number;
}

export const reconcileRows: readonly ReconcileRow[] = [
  { point: "inside reconcile", after: "nothing was claimed, the next one asks", left: "unknown", asks: 1 },
  { point: "before resolve", after: "what was found is lost, the next one asks", left: "unknown", asks: 1 },
  { point: "after resolve", after: "what was found is replayed", left: "completed", asks: 0 },
];

/** Three ask at once for what is completed, in a store that logs it. */
export interface AuditRow {
  readonly point: "before audit" | "after audit";
  readonly after: string;
  /** Of their entries, how many are there. */
  readonly left: 0 | 3;
}

export const auditRows: readonly AuditRow[] = [
  { point: "before audit", after: "they were answered, and nobody knows", left: 0 },
  { point: "after audit", after: "all of them are in the log", left: 3 },
];

/** One record is over with all it has, of another the result is; the rest has to stay. */
export interface PurgeRow {
  readonly point: "before purge" | "inside purge" | "after purge";
  /** What becomes of a statement that its sender did not live to see the end of. Only where there is a server. */
  readonly server?: "goes on";
  readonly after: string;
  /** All of it or nothing. */
  readonly left: "all" | "nothing";
}

export const purgeRows: readonly PurgeRow[] = [
  { point: "before purge", after: "all is there, the next purge removes it", left: "all" },
  { point: "inside purge", after: "all is there, the next purge removes it", left: "all" },
  { point: "inside purge", server: "goes on", after: "all is removed", left: "nothing" },
  { point: "after purge", after: "all is removed", left: "nothing" },
];

/** What a worker writes about deaths, avoided workers and unsettled steps: all of it or nothing. */
export interface RunRow {
  readonly write: "a claim that counts a death" | "a release" | "an end with unsettled steps" | "an entry after the end";
  /** One statement in PostgreSQL: it has no inside. */
  readonly statement?: true;
  readonly after: string;
}

export const runRows: readonly RunRow[] = [
  { write: "a claim that counts a death", statement: true, after: "not counted and not claimed, the next claim does both" },
  { write: "a release", after: "its lease lapses, and its death is counted" },
  { write: "an end with unsettled steps", after: "its lease lapses, the next owner ends it" },
  { write: "an entry after the end", after: "still unsettled and kept, the entry can be sent again" },
];

/** Versions of the schema that a ledger is left at; only SQLite has one after 6. */
type Version = 4 | 5 | 6;

/** The first process that opens a new database, or one that was last opened when the schema had one version. */
export interface MigrationRow {
  readonly of: "a new database" | "an old ledger" | `a ledger of version ${Version}`;
  readonly point: "before migration" | "inside migration" | "after migration";
  readonly after: string;
  readonly left: "as it was" | "migrated";
}

export const migrationRows: readonly MigrationRow[] = [
  { of: "a new database", point: "before migration", after: "nothing is there, the next open does it", left: "as it was" },
  { of: "a new database", point: "inside migration", after: "nothing is there, the next open does it", left: "as it was" },
  { of: "a new database", point: "after migration", after: "all is there, the next open changes nothing", left: "migrated" },
  { of: "an old ledger", point: "before migration", after: "it is as it was, the next open does it", left: "as it was" },
  { of: "an old ledger", point: "inside migration", after: "it is as it was, the next open does it", left: "as it was" },
  { of: "an old ledger", point: "after migration", after: "all is there, the next open changes nothing", left: "migrated" },
  { of: "a ledger of version 4", point: "inside migration", after: "it is as it was, the next open does it", left: "as it was" },
  { of: "a ledger of version 5", point: "inside migration", after: "it is as it was, the next open does it", left: "as it was" },
  { of: "a ledger of version 6", point: "before migration", after: "it is as it was, the next open does it", left: "as it was" },
  { of: "a ledger of version 6", point: "inside migration", after: "it is as it was, the next open does it", left: "as it was" },
];
