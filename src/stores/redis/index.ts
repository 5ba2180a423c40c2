import { Worker } from "node:worker_threads";
import { InvalidInputError } from "../../core/errors/errors.js";
import { createStore } from "../../core/store/create-store.js";
import type { Backend, Store } from "../../core/store/store.js";
import type { StoreOptions } from "../../core/store/store-options.js";
import { startHeartbeatThread } from "../heartbeat/heartbeat-thread.js";
import { type OpenOptions, refuseConnectMs } from "../open-options.js";
import { type RedisBackendOptions, redisBackend } from "./backend.js";
import { connect } from "./connection/connect.js";
import { Connection } from "./connection/connection.js";
import { duplicating } from "./connection/duplicate.js";
import { linkOf, type RedisClient } from "./connection/link.js";
import { type Driver, loadDriver } from "./driver.js";
import { defaultPrefix } from "./layout.js";
import { parseRedisUrl, settingsOf } from "./url.js";

export async function openUrl(url: string, options: OpenOptions): Promise<Backend> {
  refuseConnectMs(url, options);
  const { stallMsMax } = options;
  return await openRedis({ url, ...(stallMsMax === undefined ? {} : { stallMsMax }) });
}

export interface RedisOptions {
  readonly url: string;
  readonly stallMsMax?: number;
  /** False: this process has already checked the servers. */
  readonly check?: boolean;
  readonly driver?: Driver;
}

/** Opens a store with one connection: to a server, or to each member of a Cluster. */
export async function openRedis({ url, stallMsMax, check = true, driver }: RedisOptions): Promise<Backend> {
  const address = parseRedisUrl(url);
  const using = driver ?? (await loadDriver());
  const connection = new Connection({ connect: () => connect(using, address) });
  return await redisBackend(connection, {
    ...settingsOf(address),
    check,
    standIn: () =>
      startHeartbeatThread({
        store: "redis",
        start: (options) => new Worker(new URL("./heartbeat.js", import.meta.url), options),
        address: url,
        stallMsMax,
      }),
  });
}

/** Options of {@link redisStore}. */
export interface RedisStoreOptions extends RedisBackendOptions, StoreOptions {
  /** A connected client: `createClient` or `createCluster` of node-redis, `Redis` or `Cluster` of ioredis. */
  readonly client: RedisClient;
}

/**
 * Opens a store on your own Redis client. Closing the store does not close the client. Leases are not renewed while the event loop
 * is blocked, because a thread cannot share your client; open the store by its URL for that. If the client does not answer for 5 s,
 * the store stops using it and opens its own connections with the client's settings.
 *
 * @throws InvalidInputError if the client or an option is not valid; ConfigurationError if the server is too old, is a replica or
 * lacks a permission.
 * @example
 * const store = await redisStore({ client: await createClient().connect() });
 */
export async function redisStore({ client, ...options }: RedisStoreOptions): Promise<Store> {
  if (typeof client !== "object" || client === null || !("sendCommand" in client || "call" in client))
    throw new InvalidInputError("client", "must be a client or cluster of the packages redis or ioredis");
  if ("getSentinelNode" in client || "acquire" in client)
    throw new InvalidInputError("client", "must not be a sentinel client or a pool; open redis+sentinel:// instead");
  checkKeyPrefix(client, options.prefix ?? defaultPrefix);
  const connect = duplicating(client);
  const connection = new Connection({ borrowed: linkOf(client), ...(connect === undefined ? {} : { connect }) });
  return createStore(await redisBackend(connection, { ...options, check: true }), options);
}

/**
 * ioredis prepends its `keyPrefix` to the names of our keys. Scripts find the shard of a key by its first "}:", which would be in a
 * prefix such as "{app}:": the indexes would get names that listings and purges do not read.
 */
function checkKeyPrefix(client: RedisClient, prefix: string): void {
  const { options } = client as { readonly options?: { readonly keyPrefix?: unknown } };
  const keyPrefix = String(options?.keyPrefix ?? "");
  if (!`${keyPrefix}${prefix}`.includes("}:")) return;
  throw new InvalidInputError(
    "client",
    `has the keyPrefix ${JSON.stringify(keyPrefix)}: if it contains "}:", records cannot be listed or purged. Use a client without a keyPrefix, or with one without braces. Records under the old keyPrefix are not found under another`,
  );
}
