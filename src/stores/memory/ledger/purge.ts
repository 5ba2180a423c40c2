import { abandonedAt } from "../../../core/ledger/record.js";
import type { PurgeQuery } from "../../../core/store/store.js";
import type { MemoryRecords } from "./records.js";

/** Removes expired records and abandoned running records, but never an unknown one. */
export function purgeRecords(ledger: MemoryRecords, { before, limit }: PurgeQuery): number {
  const now = ledger.now();
  const until = Math.min(before ?? now, now);
  let purged = 0;
  for (const [row, record] of ledger.records) {
    if (purged === limit) break;
    const goneAt = record.goneAt ?? abandonedAt(record);
    if (goneAt !== null && goneAt <= until) {
      ledger.records.delete(row);
      ledger.attempts.delete(row);
      ledger.audit.delete(row);
      purged += 1;
    } else if (record.expiresAt !== null && record.expiresAt <= until && record.outcome !== null) {
      // Past its retention the result is removed; the record stays until the horizon.
      ledger.records.set(row, Object.freeze({ ...record, outcome: null, rev: record.rev + 1 }));
      purged += 1;
    }
  }
  return purged;
}
