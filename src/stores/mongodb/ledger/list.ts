import { rowOf, stateAt } from "../../../core/ledger/record.js";
import type { ListQuery, Reading } from "../../../core/store/store.js";
import type { Collections } from "../layout.js";
import { gte, lt, now } from "./expressions.js";
import { type RecordAndNow, recordAndNow, strictFrom, toReading } from "./record-document.js";

/** Filters by the state that is true now: a running record with an expired lease that must not be re-run counts as unknown. */
export async function listRecords({ records }: Collections, query: ListQuery): Promise<Reading[]> {
  const { scope, state, prefix, after, limit } = query;
  const where: Record<string, unknown>[] = [];
  if (scope !== undefined) where.push({ _id: { $gte: `${scope}\0${prefix ?? ""}`, $lt: `${scope}\u0001` } });
  if (prefix !== undefined) where.push({ key: { $regex: `^${literally(prefix)}` } });
  if (after !== undefined) where.push({ _id: { $gt: rowOf(after) } });
  if (state === "unknown")
    where.push({ effect: { $gte: strictFrom } }, { $or: [{ state }, { state: "running", $expr: gte(now, "$leaseUntil") }] });
  else if (state === "running") where.push({ state, $or: [{ effect: { $lt: strictFrom } }, { $expr: lt(now, "$leaseUntil") }] });
  else if (state !== undefined) where.push({ state });
  const found = await records
    .find(where.length > 0 ? { $and: where } : {}, { projection: recordAndNow })
    .sort({ _id: 1 })
    .limit(limit)
    .toArray();
  return found
    .map((document) => toReading(document as unknown as RecordAndNow))
    .filter(({ record, now: at }) => state === undefined || stateAt(record, at) === state);
}

function literally(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}
