import type { CrashPoint } from "onceflow/testing";

/** One line of the crash table: what is true after a death at this point, and what the next caller finds. */
export interface Row {
  readonly point: CrashPoint;
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
}

export const rows: readonly Row[] = [
  { point: "before begin", effect: "keyed", tx: false, after: "nothing is there", left: "absent", next: "executed", rawCalls: 1 },
  {
    point: "after begin",
    effect: "keyed",
    tx: false,
    after: "the lease lapses, the next one runs it",
    left: "running",
    next: "executed",
    rawCalls: 1,
  },
  {
    point: "before settle",
    effect: "keyed",
    tx: false,
    after: "it runs again, the provider dedupes",
    left: "running",
    next: "executed",
    rawCalls: 2,
  },
  { point: "after settle", effect: "keyed", tx: false, after: "the outcome is replayed", left: "completed", next: "replayed", rawCalls: 1 },
  { point: "before begin", effect: "atMostOnce", tx: false, after: "nothing is there", left: "absent", next: "executed", rawCalls: 1 },
  {
    point: "after begin",
    effect: "atMostOnce",
    tx: false,
    after: "unknown: it may have been called",
    left: "running",
    next: "unknown",
    rawCalls: 0,
  },
  {
    point: "before settle",
    effect: "atMostOnce",
    tx: false,
    after: "unknown: it was called",
    left: "running",
    next: "unknown",
    rawCalls: 1,
  },
  {
    point: "after settle",
    effect: "atMostOnce",
    tx: false,
    after: "the outcome is replayed",
    left: "completed",
    next: "replayed",
    rawCalls: 1,
  },
  {
    point: "before transaction",
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
    effect: "keyed",
    tx: true,
    after: "one row and its outcome",
    left: "completed",
    next: "replayed",
    rawCalls: 0,
    businessRows: 1,
  },
];
