import { setTimeout as delay } from "node:timers/promises";
import { BSON, Timestamp } from "mongodb";
import { ChangeStreams } from "./change-streams.js";
import { CommandError, type Engine, type Transaction } from "./engine.js";
import type { Language } from "./language.js";
import type { Doc } from "./wire.js";

export interface Deployment {
  readonly engine: Engine;
  readonly language: Language;
  readonly port: number;
  /** If false, the server is a standalone one, which has neither transactions nor change streams. */
  readonly replicaSet: boolean;
  readonly version: string;
}

export type Command = Doc & { readonly $db: string };
type Handler = (command: Command, transaction: Transaction | undefined) => Doc | Promise<Doc>;

interface FindAndModify extends Command {
  readonly query?: Doc;
  readonly sort?: Doc;
  readonly update?: Doc | Doc[];
  readonly remove?: boolean;
  readonly new?: boolean;
  readonly upsert?: boolean;
  readonly fields?: Doc;
}

const bytesMax = 16 * 1024 * 1024;
/** The maximum size of a command, slightly above that of a document. */
const commandBytesMax = bytesMax + 16 * 1024;

/** The key under which the answer of a findAndModify has the written document, before the projection. */
export const written = Symbol("written");

/** The commands that the store and its tests send. Any other command or option is an error. */
export function commandsOf(deployment: Deployment): Record<string, Handler> {
  const { engine, language } = deployment;
  const nsOf = (command: Command) => `${command.$db}.${String(Object.values(command)[0])}`;
  const streams = new ChangeStreams(engine, language);

  /** Reads a document by its _id, if the filter names one; any other filter scans the whole collection. */
  const find = (ns: string, query: Parameters<Language["select"]>[1], transaction: Transaction | undefined) => {
    const ids = namedBy(query.filter["_id"]);
    const named = ids?.map((id) => engine.get(ns, keyOf(id), transaction));
    return language.select(named?.filter((doc) => doc !== undefined) ?? engine.all(ns, transaction), query);
  };
  const insert = (ns: string, doc: Doc, transaction: Transaction | undefined) => {
    const id = keyOf(doc["_id"]);
    engine.reserve(ns, [id], transaction);
    if (engine.get(ns, id, transaction) !== undefined) throw duplicateKey(ns, doc["_id"], transaction);
    put(ns, doc, transaction);
  };
  const put = (ns: string, doc: Doc, transaction: Transaction | undefined) => {
    if (BSON.calculateObjectSize(doc) > bytesMax) throw new CommandError(10334, "BSONObjectTooLarge", "document is larger than 16 MB");
    engine.write(ns, keyOf(doc["_id"]), doc, transaction);
  };
  const fresh = (filter: Doc, update: Doc | readonly Doc[]) => {
    const named = Object.entries(filter).filter(([name, value]) => !name.startsWith("$") && !isOperators(value));
    const doc = language.update(Object.fromEntries(named), update, true);
    return { ...doc, _id: doc["_id"] ?? new BSON.ObjectId() };
  };
  /** As in MongoDB, an update that changes nothing does not write. */
  const replace = (ns: string, doc: Doc, update: Doc | readonly Doc[], transaction: Transaction | undefined) => {
    engine.reserve(ns, [keyOf(doc["_id"])], transaction);
    const next = language.update(doc, update, false);
    const changed = Buffer.compare(BSON.serialize(next), BSON.serialize(doc)) !== 0;
    if (changed) put(ns, next, transaction);
    return { next, changed };
  };

  return {
    hello: (command) => hello(deployment, command),
    ismaster: (command) => hello(deployment, command),
    ping: () => ({}),
    endsessions: () => ({}),
    killcursors: (command) => streams.kill(command["cursors"] as unknown[]),
    buildinfo: () => ({ version: deployment.version, versionArray: deployment.version.split(".").map(Number) }),
    createindexes: () => ({ numIndexesBefore: 1, numIndexesAfter: 2 }),
    create: () => ({}),
    listcollections(command) {
      const all = engine.names(command.$db).map((name) => ({ name, type: "collection" }));
      const firstBatch = language.select(all, { filter: (command["filter"] ?? {}) as Doc });
      return { cursor: { id: BSON.Long.ZERO, ns: `${command.$db}.$cmd.listCollections`, firstBatch } };
    },
    drop(command) {
      engine.drop((ns) => ns === nsOf(command));
      return {};
    },
    dropdatabase(command) {
      engine.drop((ns) => ns.startsWith(`${command.$db}.`));
      return {};
    },
    insert(command, transaction) {
      const documents = command["documents"] as Doc[];
      const errors = each(documents, (doc) => insert(nsOf(command), doc, transaction), transaction);
      return { n: documents.length - errors.length, ...(errors.length > 0 ? { writeErrors: errors } : {}) };
    },
    update(command, transaction) {
      const ns = nsOf(command);
      let [n, nModified] = [0, 0];
      const upserted: Doc[] = [];
      const updates = command["updates"] as { q: Doc; u: Doc | Doc[]; multi?: boolean; upsert?: boolean }[];
      const errors = each(
        updates,
        ({ q, u, multi, upsert }, index) => {
          const docs = find(ns, { filter: q, ...(multi ? {} : { limit: 1 }) }, transaction);
          engine.reserve(
            ns,
            docs.map(({ _id }) => keyOf(_id)),
            transaction,
          );
          for (const doc of docs) {
            n += 1;
            if (replace(ns, doc, u, transaction).changed) nModified += 1;
          }
          if (docs.length > 0 || !upsert) return;
          const doc = fresh(q, u);
          insert(ns, doc, transaction);
          n += 1;
          upserted.push({ index, _id: doc._id });
        },
        transaction,
      );
      return { n, nModified, ...(upserted.length > 0 ? { upserted } : {}), ...(errors.length > 0 ? { writeErrors: errors } : {}) };
    },
    delete(command, transaction) {
      const ns = nsOf(command);
      let n = 0;
      for (const { q, limit } of command["deletes"] as { q: Doc; limit: number }[]) {
        const ids = find(ns, { filter: q, limit }, transaction).map(({ _id }) => keyOf(_id));
        engine.reserve(ns, ids, transaction);
        for (const id of ids) engine.write(ns, id, undefined, transaction);
        n += ids.length;
      }
      return { n };
    },
    find(command, transaction) {
      const {
        filter = {},
        sort,
        skip,
        limit,
        projection,
      } = command as Command & { filter?: Doc; sort?: Doc; skip?: number; limit?: number; projection?: Doc };
      const query = { filter, ...(sort ? { sort } : {}), ...(skip ? { skip } : {}), ...(limit ? { limit } : {}) };
      const docs = find(nsOf(command), query, transaction);
      return { cursor: { id: BSON.Long.ZERO, ns: nsOf(command), firstBatch: docs.map((doc) => language.project(doc, projection)) } };
    },
    aggregate(command, transaction) {
      const pipeline = command["pipeline"] as Doc[];
      if (pipeline[0]?.["$changeStream"] !== undefined) {
        if (!deployment.replicaSet)
          throw new CommandError(40573, "Location40573", "The $changeStream stage is only supported on replica sets");
        return streams.open(nsOf(command), pipeline.slice(1));
      }
      const docs = language.aggregate(engine.all(nsOf(command), transaction), pipeline);
      return { cursor: { id: BSON.Long.ZERO, ns: nsOf(command), firstBatch: docs } };
    },
    distinct(command, transaction) {
      const name = String(command["key"]);
      const docs = find(nsOf(command), { filter: (command["query"] ?? {}) as Doc }, transaction);
      return { values: [...new Set(docs.map((doc) => doc[name]).filter((value) => value !== undefined))] };
    },
    getmore: (command) => streams.more(command["getMore"], Number(command["maxTimeMS"] ?? 1000)),
    findandmodify(command, transaction) {
      if (BSON.calculateObjectSize(command) > commandBytesMax)
        throw new CommandError(10334, "BSONObjectTooLarge", "command is larger than 16 MB");
      const { query = {}, sort, update = {}, remove, new: after, upsert, fields } = command as FindAndModify;
      const ns = nsOf(command);
      const [doc] = find(ns, { filter: query, ...(sort ? { sort } : {}), limit: 1 }, transaction);
      const told = (value: Doc | undefined) => (value === undefined ? null : language.project(value, fields));
      if (doc !== undefined && remove) engine.write(ns, keyOf(doc["_id"]), undefined, transaction);
      if (doc !== undefined && remove) return { lastErrorObject: { n: 1 }, value: told(doc) };
      if (doc !== undefined) {
        const { next, changed } = replace(ns, doc, update, transaction);
        const image = changed ? { [written]: after ? next : doc } : {};
        return { lastErrorObject: { n: 1, updatedExisting: true }, value: told(after ? next : doc), ...image };
      }
      if (!upsert) return { lastErrorObject: { n: 0, updatedExisting: false }, value: null };
      const next = fresh(query, update);
      insert(ns, next, transaction);
      const image = after ? { [written]: next } : {};
      return { lastErrorObject: { n: 1, updatedExisting: false, upserted: next._id }, value: told(after ? next : undefined), ...image };
    },
  };
}

/** Executes the writes in order and stops at the first failure. In a transaction a failure fails the transaction. */
function each<T>(all: readonly T[], work: (one: T, index: number) => void, transaction: Transaction | undefined): Doc[] {
  for (const [index, one] of all.entries()) {
    try {
      work(one, index);
    } catch (error) {
      if (!(error instanceof CommandError) || error.code === 112) throw error;
      if (transaction === undefined || error.code === 11000) return [{ index, code: error.code, errmsg: error.message, ...error.facts }];
      throw error;
    }
  }
  return [];
}

function duplicateKey(ns: string, id: unknown, _transaction: Transaction | undefined): CommandError {
  const facts = { keyPattern: { _id: 1 }, keyValue: { _id: id } };
  return new CommandError(11000, "DuplicateKey", `E11000 duplicate key error collection: ${ns} index: _id_`, [], facts);
}

const topologyVersion = { processId: new BSON.ObjectId(), counter: BSON.Long.ZERO };

/** A driver that sends its topologyVersion waits for a change of the topology. There is none here: the driver notices a lost connection. */
async function hello({ replicaSet, port, version, language }: Deployment, command: Command): Promise<Doc> {
  if (command["topologyVersion"] !== undefined) await delay(Number(command["maxAwaitTimeMS"] ?? 0), undefined, { ref: false });
  const host = `127.0.0.1:${port}`;
  return {
    ...(replicaSet ? { setName: "emulated", hosts: [host], primary: host, me: host, setVersion: 1, secondary: false } : {}),
    isWritablePrimary: true,
    ismaster: true,
    helloOk: true,
    maxBsonObjectSize: bytesMax,
    maxMessageSizeBytes: 48_000_000,
    maxWriteBatchSize: 100_000,
    localTime: language.instant,
    logicalSessionTimeoutMinutes: 30,
    minWireVersion: 0,
    maxWireVersion: Number(version.split(".")[0]) >= 5 ? 21 : 9,
    readOnly: false,
    topologyVersion,
    operationTime: new Timestamp({ t: Math.floor(Date.now() / 1000), i: 1 }),
  };
}

function namedBy(id: unknown): readonly unknown[] | undefined {
  if (typeof id === "string" || typeof id === "number") return [id];
  const { $in, ...rest } = (isOperators(id) ? id : {}) as { $in?: unknown[] };
  return $in !== undefined && Object.keys(rest).length === 0 ? [...new Set($in)] : undefined;
}

function isOperators(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).some((name) => name.startsWith("$"));
}

function keyOf(id: unknown): string {
  return typeof id === "string" ? id : BSON.EJSON.stringify({ id });
}
