import type { AnyBulkWriteOperation, Collection, Document } from "mongodb";
import { effectClasses, type LedgerRecord, type RecordId, rowOf } from "../../../core/ledger/record.js";
import { notesMax } from "../../../core/packets/packet.js";
import type { PacketChanges } from "../../shared/loaded-packet-table.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { pastMax } from "../ledger/record-document.js";
import { idIn, placeOf, type RecordPlace } from "../ledger/record-place.js";
import { requireRoom } from "../ledger/settle.js";
import { Conflict } from "../transactions/in-transaction.js";
import { insertEntries } from "./deliveries.js";
import { executionUpdate, noteId, packetUpdate, toExecutionDocument, toPacketDocument } from "./document.js";
import type { DependentTable, Depends } from "./table.js";

/**
 * Writes what the rules have changed, and a mark to what they only depended on. What conflicts most often comes first, so that a
 * transaction that will be aborted has written little.
 */
export async function writeChanges(
  collections: Collections,
  table: DependentTable,
  noted: ReadonlyMap<number, number>,
  options: Required<SessionOption>,
  claim?: number,
): Promise<void> {
  const changes = table.changes();
  const depends = table.depends();
  await writeRecords(collections, changes, depends, options);
  await writeLanes(collections, depends, table.emptyLanes(), options);
  await writeExecutions(collections, changes, table, noted, options);
  await writePackets(collections, changes, options, claim);
  if (changes.entries.length > 0) await insertEntries(collections, changes.entries, options);
}

async function writeRecords(
  collections: Collections,
  { records, past }: PacketChanges,
  { keys }: Depends,
  options: Required<SessionOption>,
): Promise<void> {
  const written = new Set(records.map(({ next }) => rowOf(next)));
  const byPlace = new Map<string, { readonly place: RecordPlace; readonly writes: AnyBulkWriteOperation<Document>[] }>();
  const add = async (scope: string, write: (place: RecordPlace) => AnyBulkWriteOperation<Document>) => {
    const place = await placeOf(collections, scope, { creates: true });
    if (place === undefined) return;
    const entry = byPlace.get(place.records.collectionName) ?? { place, writes: [] };
    byPlace.set(place.records.collectionName, entry);
    entry.writes.push(write(place));
  };
  for (const { next, was } of records) {
    requireRoom(next.outcome);
    const ended = past
      .filter(({ scope, key }) => scope === next.scope && key === next.key)
      .map(({ scope: _s, key: _k, ...entry }) => entry);
    await add(next.scope, (place) => recordWrite(place, next, was, ended));
  }
  for (const [row, id] of keys)
    if (!written.has(row)) await add(id.scope, (place) => ({ updateOne: { filter: { _id: idIn(place, id) as never }, update: touch } }));
  for (const { place, writes } of byPlace.values()) await bulk(place.records as unknown as Collection<Document>, writes, options);
}

const touch = { $inc: { touched: 1 } };

/**
 * As the first statement of a transaction: its snapshot begins here, and other writes of these records wait until it ends. Without it
 * an owner that renews its key more often than a transaction takes would make every try conflict.
 */
export async function lockKeys(collections: Collections, keys: Iterable<RecordId>, options: Required<SessionOption>): Promise<void> {
  const byCollection = new Map<string, { readonly place: RecordPlace; readonly ids: string[] }>();
  for (const id of keys) {
    const place = await placeOf(collections, id.scope);
    if (place === undefined) continue;
    const entry = byCollection.get(place.records.collectionName) ?? { place, ids: [] };
    byCollection.set(place.records.collectionName, entry);
    entry.ids.push(idIn(place, id));
  }
  for (const { place, ids } of byCollection.values()) await place.records.updateMany({ _id: { $in: ids } }, touch as never, options);
}

function recordWrite(place: RecordPlace, next: LedgerRecord, was: number, past: readonly object[]): AnyBulkWriteOperation<Document> {
  const { state, effect, ...rest } = next;
  const { member, running } = place.words;
  const _id = idIn(place, next) as never;
  const members = { ...rest, [member]: state === "running" ? running : state, effect: effectClasses.indexOf(effect) };
  const { purgeFrom, removeAt } = endsOf(next);
  const ends = { ...(purgeFrom !== undefined && { purgeFrom }), ...(removeAt !== undefined && { removeAt }) };
  if (was === 0) return { insertOne: { document: { _id, ...members, ...ends, past } } };
  const unset = { ...(purgeFrom === undefined && { purgeFrom: "" }), ...(removeAt === undefined && { removeAt: "" }) };
  return {
    updateOne: {
      filter: { _id, rev: was },
      update: {
        $set: { ...members, ...ends },
        ...(Object.keys(unset).length > 0 && { $unset: unset }),
        ...(past.length > 0 && { $push: { past: { $each: past, $slice: -pastMax } } }),
      },
    },
  } as unknown as AnyBulkWriteOperation<Document>;
}

/** As a settle of the ledger sets them (`ledger/settle.ts`). */
function endsOf({ state, retentionMs, goneAt, expiresAt, outcome }: LedgerRecord): { purgeFrom?: number; removeAt?: Date } {
  if (state === "running" || state === "unknown" || retentionMs === null || goneAt === null) return {};
  const purgeFrom = outcome === null ? goneAt : (expiresAt ?? goneAt);
  return { purgeFrom, ...((state === "completed" || state === "failed") && { removeAt: new Date(goneAt) }) };
}

/** A lane without packets has no document, so that lanes that are used once do not fill the database. */
async function writeLanes(
  { lanes }: Collections,
  depends: Depends,
  empty: ReadonlySet<string>,
  options: Required<SessionOption>,
): Promise<void> {
  const writes = [...depends.lanes.keys()].map((_id) =>
    empty.has(_id) ? { deleteOne: { filter: { _id } } } : { updateOne: { filter: { _id }, update: touch, upsert: true } },
  );
  if (writes.length > 0) await lanes.bulkWrite(writes, options);
}

async function writeExecutions(
  { executions, notes }: Collections,
  changes: PacketChanges,
  table: DependentTable,
  noted: ReadonlyMap<number, number>,
  options: Required<SessionOption>,
): Promise<void> {
  const fresh = new Map<number, typeof changes.notes>();
  for (const note of changes.notes) fresh.set(note.execution, [...(fresh.get(note.execution) ?? []), note]);
  const notedAfter = (no: number) => (fresh.has(no) ? (noted.get(no) ?? 0) + (fresh.get(no)?.length ?? 0) : undefined);
  const changed = new Map(changes.executions.map((row) => [row.no, row]));
  const existing = [...table.depends().executions].filter((no) => table.existing(changes, no));
  await bulk(
    executions as unknown as Collection<Document>,
    [
      ...changes.begun.map((row) => ({ insertOne: { document: toExecutionDocument(row, notedAfter(row.no) ?? 0) } })),
      ...existing.map((no) => ({ updateOne: { filter: { _id: no }, update: executionUpdate(changed.get(no), notedAfter(no)) } })),
    ] as unknown as AnyBulkWriteOperation<Document>[],
    options,
  );
  const documents = [...fresh].flatMap(([execution, all]) => {
    const before = noted.get(execution) ?? 0;
    const kept = all.slice(0, Math.max(0, notesMax - before));
    return kept.map(({ execution: _, ...note }, i) => ({ _id: noteId(execution, before + i), ...note }));
  });
  if (documents.length > 0) await notes.insertMany(documents, options);
}

async function writePackets(
  { packets }: Collections,
  { removed, inserted, changed, ended }: PacketChanges,
  options: Required<SessionOption>,
  claim: number | undefined,
): Promise<void> {
  for (const { payload } of inserted) requireRoom(payload);
  await bulk(
    packets as unknown as Collection<Document>,
    [
      ...removed.map((_id) => ({ deleteOne: { filter: { _id } } })),
      ...changed.map((row) => ({ updateOne: { filter: { _id: row.no }, update: packetUpdate(row, claim) } })),
      ...inserted.map((row) => ({ insertOne: { document: toPacketDocument(row) } })),
    ] as unknown as AnyBulkWriteOperation<Document>[],
    options,
  );
  if (ended.length > 0) await packets.deleteMany({ aside: { $in: [...ended] }, state: "kept" }, options);
}

/** Throws `Conflict` if a document that must exist does not: then nothing is written, and the transaction is repeated. */
async function bulk(
  collection: Collection<Document>,
  writes: readonly AnyBulkWriteOperation<Document>[],
  options: Required<SessionOption>,
): Promise<void> {
  if (writes.length === 0) return;
  const { matchedCount, deletedCount, insertedCount } = await collection.bulkWrite([...writes], options);
  if (matchedCount + deletedCount + insertedCount !== writes.length) throw new Conflict("a document has changed since it was read");
}
