import { Worker } from "node:worker_threads";
import { InvalidInputError } from "../../core/errors/errors.js";
import { createStore } from "../../core/store/create-store.js";
import type { Backend, Store } from "../../core/store/store.js";
import type { StoreOptions } from "../../core/store/store-options.js";
import { startHeartbeatThread } from "../heartbeat/heartbeat-thread.js";
import { type OpenOptions, refuseConnectMs } from "../open-options.js";
import { dynamoBackend } from "./backend.js";
import { ownClient } from "./connection/client.js";
import { loadDriver } from "./driver.js";
import type { DynamoBackendOptions } from "./options.js";
import { checkTable, parseDynamoUrl } from "./url.js";

export async function openUrl(url: string, options: OpenOptions): Promise<Backend> {
  refuseConnectMs(url, options);
  const { stallMsMax } = options;
  return await openDynamo({ url, ...(stallMsMax === undefined ? {} : { stallMsMax }) });
}

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
    const backend = await dynamoBackend(sdk, { client, table, create, ...said }, check);
    return {
      ...backend,
      // It opens the table without looking at it.
      standIn: () =>
        startHeartbeatThread({
          store: "dynamodb",
          start: (options) => new Worker(new URL("./heartbeat.js", import.meta.url), options),
          address: withPartitionKey(url, backend.partitionKey),
          stallMsMax,
        }),
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

export interface DynamoStoreOptions extends StoreOptions, DynamoBackendOptions {}

/**
 * A store on a table, through a client of your own.
 *
 * @example
 * const store = await dynamoStore({ client: new DynamoDBClient({ region: "eu-central-1" }), table: "operations" });
 */
export async function dynamoStore(options: DynamoStoreOptions): Promise<Store> {
  if (typeof options?.client?.send !== "function") throw new InvalidInputError("client", "must be a DynamoDBClient");
  checkTable("table", options.table);
  return createStore(await dynamoBackend(await loadDriver(), options), options);
}
