import { existsSync } from "node:fs";
import { ConfigurationError, InvalidInputError, UnreachableError } from "../../core/errors/errors.js";
import type { Backend } from "../../core/store/store.js";
import { startStandIn } from "../heartbeat/heartbeat-thread.js";
import { checkEncoding } from "../url-parameters.js";
import { asking } from "./connection/ask.js";
import { inspectServer, requireMeaning, sayWhatIsUnusual } from "./connection/server.js";
import { loadDriver, type MongoClient } from "./driver.js";
import { explain } from "./errors.js";
import { collectionsOf, createIndexes, createRunCollections } from "./layout.js";
import { AbandonedRecords } from "./ledger/abandoned.js";
import { appendAudit, readAudit } from "./ledger/audit.js";
import { flush } from "./ledger/flush.js";
import { listRecords } from "./ledger/list.js";
import { purgeRecords } from "./ledger/purge.js";
import { readAttempts, readRecord } from "./ledger/read.js";
import { mongoRuns } from "./runs/runs.js";
import { atMost } from "./side-by-side.js";
import { settleWithin, transact } from "./transactions/transact.js";

export interface MongoOptions {
  /** A client of the user's own. It is neither connected nor closed by us. */
  readonly client: MongoClient;
  /** Default: the one that the client was made with. */
  readonly database?: string;
  /** What the names of our collections begin with. Default `onceflow`. */
  readonly prefix?: string;
  /** False: somebody in this process has opened and checked it before. */
  readonly check?: boolean;
}

export interface MongoUrlOptions {
  readonly url: string;
  /** How long a stuck process keeps its leases. */
  readonly stallMsMax?: number;
  readonly check?: boolean;
}

/** Of our own client, where the URL says nothing else. */
const settings = {
  appName: "onceflow",
  serverSelectionTimeoutMS: 5000,
  connectTimeoutMS: 5000,
  socketTimeoutMS: 15_000,
  // A server that was lost is looked for so often: at the driver's ten seconds, leases would lapse before it is found again.
  heartbeatFrequencyMS: 2000,
};
const defaultName = "onceflow";
/** Writes under way at once: each has a connection of the pool, which has 100 of them, to itself. */
const atOnceMax = 48;

/** MongoDB 5 and newer, by its URL: the client is ours, and so is its end. */
export async function openMongoUrl({ url, stallMsMax, check = true }: MongoUrlOptions): Promise<Backend> {
  const { address, database, prefix } = readUrl(url);
  checkFiles(address);
  const { MongoClient } = await loadDriver();
  let client: MongoClient;
  try {
    const ours = Object.entries(settings).filter(([name]) => !new RegExp(`[?&]${name}=`, "i").test(address));
    client = new MongoClient(address, Object.fromEntries(ours));
  } catch (error) {
    const unknown = unknownOptions(error);
    if (unknown !== undefined)
      throw new InvalidInputError("url", `has ${unknown}; ours is prefix, the others are those of the driver mongodb`);
    // What else the driver says about it may repeat the password.
    throw new InvalidInputError("url", "is malformed; write mongodb://user@host:27017/database, special characters as %XX");
  }
  try {
    const backend = await openMongo({ client, database, prefix, check });
    return {
      ...backend,
      standIn: () => startStandIn({ kind: "mongodb", url }, stallMsMax),
      close: async () => {
        await backend.close();
        await client.close();
      },
    };
  } catch (error) {
    await client.close().catch(() => {});
    throw error;
  }
}

/** MongoDB 5 and newer, through a client that somebody else made and closes. */
export async function openMongo({ client, database: name, prefix = defaultName, check = true }: MongoOptions): Promise<Backend> {
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
      if (replicated) await createRunCollections(collections);
    });
    sayWhatIsUnusual(client, server);
  }

  const abandoned = new AbandonedRecords(collections);
  const inTurn = atMost(atOnceMax);
  const queue = replicated ? mongoRuns(client, collections) : undefined;
  return {
    name: "mongodb",
    capabilities: { transactions: replicated, sharedClock: true, durable: true, runs: replicated, packets: false },
    flush: (operations) => flush(collections, inTurn, operations),
    flushesAtOnce: atOnceMax,
    read: (id) => asking("a read", () => readRecord(collections, id)),
    attempts: (query) => asking("a read", () => readAttempts(collections, query)),
    list: (query) => asking("a listing", () => listRecords(collections, query)),
    purge: (query) => asking("a purge", () => purgeRecords(collections, abandoned, query)),
    audit: (entries) => asking("an audit entry", () => appendAudit(collections, entries)),
    audited: (id, limit) => asking("a read", () => readAudit(collections, id, limit)),
    ...(queue === undefined
      ? {}
      : {
          transact: (work) => transact(client, work),
          settleWithin: (tx, settle) => settleWithin(collections, tx, settle),
          runs: queue.runs,
        }),
    close: async () => await queue?.close(),
  };
}

async function connecting<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await asking("opening the store", work);
  } catch (error) {
    const meaning = explain(error, "opening the store");
    const why = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    // Nothing was written yet, whatever was lost.
    throw meaning === error && !(error instanceof Error && "retryable" in error && error.retryable === true)
      ? error
      : new UnreachableError(`[onceflow] [mongodb] cannot connect: ${why}`, error);
  }
}

/** `prefix` is ours and not the driver's. An address may name several hosts, which no other URL does: so it is cut by hand. */
function readUrl(url: string): { readonly address: string; readonly database: string; readonly prefix: string } {
  const [place = "", query = ""] = url.split("?", 2);
  const parameters = new URLSearchParams(query);
  const prefix = parameters.get("prefix") ?? defaultName;
  parameters.delete("prefix");
  checkEncoding(place);
  const named = /^[^/]+\/\/[^/]+\/([^/]*)$/.exec(place)?.[1] ?? "";
  const rest = parameters.size > 0 ? `?${parameters}` : "";
  return { address: `${place}${rest}`, database: named === "" ? defaultName : decodeURIComponent(named), prefix };
}

/** The driver names what it does not know: a parameter, and nothing of the rest of the URL. */
function unknownOptions(error: unknown): string | undefined {
  const found = /^options? ([\w, ]+) (?:is|are) not supported$/i.exec(error instanceof Error ? error.message : "");
  return found === null ? undefined : `unknown parameters: ${found[1]}`;
}

const files = /[?&](tlsCAFile|tlsCertificateKeyFile|tlsCRLFile)=([^&]*)/gi;

/** The driver reads them when it connects, and would throw what the system says. */
function checkFiles(address: string): void {
  for (const [, name, value = ""] of address.matchAll(files)) {
    checkEncoding(value);
    const path = decodeURIComponent(value);
    if (!existsSync(path))
      throw new ConfigurationError(`[onceflow] [mongodb] the file that ${name} names in the URL is not there: "${path}"`, {
        code: "STORE_NOT_USABLE",
      });
  }
}
