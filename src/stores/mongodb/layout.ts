import type { Collection, CollectionOptions, Db, IndexDescription, ObjectId } from "mongodb";
import type { AuditedEntry } from "../../core/store/store.js";
import type { MongoClient } from "./driver.js";
import { codeOf } from "./errors.js";
import { type KeyCollectionDocument, KeyCollections } from "./ledger/key-collections.js";
import { type RecordDocument, strictFrom } from "./ledger/record-document.js";
import type {
  DeliveryDocument,
  ExecutionDocument,
  FlowDocument,
  LaneDocument,
  NoteDocument,
  PacketDocument,
  PacketWorkerDocument,
} from "./packets/document.js";
import type {
  ChunkDocument,
  EntryDocument,
  HookDocument,
  LogDocument,
  MailDocument,
  RunDocument,
  WorkerDocument,
} from "./runs/document.js";

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
  readonly flowKeys: KeyCollections;
  /** A collection with the keys of a flow. */
  keysIn(name: string): Collection<RecordDocument>;
  readonly runs: Collection<RunDocument>;
  readonly journal: Collection<EntryDocument>;
  readonly mail: Collection<MailDocument>;
  readonly hooks: Collection<HookDocument>;
  readonly chunks: Collection<ChunkDocument>;
  readonly operatorLog: Collection<LogDocument>;
  readonly workers: Collection<WorkerDocument>;
  readonly packets: Collection<PacketDocument>;
  readonly executions: Collection<ExecutionDocument>;
  readonly notes: Collection<NoteDocument>;
  readonly deliveries: Collection<DeliveryDocument>;
  readonly lanes: Collection<LaneDocument>;
  readonly flows: Collection<FlowDocument>;
  readonly packetWorkers: Collection<PacketWorkerDocument>;
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

export function collectionsOf(database: Db, prefix: string, replicated: boolean, known?: KeyCollections): Collections {
  const keysIn = (name: string) => database.collection<RecordDocument>(name, options);
  const flowKeys =
    known ??
    new KeyCollections({
      name: database.databaseName,
      prefix,
      registry: registryOf(database),
      create: (name) => keysIn(name).createIndexes([...keyIndexes]),
    });
  const collections: Collections = {
    database,
    by: (client) =>
      client === database.client ? collections : collectionsOf(client.db(database.databaseName), prefix, replicated, flowKeys),
    meta: database.collection(`${prefix}_meta`, options),
    records: database.collection(`${prefix}_records`, options),
    audit: database.collection(`${prefix}_audit`, options),
    flowKeys,
    keysIn,
    runs: database.collection(`${prefix}_runs`, options),
    journal: database.collection(`${prefix}_journal`, options),
    mail: database.collection(`${prefix}_mail`, options),
    hooks: database.collection(`${prefix}_hooks`, options),
    chunks: database.collection(`${prefix}_chunks`, options),
    operatorLog: database.collection(`${prefix}_operator_log`, options),
    workers: database.collection(`${prefix}_workers`, options),
    packets: database.collection(`${prefix}_packets`, options),
    executions: database.collection(`${prefix}_executions`, options),
    notes: database.collection(`${prefix}_notes`, options),
    deliveries: database.collection(`${prefix}_deliveries`, options),
    lanes: database.collection(`${prefix}_lanes`, options),
    flows: database.collection(`${prefix}_flows`, options),
    packetWorkers: database.collection(`${prefix}_packet_workers`, options),
    decisive: replicated ? { readConcern: { level: "linearizable" } } : {},
    bounded: { maxTimeMS: commandMsMax },
  };
  return collections;
}

/** Which collection has the keys of which flow. One for all stores of a database, so that no two of them use the same collection. */
function registryOf(database: Db): Collection<KeyCollectionDocument> {
  return database.collection("onceflow_key_collections", options);
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

/** Keys of flows have the class `idempotent`, which cannot become unknown. */
const keyIndexes: readonly IndexDescription[] = [
  { name: "purge", key: { purgeFrom: 1 }, sparse: true },
  { name: "remove", key: { removeAt: 1 }, sparse: true, expireAfterSeconds: removeAfterS },
];

const scoped = { scope: { $exists: true } };

const runIndexes: IndexDescription[] = [
  // The queue: contains only runs that can be claimed at some time.
  { name: "queue", key: { workflow: 1, wakeAt: 1 }, partialFilterExpression: { wakeAt: { $exists: true } } },
  { name: "owner", key: { owner: 1 }, sparse: true },
  { name: "newest", key: { createdAt: -1, _id: -1 } },
  { name: "purge", key: { expiresAt: 1 }, sparse: true },
  // Runs that not every worker may claim. They are few; with these indexes a claim finds them without reading the queue.
  { name: "suspects", key: { deaths: 1 }, partialFilterExpression: { deaths: { $gte: 2 } } },
  { name: "avoided", key: { avoidUntil: 1 }, sparse: true },
  // Open runs that can be ended without their code at some time. Runs keep the member after their end.
  { name: "stop", key: { stopAt: 1 }, partialFilterExpression: { stopAt: { $exists: true }, endedAt: null } },
  // By what runs are searched: core/runs/search/served.ts. Only the first two contain all runs.
  { name: "listed", key: { workflow: 1, status: 1, createdAt: -1, _id: -1 } },
  { name: "ended", key: { workflow: 1, status: 1, endedAt: -1, _id: -1 }, partialFilterExpression: { endedAt: { $gt: 0 } } },
  { name: "parent", key: { parent: 1, createdAt: -1, _id: -1 }, partialFilterExpression: { parent: { $gte: "" } } },
  { name: "errorName", key: { errorName: 1, createdAt: -1, _id: -1 }, partialFilterExpression: { errorName: { $exists: true } } },
  { name: "errorCode", key: { errorCode: 1, createdAt: -1, _id: -1 }, partialFilterExpression: { errorCode: { $exists: true } } },
  { name: "terms", key: { terms: 1, createdAt: -1, _id: -1 }, partialFilterExpression: { terms: { $exists: true } } },
  { name: "trouble", key: { createdAt: -1, _id: -1 }, partialFilterExpression: { trouble: { $gte: "" } } },
  { name: "unsettled", key: { unsettled: 1, createdAt: -1, _id: -1 }, partialFilterExpression: { unsettled: { $gt: 0 } } },
  { name: "scopeListed", key: { scope: 1, workflow: 1, status: 1, createdAt: -1, _id: -1 }, partialFilterExpression: scoped },
  {
    name: "scopeEnded",
    key: { scope: 1, workflow: 1, status: 1, endedAt: -1, _id: -1 },
    partialFilterExpression: { ...scoped, endedAt: { $gt: 0 } },
  },
  { name: "scopeId", key: { scope: 1, _id: 1 }, partialFilterExpression: scoped },
  {
    name: "scopeErrorName",
    key: { scope: 1, errorName: 1, createdAt: -1, _id: -1 },
    partialFilterExpression: { ...scoped, errorName: { $exists: true } },
  },
  {
    name: "scopeErrorCode",
    key: { scope: 1, errorCode: 1, createdAt: -1, _id: -1 },
    partialFilterExpression: { ...scoped, errorCode: { $exists: true } },
  },
  {
    name: "scopeTerms",
    key: { scope: 1, terms: 1, createdAt: -1, _id: -1 },
    partialFilterExpression: { ...scoped, terms: { $exists: true } },
  },
  {
    name: "scopeTrouble",
    key: { scope: 1, createdAt: -1, _id: -1 },
    partialFilterExpression: { ...scoped, trouble: { $gte: "" } },
  },
];

/** Several processes may do this at once: creating an index that exists does nothing. */
export async function createIndexes({ database, records, audit }: Collections): Promise<void> {
  await Promise.all([
    records.createIndexes(recordIndexes),
    audit.createIndexes([{ name: "record", key: { record: 1, at: 1 } }]),
    // Unique: a flow has one collection.
    registryOf(database).createIndexes([{ name: "flow", key: { prefix: 1, flow: 1 }, unique: true }]),
  ]);
}

/**
 * Creates the collections that transactions write to: creating one later takes a lock that conflicts with transactions. `workers`
 * is written outside of transactions.
 */
export async function createRunCollections({ database, runs, journal, mail, hooks, chunks, operatorLog }: Collections): Promise<void> {
  await Promise.all([
    runs.createIndexes(runIndexes),
    database.createCollection(journal.collectionName).catch(unlessThere),
    mail.createIndexes([{ name: "order", key: { run: 1, seq: 1 } }]),
    hooks.createIndexes([
      { name: "run", key: { no: 1 } },
      { name: "scope", key: { scope: 1, _id: 1 }, partialFilterExpression: scoped },
    ]),
    chunks.createIndexes([
      // Not unique, because then the collection could not be sharded by _id. A writer of chunks writes the run's document first, so
      // of two concurrent writers one transaction is retried and finds what the other has written. (0.1.0 had a unique index "count".)
      { name: "writer", key: { no: 1, stream: 1, writer: 1, n: 1 } },
      { name: "ends", key: { ends: 1 }, sparse: true },
    ]),
    operatorLog.createIndexes([
      { name: "order", key: { no: 1 } },
      { name: "subject", key: { subject: 1, no: 1 } },
    ]),
  ]);
}

const packetIndexes: IndexDescription[] = [
  // The queues: contains only packets that can be claimed at some time.
  { name: "due", key: { flow: 1, queue: 1, claimAt: 1, _id: 1 }, partialFilterExpression: { claimAt: { $exists: true } } },
  { name: "owner", key: { owner: 1 }, sparse: true },
  { name: "lane", key: { inLane: 1, place: 1 }, sparse: true },
  { name: "held", key: { heldBy: 1 }, sparse: true },
  // Parts, kept packets and dead letters of an execution. Packets under way have no index by execution, as in the other stores.
  { name: "aside", key: { aside: 1, state: 1, createdAt: 1, _id: 1 }, partialFilterExpression: { aside: { $exists: true } } },
  { name: "reaching", key: { reaching: 1, state: 1 }, sparse: true },
  { name: "dead", key: { flow: 1, "dead.at": -1, _id: -1 }, partialFilterExpression: { "dead.at": { $exists: true } } },
  { name: "letters", key: { "dead.at": -1, _id: -1 }, partialFilterExpression: { "dead.at": { $exists: true } } },
  { name: "expiry", key: { "dead.expiresAt": 1 }, sparse: true },
];

const hasScope = { scope: { $exists: true } };
const hasLabels = { labels: { $exists: true } };
const executionIndexes: IndexDescription[] = [
  { name: "flow", key: { flow: 1, createdAt: -1, _id: -1 } },
  { name: "newest", key: { createdAt: -1, _id: -1 } },
  // Only executions with a scope or attributes.
  { name: "scope", key: { scope: 1, createdAt: -1, _id: -1 }, partialFilterExpression: hasScope },
  { name: "labels", key: { labels: 1, createdAt: -1, _id: -1 }, partialFilterExpression: hasLabels },
  { name: "scopeLabels", key: { scope: 1, labels: 1, createdAt: -1, _id: -1 }, partialFilterExpression: { ...hasScope, ...hasLabels } },
  { name: "expiry", key: { expiresAt: 1 }, sparse: true },
];

/** As `createRunCollections`. `packetWorkers` and `flows` are also written outside of transactions. */
export async function createPacketCollections({
  database,
  packets,
  executions,
  notes,
  deliveries,
  lanes,
  flows,
  packetWorkers,
}: Collections): Promise<void> {
  const plain = [notes, lanes, flows, packetWorkers];
  await Promise.all([
    packets.createIndexes(packetIndexes),
    executions.createIndexes(executionIndexes),
    deliveries.createIndexes([{ name: "packet", key: { packet: 1 } }]),
    ...plain.map(({ collectionName }) => database.createCollection(collectionName).catch(unlessThere)),
  ]);
}

/** Ignores the error NamespaceExists. */
function unlessThere(error: unknown): void {
  if (codeOf(error) !== 48) throw error;
}
