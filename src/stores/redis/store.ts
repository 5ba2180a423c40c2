import { createStore, type StoreOptions } from "../../core/create-store.js";
import { InvalidInputError } from "../../core/errors.js";
import type { Store } from "../../core/store.js";
import { type RedisBackendOptions, redisBackend } from "./backend.js";
import { Connection } from "./connection.js";
import { linkOf, type RedisClient } from "./link.js";

export interface RedisStoreOptions extends RedisBackendOptions, StoreOptions {
  /** A connected client: `createClient` or `createCluster` of node-redis, `Redis` or `Cluster` of ioredis. */
  readonly client: RedisClient;
}

/**
 * A store on a Redis client of your own, which stays yours: closing the store does not close it. Nobody renews leases
 * while the event loop is stuck, because a thread cannot share your client; open the store by its URL for that.
 *
 * @example
 * const store = await redisStore({ client: await createClient().connect() });
 */
export async function redisStore({ client, ...options }: RedisStoreOptions): Promise<Store> {
  if (typeof client !== "object" || client === null || !("sendCommand" in client || "call" in client))
    throw new InvalidInputError("client", "must be a client or cluster of the packages redis or ioredis");
  if ("getSentinelNode" in client || "acquire" in client)
    throw new InvalidInputError("client", "must not be a sentinel client or a pool; open redis+sentinel:// instead");
  const connection = new Connection({ connect: async () => linkOf(client), borrowed: true });
  return createStore(await redisBackend(connection, { ...options, check: true }), options);
}
