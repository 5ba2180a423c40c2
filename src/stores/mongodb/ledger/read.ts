import type { AttemptEntry, RecordId } from "../../../core/ledger/record.js";
import type { AttemptsQuery, Reading } from "../../../core/store/store.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { idOf, type RecordAndNow, recordAndNow, toReading } from "./record-document.js";

/** What a majority has: it cannot be rolled back any more. */
export async function readRecord({ records }: Collections, id: RecordId, options: object = {}): Promise<Reading | undefined> {
  const found = await records.findOne({ _id: idOf(id) }, { projection: recordAndNow, ...options });
  return found === null ? undefined : toReading(found as unknown as RecordAndNow);
}

/**
 * A read that decides: the primary asks a majority whether it still is one before it answers. In a transaction its
 * snapshot decides, and the conflict at its write.
 */
export function readFinally(collections: Collections, id: RecordId, options: SessionOption): Promise<Reading | undefined> {
  return readRecord(collections, id, options.session === undefined ? { ...collections.decisive, ...collections.bounded } : options);
}

export async function readAttempts(
  { records }: Collections,
  { scope, key, afterAttempt, limit }: AttemptsQuery,
): Promise<readonly AttemptEntry[]> {
  const found = await records.findOne({ _id: idOf({ scope, key }) }, { projection: { _id: 0, past: 1 } });
  return (found?.past ?? []).filter(({ attempt }) => attempt > afterAttempt).slice(0, limit);
}

/** The server's time where no document tells it. */
export async function serverTime({ database }: Collections): Promise<number> {
  const { localTime } = await database.command({ hello: 1 });
  return (localTime as Date).getTime();
}
