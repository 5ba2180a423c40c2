import { type RecordId, rowOf } from "../../../core/ledger/record.js";
import type { AuditEntry, AuditedEntry } from "../../../core/store/store.js";
import type { Collections } from "../layout.js";
import { serverTime } from "./read.js";

export async function appendAudit(collections: Collections, entries: readonly AuditEntry[]): Promise<void> {
  const at = await serverTime(collections);
  // The driver assigns increasing ids, which keep the order of entries with the same time.
  await collections.audit.insertMany(
    entries.map(({ owner, answer, attempt, ...id }) => ({ record: rowOf(id), at, owner, answer, attempt })),
    { ordered: true },
  );
}

export async function readAudit({ audit }: Collections, { scope, key }: RecordId, limit: number): Promise<AuditedEntry[]> {
  const found = await audit
    .find({ record: rowOf({ scope, key }) })
    .sort({ at: -1, _id: -1 })
    .limit(limit)
    .toArray();
  return found.reverse().map(({ owner, answer, attempt, at }) => ({ scope, key, owner, answer, attempt, at }));
}
