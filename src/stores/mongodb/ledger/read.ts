import type { AttemptEntry, RecordId } from "../../../core/ledger/record.js";
import type { AttemptsQuery, Reading } from "../../../core/store/store.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { type RecordAndNow, recordAndNow, toReading } from "./record-document.js";
import { idIn, placeOf } from "./record-place.js";

/** Reads what a majority has, which cannot be rolled back. */
export async function readRecord(collections: Collections, id: RecordId, options: object = {}): Promise<Reading | undefined> {
  const place = await placeOf(collections, id.scope);
  if (place === undefined) return undefined;
  const found = await place.records.findOne({ _id: idIn(place, id) }, { projection: recordAndNow, ...options });
  return found === null ? undefined : toReading(found as unknown as RecordAndNow);
}

/**
 * A linearizable read: the primary confirms with a majority that it still is the primary before it answers. In a transaction the
 * snapshot is read, and a conflict is detected at the write.
 */
export function readFinally(collections: Collections, id: RecordId, options: SessionOption): Promise<Reading | undefined> {
  return readRecord(collections, id, options.session === undefined ? { ...collections.decisive, ...collections.bounded } : options);
}

export async function readAttempts(
  collections: Collections,
  { scope, key, afterAttempt, limit }: AttemptsQuery,
): Promise<readonly AttemptEntry[]> {
  const place = await placeOf(collections, scope);
  const found = await place?.records.findOne({ _id: idIn(place, { scope, key }) }, { projection: { _id: 0, past: 1 } });
  return (found?.past ?? []).filter(({ attempt }) => attempt > afterAttempt).slice(0, limit);
}

/** The server's time, for code that reads no document. */
export async function serverTime({ database }: Collections): Promise<number> {
  const { localTime } = await database.command({ hello: 1 });
  return (localTime as Date).getTime();
}
