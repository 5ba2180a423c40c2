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
  /** How long a process with a blocked event loop keeps its leases. */
  readonly stallMsMax?: number;
  /** False: this process has already checked the table. */
  readonly check?: boolean;
}

/** Opens a store by its URL, with its own client. */
export async function openDynamo({ url, stallMsMax, check = true }: DynamoOptions): Promise<Backend> {
  const { table, create, ...settings } = parseDynamoUrl(url);
  const sdk = await loadDriver();
  const client = ownClient(sdk, settings);
  try {
    const backend = await dynamoBackend(sdk, { client, table, create, ...settings }, check);
    return {
      ...backend,
      // The thread opens the table without checking it.
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

/** Options of {@link dynamoStore}. */
export interface DynamoStoreOptions extends StoreOptions, DynamoBackendOptions {}

/**
 * Opens a store on a DynamoDB table with your own client. Closing the store does not close the client. Leases are not renewed while
 * the event loop is blocked; open the store by its URL for that.
 *
 * @throws InvalidInputError if the client or an option is not valid; ConfigurationError if the table does not exist or has another key.
 * @example
 * const store = await dynamoStore({ client: new DynamoDBClient({ region: "eu-central-1" }), table: "operations" });
 */
export async function dynamoStore(options: DynamoStoreOptions): Promise<Store> {
  if (typeof options?.client?.send !== "function") throw new InvalidInputError("client", "must be a DynamoDBClient");
  checkTable("table", options.table);
  return createStore(await dynamoBackend(await loadDriver(), options), options);
}
