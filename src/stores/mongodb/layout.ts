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
  /** The same collections by another client: a transaction's commands go by the client that opened it. */
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
  /** For a read that decides, where the deployment has such. */
  readonly decisive: { readonly readConcern?: { readonly level: "linearizable" } };
  /** Somebody's transaction may hold the document: waited for within a bound. */
  readonly bounded: { readonly maxTimeMS: number };
}

const commandMsMax = 10_000;
const majorityMsMax = 10_000;

/**
 * Whatever the URL or the user's client asks for, our own collections are written to a majority, on disk, and read from
 * the primary, as far as a majority has it. And numbers are numbers, however the client reads its own.
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

/** MongoDB removes by itself what nobody has purged for so long: a day, so that a purge, which takes the audit log along, comes first. */
const removeAfterS = 24 * 3600;

const recordIndexes: IndexDescription[] = [
  // Only what can become unknown is in it: begins of other classes do not pay for it.
  { name: "strict", key: { state: 1, _id: 1 }, partialFilterExpression: { effect: { $gte: strictFrom } } },
  { name: "purge", key: { purgeFrom: 1 }, sparse: true },
  { name: "remove", key: { removeAt: 1 }, sparse: true, expireAfterSeconds: removeAfterS },
];

const runIndexes: IndexDescription[] = [
  // The queue: only what somebody may claim at some time is in it.
  { name: "queue", key: { workflow: 1, wakeAt: 1 }, partialFilterExpression: { wakeAt: { $exists: true } } },
  { name: "owner", key: { owner: 1 }, sparse: true },
  { name: "newest", key: { createdAt: -1, _id: -1 } },
  { name: "purge", key: { expiresAt: 1 }, sparse: true },
  // What not every worker may claim: few runs, so that a claim finds them without looking through the queue.
  { name: "suspects", key: { deaths: 1 }, partialFilterExpression: { deaths: { $gte: 2 } } },
  { name: "avoided", key: { avoidUntil: 1 }, sparse: true },
];

/** Several may do it at once: MongoDB takes the same index again for done. */
export async function createIndexes({ records, audit }: Collections): Promise<void> {
  await Promise.all([records.createIndexes(recordIndexes), audit.createIndexes([{ name: "record", key: { record: 1, at: 1 } }])]);
}

/** All of them have to be there before a transaction writes them: to make one takes a lock that transactions run into. */
export async function createRunCollections({ database, runs, journal, mail, hooks, chunks }: Collections): Promise<void> {
  await Promise.all([
    runs.createIndexes(runIndexes),
    database.createCollection(journal.collectionName).catch(unlessThere),
    mail.createIndexes([{ name: "order", key: { run: 1, seq: 1 } }]),
    hooks.createIndexes([{ name: "run", key: { no: 1 } }]),
    chunks.createIndexes([
      // Not unique, or the collection could not be sharded by _id: who writes chunks of a run writes its document first, so
      // that of two at a time one goes again, and finds what the other has written. 0.1.0 made it unique, as "count".
      { name: "writer", key: { no: 1, stream: 1, writer: 1, n: 1 } },
      { name: "ends", key: { ends: 1 }, sparse: true },
    ]),
  ]);
}

/** NamespaceExists. */
function unlessThere(error: unknown): void {
  if (codeOf(error) !== 48) throw error;
}
