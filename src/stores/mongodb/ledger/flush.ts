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
import { idOf, isReading, recordAndNow, toReading } from "./record-document.js";
import { renewUpdate, resolveUpdate, settleUpdate } from "./settle.js";

/**
 * Each operation is one write of one document, and MongoDB's bulk writes do not tell what became of each: so they go
 * side by side. Whatever fails fails alone.
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
  if (operation.verb === "begin") return await begin(collections, operation);
  return (await write(collections, operation, options)) ?? (await refused(collections, operation, options));
}

/** One trip: the record after it says whether the begin was granted, and if not, why. */
async function begin(collections: Collections, operation: Begin): Promise<Verdicted | "again"> {
  const ask = () =>
    collections.records.findOneAndUpdate({ _id: idOf(operation) }, beginUpdate(operation), {
      upsert: true,
      returnDocument: "after",
      projection: recordAndNow,
      ...collections.bounded,
    });
  // Two who insert the same document at once: MongoDB tells one of them that it exists, who then finds it.
  const found = await ask().catch((error: unknown) => {
    if (isDuplicateKey(error)) return "exists" as const;
    throw error;
  });
  const document = found === "exists" ? await ask().catch(unlessDuplicate) : found;
  // Asked again, a begin finds its own success.
  if (!isReading(document)) return "again";
  const { record, now } = toReading(document);
  const { answer, next } = decide(record, operation, now);
  // Its own success is what a granted begin finds, and one that was sent again.
  assert(next === undefined, "MongoDB refused a begin that decide() grants");
  return { answer, record, now };
}

function unlessDuplicate(error: unknown): null {
  if (isDuplicateKey(error)) return null;
  throw error;
}

/** A settle is told whether it was written, and no more: it is half of all writes. */
async function write(
  { records, bounded }: Collections,
  operation: Settle | Renew | Resolve,
  options: SessionOption,
): Promise<Verdicted | undefined> {
  if (operation.verb === "settle") {
    const { filter, update } = settleUpdate(operation);
    const { matchedCount } = await records.updateOne(filter, update, { ...bounded, ...options });
    return matchedCount === 1 ? { answer: { kind: "settled" }, record: undefined, now: 0 } : undefined;
  }
  const { filter, update } = operation.verb === "renew" ? renewUpdate(operation) : resolveUpdate(operation);
  const found = await records.findOneAndUpdate(filter, update, { ...bounded, returnDocument: "after", projection: recordAndNow });
  if (!isReading(found)) return undefined;
  const { record, now } = toReading(found);
  const { leaseUntil } = record;
  return { answer: operation.verb === "renew" ? { kind: "renewed", leaseUntil } : { kind: "settled" }, record, now };
}

/** The fence is stale, or this very request was written before: what is there now says which. */
async function refused(collections: Collections, operation: Operation, options: SessionOption): Promise<Verdicted | "again"> {
  const reading = await readFinally(collections, operation, options);
  const now = reading?.now ?? 0;
  const { answer, next } = decide(reading?.record, operation, now);
  // It would be granted now: the record has changed between the two.
  return next === undefined ? { answer, record: reading?.record, now } : "again";
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
