import { InvalidInputError, UnreachableError } from "../../core/errors/errors.js";
import type { Backend } from "../../core/store/store.js";
import { Gate } from "../../core/work/gate.js";
import { asking } from "./connection/ask.js";
import { inspectServer, requireMeaning, sayWhatIsUnusual } from "./connection/server.js";
import type { MongoClient } from "./driver.js";
import { explain } from "./errors.js";
import { collectionsOf, createIndexes, createPacketCollections, createRunCollections } from "./layout.js";
import { AbandonedRecords } from "./ledger/abandoned.js";
import { appendAudit, readAudit } from "./ledger/audit.js";
import { flush } from "./ledger/flush.js";
import { listRecords } from "./ledger/list.js";
import { purgeRecords } from "./ledger/purge.js";
import { readAttempts, readRecord } from "./ledger/read.js";
import { mongoPackets } from "./packets/packets.js";
import { mongoRuns } from "./runs/runs.js";
import { settleWithin, transact } from "./transactions/transact.js";

export interface MongoBackendOptions {
  /** The backend neither connects nor closes it. */
  readonly client: MongoClient;
  /** Default: the database of the client's URL. */
  readonly database?: string;
  /** Prefix of the store's collections. Default `onceflow`. */
  readonly prefix?: string;
  /** False: this process has already checked the database. */
  readonly check?: boolean;
}

const prefixDefault = "onceflow";
/** Maximum number of concurrent writes: each uses one connection of the driver's pool of 100. */
const atOnceMax = 48;

/** Opens a store on MongoDB 5 or newer with a client that the caller creates and closes. */
export async function mongoBackend({
  client,
  database: name,
  prefix = prefixDefault,
  check = true,
}: MongoBackendOptions): Promise<Backend> {
  if (!/^[A-Za-z_][A-Za-z0-9_.-]{0,62}$/.test(prefix))
    throw new InvalidInputError("prefix", "must begin with a letter, and hold at most 63 letters, digits, dots, dashes and underscores");
  const database = client.db(name);
  const server = await connecting(() => inspectServer(database));
  const { replicated } = server;
  const collections = collectionsOf(database, prefix, replicated);
  if (check) {
    await asking("opening the store", async () => {
      await requireMeaning(collections);
      await createIndexes(collections);
      if (!replicated) return;
      await createRunCollections(collections);
      await createPacketCollections(collections);
    });
    sayWhatIsUnusual(client, server);
  }

  const abandoned = new AbandonedRecords(collections);
  const gate = new Gate(atOnceMax);
  const queue = replicated ? mongoRuns(client, collections) : undefined;
  const deliveries = replicated ? mongoPackets(client, collections) : undefined;
  return {
    name: "mongodb",
    capabilities: { transactions: replicated, sharedClock: true, durable: true, runs: replicated, packets: replicated },
    flush: (operations) => flush(collections, gate, operations),
    flushesAtOnce: atOnceMax,
    read: (id) => asking("a read", () => readRecord(collections, id)),
    attempts: (query) => asking("a read", () => readAttempts(collections, query)),
    list: (query) => asking("a listing", () => listRecords(collections, query)),
    purge: (query) => asking("a purge", () => purgeRecords(collections, abandoned, query)),
    audit: (entries) => asking("an audit entry", () => appendAudit(collections, entries)),
    audited: (id, limit) => asking("a read", () => readAudit(collections, id, limit)),
    ...(queue === undefined || deliveries === undefined
      ? {}
      : {
          transact: (work) => transact(client, work),
          settleWithin: (tx, settle) => settleWithin(collections, tx, settle),
          runs: queue.runs,
          packets: deliveries.packets,
        }),
    async close() {
      await queue?.close();
      await deliveries?.close();
    },
  };
}

async function connecting<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await asking("opening the store", work);
  } catch (error) {
    const meaning = explain(error, "opening the store");
    const why = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    // Nothing was written yet, so a lost connection means UnreachableError.
    throw meaning === error && !(error instanceof Error && "retryable" in error && error.retryable === true)
      ? error
      : new UnreachableError(`[onceflow] [mongodb] cannot connect: ${why}`, error);
  }
}
