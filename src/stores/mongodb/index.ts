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
  /** How long a stuck process keeps its leases. */
  readonly stallMsMax?: number;
  readonly check?: boolean;
}

/** MongoDB 5 and newer, by its URL: the client is ours, and so is its end. */
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

/** A `MongoClient` of the package mongodb. Named by what is asked of it, so that its types are not needed to read ours. */
export interface MongoClientLike {
  db(name?: string): object;
  startSession(): object;
}

export interface MongoStoreOptions extends StoreOptions {
  readonly client: MongoClientLike;
  /** Default: the one that the client was made with. */
  readonly database?: string;
  /** What the names of the store's collections begin with. Default `onceflow`. */
  readonly prefix?: string;
}

/**
 * A store on a MongoClient of your own, which stays yours: closing the store does not close it. Nobody renews leases
 * while the event loop is stuck, because a thread cannot share your client; open the store by its URL for that.
 *
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
