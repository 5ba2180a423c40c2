import { Worker } from "node:worker_threads";
import { InvalidInputError } from "../../core/errors/errors.js";
import { createStore } from "../../core/store/create-store.js";
import type { Backend, Store } from "../../core/store/store.js";
import type { StoreOptions } from "../../core/store/store-options.js";
import { startHeartbeatThread } from "../heartbeat/heartbeat-thread.js";
import { type OpenOptions, refuseConnectMs } from "../open-options.js";
import type { MongoBackendOptions } from "./backend.js";
import { ownClient } from "./connection/client.js";
import { parseMongoUrl } from "./url.js";

export async function openUrl(url: string, options: OpenOptions): Promise<Backend> {
  refuseConnectMs(url, options);
  const { stallMsMax } = options;
  return await openMongo({ url, ...(stallMsMax === undefined ? {} : { stallMsMax }) });
}

export interface MongoOptions {
  readonly url: string;
  /** How long a process with a blocked event loop keeps its leases. */
  readonly stallMsMax?: number;
  readonly check?: boolean;
}

/** Opens a store on MongoDB 5 or newer by its URL, with its own client, which `close` closes. */
export async function openMongo({ url, stallMsMax, check = true }: MongoOptions): Promise<Backend> {
  const { address, ...named } = parseMongoUrl(url);
  const { mongoBackend } = await import("./backend.js");
  const client = await ownClient(address);
  try {
    const backend = await mongoBackend({ client, ...named, check });
    return {
      ...backend,
      standIn: () =>
        startHeartbeatThread({
          store: "mongodb",
          start: (options) => new Worker(new URL("./heartbeat.js", import.meta.url), options),
          address: url,
          stallMsMax,
        }),
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

/** A `MongoClient` of the package mongodb. Structural, so that the types of this package do not need those of mongodb. */
export interface MongoClientLike {
  db(name?: string): object;
  startSession(): object;
}

/** Options of {@link mongoStore}. */
export interface MongoStoreOptions extends StoreOptions {
  readonly client: MongoClientLike;
  /** Default: the database of the client's URL. */
  readonly database?: string;
  /** Prefix of the store's collections. Default `onceflow`. */
  readonly prefix?: string;
}

/**
 * Opens a store on your own MongoClient. Closing the store does not close the client. Leases are not renewed while the event loop is
 * blocked, because a thread cannot share your client; open the store by its URL for that.
 *
 * @throws InvalidInputError if the client or an option is not valid; ConfigurationError if the server is too old or lacks a permission.
 * @example
 * const store = await mongoStore({ client: new MongoClient("mongodb://localhost/shop"), database: "shop" });
 */
export async function mongoStore({ client, database, prefix, ...options }: MongoStoreOptions): Promise<Store> {
  if (typeof client !== "object" || client === null || typeof client.db !== "function" || typeof client.startSession !== "function")
    throw new InvalidInputError("client", "must be a MongoClient of the package mongodb");
  const { mongoBackend } = await import("./backend.js");
  const named = { ...(database === undefined ? {} : { database }), ...(prefix === undefined ? {} : { prefix }) };
  return createStore(await mongoBackend({ client: client as MongoBackendOptions["client"], ...named }), options);
}
