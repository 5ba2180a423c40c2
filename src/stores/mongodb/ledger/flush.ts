import { assert } from "../../../core/errors/errors.js";
import { decide } from "../../../core/ledger/decide.js";
import type { Begin, Operation, Renew, Resolve, Settle } from "../../../core/ledger/operation.js";
import type { Verdicted } from "../../../core/store/store.js";
import type { Gate } from "../../../core/work/gate.js";
import { again, asking } from "../connection/ask.js";
import type { SessionOption } from "../driver.js";
import { isDuplicateKey } from "../errors.js";
import type { Collections } from "../layout.js";
import { beginUpdate } from "./begin.js";
import { readFinally } from "./read.js";
import { isReading, recordAndNow, toReading } from "./record-document.js";
import { idIn, placeOf, type RecordPlace } from "./record-place.js";
import { renewUpdate, resolveUpdate, settleUpdate } from "./settle.js";

/**
 * Each operation is one write of one document. They are sent concurrently, because MongoDB's bulk writes do not return the result of each.
 * An operation that fails does not affect the others.
 */
export async function flush(
  collections: Collections,
  gate: Gate,
  operations: readonly Operation[],
): Promise<(Verdicted | "again" | Error)[]> {
  return await gate.runAll(operations, (operation) =>
    asking(`a ${operation.verb}`, () => again(() => apply(collections, operation))).catch(asError),
  );
}

export async function apply(collections: Collections, operation: Operation, options: SessionOption = {}): Promise<Verdicted | "again"> {
  const place = await placeOf(collections, operation.scope, { creates: operation.verb === "begin" });
  if (operation.verb === "begin") return await begin(collections, place as RecordPlace, operation);
  return (place && (await write(collections, place, operation, options))) ?? (await refused(collections, operation, options));
}

/** One round trip: the record after the update shows whether the begin was granted, and if not, why. */
async function begin({ bounded }: Collections, place: RecordPlace, operation: Begin): Promise<Verdicted | "again"> {
  const ask = () =>
    place.records.findOneAndUpdate({ _id: idIn(place, operation) }, beginUpdate(operation, place.words), {
      upsert: true,
      returnDocument: "after",
      projection: recordAndNow,
      ...bounded,
    });
  // Of two concurrent inserts of one document, one gets a duplicate key error; asked again, it finds the document.
  const found = await ask().catch((error: unknown) => {
    if (isDuplicateKey(error)) return "exists" as const;
    throw error;
  });
  const document = found === "exists" ? await ask().catch(unlessDuplicate) : found;
  // Sent again, a begin finds its own success.
  if (!isReading(document)) return "again";
  const { record, now } = toReading(document);
  const { answer, next } = decide(record, operation, now);
  // A granted begin, and one that is sent again, both find their own success in the record.
  assert(next === undefined, "MongoDB refused a begin that decide() grants");
  return { answer, record, now };
}

function unlessDuplicate(error: unknown): null {
  if (isDuplicateKey(error)) return null;
  throw error;
}

/** For a settle only whether it was written is returned, not the record: settles are half of all writes. */
async function write(
  { bounded }: Collections,
  place: RecordPlace,
  operation: Settle | Renew | Resolve,
  options: SessionOption,
): Promise<Verdicted | undefined> {
  if (operation.verb === "settle") {
    const { filter, update } = settleUpdate(operation, place);
    const { matchedCount } = await place.records.updateOne(filter, update, { ...bounded, ...options });
    return matchedCount === 1 ? { answer: { kind: "settled" }, record: undefined, now: 0 } : undefined;
  }
  const { filter, update } = operation.verb === "renew" ? renewUpdate(operation, place) : resolveUpdate(operation, place);
  const found = await place.records.findOneAndUpdate(filter, update, { ...bounded, returnDocument: "after", projection: recordAndNow });
  if (!isReading(found)) return undefined;
  const { record, now } = toReading(found);
  const { leaseUntil } = record;
  return { answer: operation.verb === "renew" ? { kind: "renewed", leaseUntil } : { kind: "settled" }, record, now };
}

/** The fence is stale, or this same request was applied before: the current record shows which. */
async function refused(collections: Collections, operation: Operation, options: SessionOption): Promise<Verdicted | "again"> {
  const reading = await readFinally(collections, operation, options);
  const now = reading?.now ?? 0;
  const { answer, next } = decide(reading?.record, operation, now);
  // If it would be granted now, the record has changed between the two commands.
  return next === undefined ? { answer, record: reading?.record, now } : "again";
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
