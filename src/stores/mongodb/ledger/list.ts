import { rowOf, stateAt } from "../../../core/ledger/record.js";
import type { ListQuery, Reading } from "../../../core/store/store.js";
import type { Collections } from "../layout.js";
import { gte, lt, now } from "./expressions.js";
import { type RecordAndNow, recordAndNow, strictFrom, toReading } from "./record-document.js";
import { allPlaces, placeOf, type RecordPlace } from "./record-place.js";

/** Lists by scope and key, byte by byte: the first records of each collection, and of these the first. */
export async function listRecords(collections: Collections, query: ListQuery): Promise<Reading[]> {
  const { scope, limit } = query;
  const one = scope === undefined ? undefined : await placeOf(collections, scope);
  const places = scope === undefined ? await allPlaces(collections) : one === undefined ? [] : [one];
  const found = await Promise.all(places.map((place) => listPlace(place, query)));
  if (found.length === 1) return found[0] as Reading[];
  const byRow = found.flat().map((reading) => ({ reading, row: Buffer.from(rowOf(reading.record)) }));
  return byRow
    .sort((a, b) => Buffer.compare(a.row, b.row))
    .slice(0, limit)
    .map(({ reading }) => reading);
}

/** Filters by the state that is true now: a running record with an expired lease that must not be re-run counts as unknown. */
async function listPlace(place: RecordPlace, query: ListQuery): Promise<Reading[]> {
  const { state, limit } = query;
  const { member, running } = place.words;
  const where = wheresOf(place, query);
  if (where === undefined) return [];
  if (state === "unknown")
    where.push({ effect: { $gte: strictFrom } }, { $or: [{ [member]: "unknown" }, { [member]: running, $expr: gte(now, "$leaseUntil") }] });
  else if (state === "running")
    where.push({ [member]: running, $or: [{ effect: { $lt: strictFrom } }, { $expr: lt(now, "$leaseUntil") }] });
  else if (state !== undefined) where.push({ [member]: state });
  const found = await place.records
    .find(where.length > 0 ? { $and: where } : {}, { projection: recordAndNow })
    .sort({ _id: 1 })
    .limit(limit)
    .toArray();
  return found
    .map((document) => toReading(document as unknown as RecordAndNow))
    .filter(({ record, now: at }) => state === undefined || stateAt(record, at) === state);
}

/** Conditions for scope, prefix and position. Undefined: no record of this collection has them. */
function wheresOf(place: RecordPlace, { scope, prefix, after }: ListQuery): Record<string, unknown>[] | undefined {
  const where: Record<string, unknown>[] = [];
  if (place.scope !== undefined) {
    const order = after === undefined ? -1 : Buffer.compare(Buffer.from(after.scope), Buffer.from(place.scope));
    if (order > 0) return undefined;
    if (prefix !== undefined) where.push({ _id: { $gte: prefix } });
    if (order === 0) where.push({ _id: { $gt: after?.key } });
  } else {
    if (scope !== undefined) where.push({ _id: { $gte: `${scope}\0${prefix ?? ""}`, $lt: `${scope}\u0001` } });
    if (after !== undefined) where.push({ _id: { $gt: rowOf(after) } });
  }
  if (prefix !== undefined) where.push({ key: { $regex: `^${literally(prefix)}` } });
  return where;
}

function literally(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}
