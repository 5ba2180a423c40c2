import { rowOf } from "../../../core/ledger/record.js";
import type { PurgeQuery } from "../../../core/store/store.js";
import type { Collections } from "../layout.js";
import type { AbandonedRecords } from "./abandoned.js";
import { serverTime } from "./read.js";
import { allPlaces, type RecordPlace } from "./record-place.js";

/**
 * Removes expired records and abandoned running records, but never an unknown one. The writes repeat the condition, so that a key
 * that was begun again in between is not touched.
 */
export async function purgeRecords(collections: Collections, abandoned: AbandonedRecords, { before, limit }: PurgeQuery): Promise<number> {
  const time = await serverTime(collections);
  const until = Math.min(before ?? time, time);
  let purged = 0;
  for (const place of await allPlaces(collections)) {
    if (purged < limit) purged += await purgeSettled(collections, place, until, limit - purged);
    if (purged < limit) purged += await abandoned.remove(place, until, limit - purged);
  }
  return purged;
}

async function purgeSettled({ audit }: Collections, { records, scope }: RecordPlace, until: number, limit: number): Promise<number> {
  const over = await records
    .find({ purgeFrom: { $lte: until } }, { projection: { _id: 1, goneAt: 1 } })
    .sort({ purgeFrom: 1 })
    .limit(limit)
    .toArray();
  if (over.length === 0) return 0;
  const gone = over.filter(({ goneAt }) => goneAt !== null && goneAt <= until).map(({ _id }) => _id);
  const expired = over.map(({ _id }) => _id).filter((id) => !gone.includes(id));
  let purged = 0;
  if (gone.length > 0) {
    // The records last: after a crash between the two, the next purge finds them again.
    await audit.deleteMany({ record: { $in: gone.map((_id) => (scope === undefined ? _id : rowOf({ scope, key: _id }))) } });
    purged += (await records.deleteMany({ _id: { $in: gone }, goneAt: { $lte: until } })).deletedCount;
  }
  if (expired.length > 0) {
    // Past its retention the result is removed; the record stays until the horizon.
    const strip = [{ $set: { outcome: null, purgeFrom: "$goneAt", rev: { $add: ["$rev", 1] } } }];
    const still = { _id: { $in: expired }, expiresAt: { $lte: until }, goneAt: { $gt: until }, outcome: { $ne: null } };
    purged += (await records.updateMany(still, strip)).modifiedCount;
  }
  return purged;
}
