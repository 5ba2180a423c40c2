import { createStore } from "../../../core/store/create-store.js";
import type { Store } from "../../../core/store/store.js";
import type { StoreOptions } from "../../../core/store/store-options.js";
import { connect } from "../../../stores/redis/connection/connect.js";
import type { RedisClient, RedisServer } from "../../../stores/redis/connection/link.js";
import { loadDriver, loadIoRedis } from "../../../stores/redis/driver.js";
import { openRedis, redisStore } from "../../../stores/redis/index.js";
import { parseRedisUrl } from "../../../stores/redis/url.js";
import { openTarget } from "./open-target.js";
import type { ContractTarget } from "./target.js";

/** The Redis store as a target of the contract. */
export interface RedisTarget extends ContractTarget {
  /** Closes the target's own connection. */
  close(): Promise<void>;
}

/** Options of `redisTarget`. */
export interface RedisTargetOptions {
  /** `redis://…`, `redis+cluster://…` or `redis+sentinel://…`. */
  readonly url: string;
  /** A client that all stores share. Default: each store has its own connection. */
  readonly client?: RedisClient;
  /** `"ioredis"`: use this driver even though the default driver is installed. */
  readonly driver?: "ioredis";
}

let created = 0;

/**
 * Makes a contract target of the Redis store. Each ledger has its own key prefix, and its keys are removed afterwards.
 *
 * @throws When the driver is not installed or the server cannot be reached.
 */
export async function redisTarget({ url, client, driver }: RedisTargetOptions): Promise<RedisTarget> {
  // The store's connections do not keep the process alive while this target waits for an answer, so a timer does.
  const alive = setInterval(() => {}, 60_000);
  const own = await connect(await loadDriver(), parseRedisUrl(url));
  const servers = await own.servers("all");
  return {
    name: client === undefined ? "redis" : "redis with a client of the user's own",
    capabilities: { transactions: false, sharedClock: true, durable: true, runs: false, packets: false },
    severs: client === undefined,
    async create() {
      created += 1;
      const prefix = `contract-${process.pid}-${created}`;
      // Connections carry the ledger's name, so that one case can cut its own and no others.
      const at = `${url}${url.includes("?") ? "&" : "?"}prefix=${prefix}&name=${prefix}`;
      return {
        async open(options?: StoreOptions): Promise<Store> {
          if (client !== undefined) return await redisStore({ ...options, client, prefix });
          if (driver === undefined) return await openTarget(at, options);
          return createStore(await openRedis({ url: at, driver: await loadIoRedis(), stallMsMax: 0 }), options);
        },
        sever: async () => void (await Promise.all(servers.map((server) => severOn(server, prefix)))),
        remove: async () => void (await Promise.all(servers.map((server) => removeFrom(server, prefix)))),
      };
    },
    async close() {
      clearInterval(alive);
      await own.close();
    },
  };
}

async function severOn(server: RedisServer, name: string): Promise<void> {
  const clients = String(await server.send(["CLIENT", "LIST"])).split("\n");
  for (const line of clients.filter((one) => one.includes(` name=${name} `))) {
    const [, id = ""] = /^id=(\d+)/.exec(line) ?? [];
    await server.send(["CLIENT", "KILL", "ID", id]);
  }
}

async function removeFrom(server: RedisServer, prefix: string): Promise<void> {
  let cursor = "0";
  do {
    const [next, keys] = (await server.send(["SCAN", cursor, "MATCH", `${prefix}:*`, "COUNT", "1000"])) as [string, string[]];
    // One key per command: on a Cluster all keys of a command must be in one slot.
    await Promise.all(keys.map((key) => server.send(["UNLINK", key])));
    cursor = next;
  } while (cursor !== "0");
}
