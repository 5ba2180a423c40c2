import type { LedgerRecord } from "../../../core/ledger/record.js";

/** A row of `records` as JSON, with numbers as numbers. */
export type RecordRow = Readonly<Record<string, unknown>>;

export function toRecord({ purge_from: _, ...row }: RecordRow): LedgerRecord {
  return Object.fromEntries(Object.entries(row).map(([column, value]) => [camelCase(column), value])) as unknown as LedgerRecord;
}

function camelCase(column: string): string {
  return column.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
