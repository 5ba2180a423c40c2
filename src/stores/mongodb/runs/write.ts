import { randomUUID } from "node:crypto";
import type { UpdateFilter } from "mongodb";
import { assert } from "../../../core/errors/errors.js";
import type { RunChanges } from "../../shared/loaded-run-table.js";
import type { SessionOption } from "../driver.js";
import type { Collections } from "../layout.js";
import { requireRoom } from "../ledger/settle.js";
import { writeChunks } from "./chunks.js";
import { entryId, inputLengthMax, mailId, type RunDocument, toDocument, updateOf } from "./document.js";
import { removeParts } from "./purge.js";

/**
 * Writes what the rules have changed: inside a transaction, or a single entry, whose id is the fence. A start has already created its
 * document. The run's document is written first: of two concurrent writers of one run, MongoDB aborts one, which is then repeated.
 */
export async function writeChanges(
  collections: Collections,
  changes: RunChanges,
  known: ReadonlyMap<string, string>,
  options: SessionOption,
): Promise<void> {
  const made = new Map(changes.inserted.filter(({ id }) => !known.has(id)).map(({ id }) => [id, randomUUID()]));
  const numberOf = (run: string): string => known.get(run) ?? (made.get(run) as string);
  for (const id of changes.removed) await removeRun(collections, id, numberOf(id), options);
  await writeRuns(collections, changes, made, numberOf, options);
  await insertEntries(collections, changes, numberOf, options);
  await insertMail(collections, changes, numberOf, options);
  await withdrawMail(collections, changes, numberOf, options);
  await writeHooks(collections, changes, numberOf, options);
  await writeChunks(collections, changes, numberOf, options);
}

type NumberOf = (run: string) => string;

async function writeRuns(
  { runs }: Collections,
  { inserted, changed, grown, withdrawn }: RunChanges,
  made: ReadonlyMap<string, string>,
  numberOf: NumberOf,
  options: SessionOption,
): Promise<void> {
  for (const { input } of inserted) requireRoom(input);
  for (const { to } of changed) requireRoom(to.output ?? null);
  const updates = new Map(changed.map(({ id, to }) => [id, updateOf(to)]));
  // The counter notifies other processes of the change, and makes two concurrent writers of one run's chunks conflict.
  for (const id of grown) updates.set(id, { ...updates.get(id), $inc: { grown: 1 } } as UpdateFilter<RunDocument>);
  for (const { run } of withdrawn) updates.set(run, { ...updates.get(run), $inc: { withdrawn: 1 } } as UpdateFilter<RunDocument>);
  const writes = [
    ...inserted.filter(({ id }) => made.has(id)).map((run) => ({ insertOne: { document: toDocument(run, numberOf(run.id)) } })),
    ...[...updates].map(([_id, update]) => ({ updateOne: { filter: { _id, no: numberOf(_id) }, update } })),
  ];
  if (writes.length > 0) await runs.bulkWrite(writes, options);
}

/** A long input is stored in the journal as entry 0. */
async function insertEntries(
  { journal }: Collections,
  { inserted, entries }: RunChanges,
  numberOf: NumberOf,
  options: SessionOption,
): Promise<void> {
  for (const { events } of entries) requireRoom(events);
  const inputs = inserted.filter(({ input }) => input.length > inputLengthMax);
  const documents = [
    ...inputs.map(({ id, createdAt: at, input: events }) => ({ _id: entryId(numberOf(id), 0), seq: 0, epoch: 0, at, events })),
    ...entries.map(({ run, ...entry }) => ({ _id: entryId(numberOf(run), entry.seq), ...entry })),
  ];
  const [only] = documents;
  if (documents.length > 1) await journal.insertMany(documents, options);
  else if (only !== undefined) await journal.insertOne(only, options);
}

async function insertMail(collections: Collections, { mail }: RunChanges, numberOf: NumberOf, options: SessionOption): Promise<void> {
  for (const { payload } of mail) requireRoom(payload);
  const documents = mail.map(({ run, key, ...one }) => ({ _id: mailId(numberOf(run), key), run: numberOf(run), ...one }));
  if (documents.length > 0) await collections.mail.insertMany(documents, options);
}

/** A key is part of the id of its mail, so the mail is replaced. */
async function withdrawMail({ mail }: Collections, { withdrawn }: RunChanges, numberOf: NumberOf, options: SessionOption): Promise<void> {
  for (const { run, seq, key } of withdrawn) {
    const no = numberOf(run);
    const former = await mail.findOne({ run: no, seq }, options);
    assert(former !== null, "mail that is withdrawn was read in the same transaction");
    await mail.deleteOne({ _id: former._id }, options);
    await mail.insertOne({ ...former, _id: mailId(no, key), kind: "withdrawn", payload: null }, options);
  }
}

/** The run's document is removed first: a concurrent writer of the run and this transaction cannot both commit. */
async function removeRun(collections: Collections, id: string, no: string, options: SessionOption): Promise<void> {
  await collections.runs.deleteOne({ _id: id, no }, options);
  await removeParts(collections, no, options);
}

async function writeHooks(
  { hooks }: Collections,
  { hooksRemoved, hooksCleared, hooksInserted }: RunChanges,
  numberOf: NumberOf,
  options: SessionOption,
): Promise<void> {
  const gone = [
    ...hooksRemoved.map(({ run, token }) => ({ _id: token, no: numberOf(run) })),
    ...hooksCleared.map((run) => ({ no: numberOf(run) })),
  ];
  if (gone.length > 0) await hooks.deleteMany(gone.length === 1 ? (gone[0] as object) : { $or: gone }, options);
  const documents = hooksInserted.map(({ token: _id, scope, ...hook }) => ({
    ...{ _id, no: numberOf(hook.run), ...hook },
    ...(scope !== "" && { scope }),
  }));
  if (documents.length > 0) await hooks.insertMany(documents, options);
}
