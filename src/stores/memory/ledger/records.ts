import { type AttemptEntry, type LedgerRecord, rowOf } from "../../../core/ledger/record.js";
import type { AuditedEntry } from "../../../core/store/store.js";

/** The ledger of a store in memory: records, ended attempts and audit entries, each by row. */
export interface MemoryRecords {
  readonly records: Map<string, LedgerRecord>;
  readonly attempts: Map<string, AttemptEntry[]>;
  readonly audit: Map<string, AuditedEntry[]>;
  /** The ledger's own clock, whole milliseconds. */
  now(): number;
}

/** Freezes what it stores, because callers get these objects, not copies. */
export function putRecord(
  { records, attempts }: Pick<MemoryRecords, "records" | "attempts">,
  next: LedgerRecord,
  past: AttemptEntry | undefined,
): void {
  const row = rowOf(next);
  records.set(row, Object.freeze(next));
  if (past) attempts.set(row, [...(attempts.get(row) ?? []), Object.freeze(past)]);
}
