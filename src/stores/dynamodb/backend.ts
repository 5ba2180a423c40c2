import { InvalidInputError } from "../../core/errors/errors.js";
import { createStore } from "../../core/store/create-store.js";
import type { Backend, Store } from "../../core/store/store.js";
import type { StoreOptions } from "../../core/store/store-options.js";
import { startStandIn } from "../heartbeat/heartbeat-thread.js";
import { bounded } from "./connection/deadline.js";
import { loadDriver, type Sdk, type Table } from "./driver.js";
import { explain } from "./errors.js";
import { Gate } from "./gate.js";
import { prepareTable } from "./layout.js";
import { appendAudit, readAudit } from "./ledger/audit.js";
import { flush } from "./ledger/flush.js";
import { ownNames } from "./ledger/item.js";
import { listRecords } from "./ledger/list.js";
import { Observations, observationsOf } from "./ledger/observed.js";
import { purgeRecords } from "./ledger/purge.js";
import { readAttempts, readRecord } from "./ledger/read.js";
import { checkTable, parseDynamoUrl } from "./url.js";

const connectMsMax = 2000;
const requestMsMax = 3000;
/** The SDK's own default is 50 sockets. */
const atOnceMax = 48;
const partitionKeyDefault = "id";
/** What tables of Orchestrix have. Used where the table has it and the user names none; the keys of a table with "id" stay where they are. */
const partitionKeyOfSeed = "key";

export interface DynamoOptions {
  readonly url: string;
  /** How long a stuck process keeps its leases. */
  readonly stallMsMax?: number;
  /** False: the table is known to be there and as it should be. */
  readonly check?: boolean;
}

/** By its URL: with a client of our own. */
export async function openDynamo({ url, stallMsMax, check = true }: DynamoOptions): Promise<Backend> {
  const { table, create, ...said } = parseDynamoUrl(url);
  const sdk = await loadDriver();
  const client = ownClient(sdk, said);
  try {
    const backend = await backendOf(sdk, { client, table, create, ...said }, check);
    return {
      ...backend,
      // It opens the table without looking at it.
      standIn: () => startStandIn({ kind: "dynamodb", url: withPartitionKey(url, backend.partitionKey) }, stallMsMax),
      close: async () => {
        await backend.close();
        client.destroy();
      },
    };
  } catch (error) {
    client.destroy();
    throw error;
  }
}

function withPartitionKey(url: string, partitionKey: string): string {
  const named = new URL(url);
  named.searchParams.set("partitionKey", partitionKey);
  return named.href;
}

function ownClient(sdk: Sdk, { region, endpoint, credentials }: Omit<ReturnType<typeof parseDynamoUrl>, "table" | "create">) {
  const agent = { keepAlive: true, maxSockets: atOnceMax };
  return new sdk.DynamoDBClient({
    region,
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(credentials === undefined ? {} : { credentials }),
    maxAttempts: 3,
    // The way through its layers is the same for every command of a kind: put together once, not at every request.
    cacheMiddleware: true,
    requestHandler: {
      connectionTimeout: connectMsMax,
      requestTimeout: requestMsMax,
      throwOnRequestTimeout: true,
      httpAgent: agent,
      httpsAgent: agent,
    },
  });
}

/** A `DynamoDBClient` of the AWS SDK, version 3; whichever copy of it. */
export interface DynamoClient {
  send(command: never, options?: never): Promise<unknown>;
}

export interface DynamoStoreOptions extends StoreOptions {
  /** Yours: `close` leaves it open. */
  readonly client: DynamoClient;
  readonly table: string;
  /** Default: `id`, or `key` where the table has that. */
  readonly partitionKey?: string;
  /** The attribute of the table's time to live. Default `ttl`. */
  readonly ttlAttribute?: string;
  /** Makes the table, and enables its time to live, where they are missing. */
  readonly create?: boolean;
}

/**
 * A store on a table, through a client of your own.
 *
 * @example
 * const store = await dynamoStore({ client: new DynamoDBClient({ region: "eu-central-1" }), table: "operations" });
 */
export async function dynamoStore(options: DynamoStoreOptions): Promise<Store> {
  if (typeof options?.client?.send !== "function") throw new InvalidInputError("client", "must be a DynamoDBClient");
  checkTable("table", options.table);
  return createStore(await backendOf(await loadDriver(), options), options);
}

async function backendOf(
  sdk: Sdk,
  options: Omit<DynamoStoreOptions, keyof StoreOptions>,
  check = true,
): Promise<Backend & { readonly partitionKey: string }> {
  const { client, table: name, partitionKey = partitionKeyDefault, ttlAttribute = "ttl", create = false } = options;
  for (const [field, given] of Object.entries({ partitionKey, ttlAttribute }))
    if (given === "" || ownNames.includes(given)) throw new InvalidInputError(field, `is "${given}", which an item has for something else`);
  const asked: Table = { sdk, client: bounded(client as unknown as Table["client"]), name, partitionKey, ttlAttribute };
  const reading = <T>(what: string, work: () => Promise<T>): Promise<T> =>
    work().catch((error: unknown) => {
      throw explain(error, what, "read");
    });

  const others = options.partitionKey === undefined ? [partitionKeyOfSeed] : [];
  const checked = check ? await reading("opening the store", () => prepareTable(asked, create, others)) : undefined;
  const table: Table = { ...asked, ...(checked && { partitionKey: checked.partitionKey }) };
  const identity = checked?.identity;
  const { seen, release } = identity === undefined ? { seen: new Observations(), release: () => {} } : observationsOf(identity);
  const ledger = { table, seen, gate: new Gate(atOnceMax) };
  return {
    name: "dynamodb",
    partitionKey: table.partitionKey,
    capabilities: { transactions: false, sharedClock: false, durable: true, runs: false, packets: false },
    removesByItself: true,
    flush: (operations) => flush(ledger, operations),
    // A key that is throttled, or whose reply is slow, holds nobody else up.
    flushesAtOnce: atOnceMax,
    read: (id) => reading("a read", () => readRecord(ledger, id)),
    attempts: (query) => reading("a read", () => readAttempts(ledger, query)),
    list: (query) => reading("a listing", () => listRecords(ledger, query)),
    purge: (query) => reading("a purge", () => purgeRecords(ledger, query)),
    audit: (entries) => reading("an audit entry", () => appendAudit(ledger, entries)),
    audited: (id, limit) => reading("a read", () => readAudit(ledger, id, limit)),
    close: async () => release(),
  };
}
