import { type RecordId, rowOf } from "../../../core/ledger/record.js";
import type { AuditEntry, AuditedEntry } from "../../../core/store/store.js";
import type { MemoryRecords } from "./records.js";

/** Only the newest entries of a key are kept, because memory is limited. */
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
