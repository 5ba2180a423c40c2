import { decide } from "../../../core/ledger/decide.js";
import type { Operation } from "../../../core/ledger/operation.js";
import { rowOf } from "../../../core/ledger/record.js";
import type { Verdicted } from "../../../core/store/store.js";
import { type MemoryRecords, putRecord } from "./records.js";

/** Atomic, because there is no await between reading and writing. */
export function apply(ledger: MemoryRecords, operation: Operation): Verdicted {
  const now = ledger.now();
  const record = ledger.records.get(rowOf(operation));
  const { answer, next, past } = decide(record, operation, now);
  if (next) putRecord(ledger, next, past);
  return { answer, record: next ?? record, now };
}
