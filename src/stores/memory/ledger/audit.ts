import { type RecordId, rowOf } from "../../../core/ledger/record.js";
import type { AuditEntry, AuditedEntry } from "../../../core/store/store.js";
import type { MemoryRecords } from "./records.js";

/** The entries of one key that are kept, the newest: memory is limited. */
const auditedMax = 1000;

export function appendAudit({ audit, now }: Pick<MemoryRecords, "audit" | "now">, entries: readonly AuditEntry[]): void {
  for (const entry of entries) {
    const row = rowOf(entry);
    const kept = (audit.get(row) ?? []).slice(-auditedMax + 1);
    audit.set(row, [...kept, Object.freeze({ ...entry, at: now() })]);
  }
}

export function readAudit({ audit }: Pick<MemoryRecords, "audit">, id: RecordId, limit: number): AuditedEntry[] {
  return (audit.get(rowOf(id)) ?? []).slice(-limit);
}
