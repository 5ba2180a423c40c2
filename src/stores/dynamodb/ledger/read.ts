import type { AttemptEntry, RecordId } from "../../../core/ledger/record.js";
import type { AttemptsQuery, Reading } from "../../../core/store/store.js";
import type { Ledger } from "./flush.js";
import { keyOf, observeRecord, pastOf } from "./item.js";
import { getItem } from "./write.js";

export async function readRecord({ table, seen }: Ledger, id: RecordId): Promise<Reading | undefined> {
  const item = await getItem(table, keyOf(table, id));
  if (item === undefined) return undefined;
  const { record, now } = await observeRecord(table, item, seen);
  return { record, now };
}

export async function readAttempts({ table }: Ledger, { afterAttempt, limit, ...id }: AttemptsQuery): Promise<AttemptEntry[]> {
  return pastOf(await getItem(table, keyOf(table, id)))
    .filter(({ attempt }) => attempt > afterAttempt)
    .slice(0, limit);
}
