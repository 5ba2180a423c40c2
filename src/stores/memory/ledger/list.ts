import { rowOf, stateAt } from "../../../core/ledger/record.js";
import type { ListQuery, Reading } from "../../../core/store/store.js";
import type { MemoryRecords } from "./records.js";

export function listRecords(ledger: MemoryRecords, { scope, state, prefix, after, limit }: ListQuery): Reading[] {
  const now = ledger.now();
  const from = after && rowOf(after);
  const rows = [...ledger.records]
    .filter(([row, record]) => {
      if (from !== undefined && row <= from) return false;
      if (scope !== undefined && record.scope !== scope) return false;
      if (state !== undefined && stateAt(record, now) !== state) return false;
      return prefix === undefined || record.key.startsWith(prefix);
    })
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return rows.slice(0, limit).map(([, record]) => ({ record, now }));
}
