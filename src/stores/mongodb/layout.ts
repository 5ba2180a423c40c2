import type { Collection, CollectionOptions, Db, IndexDescription, ObjectId } from "mongodb";
import type { AuditedEntry } from "../../core/store/store.js";
import type { MongoClient } from "./driver.js";
import { codeOf } from "./errors.js";
import { type RecordDocument, strictFrom } from "./ledger/record-document.js";
import type { ChunkDocument, EntryDocument, HookDocument, MailDocument, RunDocument, WorkerDocument } from "./runs/document.js";

interface AuditDocument extends Omit<AuditedEntry, "scope" | "key"> {
  readonly _id?: ObjectId;
  readonly record: string;
}

export interface Collections {
  readonly database: Db;
  /** The same collections of another client: the commands of a transaction must use the client that opened it. */
  by(client: MongoClient): Collections;
  readonly meta: Collection<{ readonly _id: string; readonly version: number }>;
  readonly records: Collection<RecordDocument>;
  readonly audit: Collection<AuditDocument>;
  readonly runs: Collection<RunDocument>;
  readonly journal: Collection<EntryDocument>;
  readonly mail: Collection<MailDocument>;
  readonly hooks: Collection<HookDocument>;
  readonly chunks: Collection<ChunkDocument>;
  readonly workers: Collection<WorkerDocument>;
  /** Options of a linearizable read, if the deployment supports it. */
  readonly decisive: { readonly readConcern?: { readonly level: "linearizable" } };
  /** Limits the wait for a document that is locked by another transaction. */
  readonly bounded: { readonly maxTimeMS: number };
}

const commandMsMax = 10_000;
const majorityMsMax = 10_000;

/**
 * Options of the store's collections, which override those of the URL or the user's client: writes go to a majority, on disk; reads
 * come from the primary and return what a majority has; numbers are read as JavaScript numbers.
 */
const options: CollectionOptions = {
  writeConcern: { w: "majority", journal: true, wtimeoutMS: majorityMsMax },
  readConcern: { level: "majority" },
  readPreference: "primary",
  promoteValues: true,
  promoteLongs: true,
  promoteBuffers: false,
  useBigInt64: false,
  raw: false,
  ignoreUndefined: false,
  serializeFunctions: false,
};

export function collectionsOf(database: Db, prefix: string, replicated: boolean): Collections {
  const collections: Collections = {
    database,
    by: (client) => (client === database.client ? collections : collectionsOf(client.db(database.databaseName), prefix, replicated)),
    meta: database.collection(`${prefix}_meta`, options),
    records: database.collection(`${prefix}_records`, options),
    audit: database.collection(`${prefix}_audit`, options),
    runs: database.collection(`${prefix}_runs`, options),
    journal: database.collection(`${prefix}_journal`, options),
    mail: database.collection(`${prefix}_mail`, options),
    hooks: database.collection(`${prefix}_hooks`, options),
    chunks: database.collection(`${prefix}_chunks`, options),
    workers: database.collection(`${prefix}_workers`, options),
    decisive: replicated ? { readConcern: { level: "linearizable" } } : {},
    bounded: { maxTimeMS: commandMsMax },
  };
  return collections;
}

/**
 * MongoDB itself removes a record this long after it could be purged. A day, so that normally the purge, which also removes the
 * audit log, is first.
 */
const removeAfterS = 24 * 3600;

const recordIndexes: IndexDescription[] = [
  // Contains only records that can become unknown, so that begins of other effect classes do not have to maintain it.
  { name: "strict", key: { state: 1, _id: 1 }, partialFilterExpression: { effect: { $gte: strictFrom } } },
  { name: "purge", key: { purgeFrom: 1 }, sparse: true },
  { name: "remove", key: { removeAt: 1 }, sparse: true, expireAfterSeconds: removeAfterS },
];

const runIndexes: IndexDescription[] = [
  // The queue: contains only runs that can be claimed at some time.
  { name: "queue", key: { workflow: 1, wakeAt: 1 }, partialFilterExpression: { wakeAt: { $exists: true } } },
  { name: "owner", key: { owner: 1 }, sparse: true },
  { name: "newest", key: { createdAt: -1, _id: -1 } },
  { name: "purge", key: { expiresAt: 1 }, sparse: true },
  // Runs that not every worker may claim. They are few; with these indexes a claim finds them without reading the queue.
  { name: "suspects", key: { deaths: 1 }, partialFilterExpression: { deaths: { $gte: 2 } } },
  { name: "avoided", key: { avoidUntil: 1 }, sparse: true },
];

/** Several processes may do this at once: creating an index that exists does nothing. */
export async function createIndexes({ records, audit }: Collections): Promise<void> {
  await Promise.all([records.createIndexes(recordIndexes), audit.createIndexes([{ name: "record", key: { record: 1, at: 1 } }])]);
}

/**
 * Creates the collections that transactions write to: creating one later takes a lock that conflicts with transactions. `workers`
 * is written outside of transactions.
 */
export async function createRunCollections({ database, runs, journal, mail, hooks, chunks }: Collections): Promise<void> {
  await Promise.all([
    runs.createIndexes(runIndexes),
    database.createCollection(journal.collectionName).catch(unlessThere),
    mail.createIndexes([{ name: "order", key: { run: 1, seq: 1 } }]),
    hooks.createIndexes([{ name: "run", key: { no: 1 } }]),
    chunks.createIndexes([
      // Not unique, because then the collection could not be sharded by _id. A writer of chunks writes the run's document first, so
      // of two concurrent writers one transaction is retried and finds what the other has written. (0.1.0 had a unique index "count".)
      { name: "writer", key: { no: 1, stream: 1, writer: 1, n: 1 } },
      { name: "ends", key: { ends: 1 }, sparse: true },
    ]),
  ]);
}

/** Ignores the error NamespaceExists. */
function unlessThere(error: unknown): void {
  if (codeOf(error) !== 48) throw error;
}
