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

export interface RedisTarget extends ContractTarget {
  /** Ends the connection that belongs to nobody's store. */
  close(): Promise<void>;
}

export interface RedisTargetOptions {
  /** `redis://…`, `redis+cluster://…` or `redis+sentinel://…`. */
  readonly url: string;
  /** A client of the caller's own for all stores, instead of a connection for each. */
  readonly client?: RedisClient;
  /** The driver that is otherwise only used where the other one is missing. */
  readonly driver?: "ioredis";
}

let created = 0;

/** The Redis store, each ledger under a prefix of its own. What a ledger leaves behind is removed with it. */
export async function redisTarget({ url, client, driver }: RedisTargetOptions): Promise<RedisTarget> {
  // Connections of ours do not keep a process alive, and what is asked here has no timer that does.
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
      // Its connections carry its name, so that one case can lose them without its neighbours.
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
    // One by one: on a Cluster a command has keys of one slot.
    await Promise.all(keys.map((key) => server.send(["UNLINK", key])));
    cursor = next;
  } while (cursor !== "0");
}
