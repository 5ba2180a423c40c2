import { ConfigurationError } from "../../core/errors/errors.js";
import { type IoRedisCluster, linkOf, type RedisLink } from "./connection/link.js";
import type { Host, RedisAddress } from "./url.js";

/**
 * How a driver connects to one server or to a Cluster. A link ends with its connection, so that the driver does not send a command
 * twice.
 */
export interface Driver {
  one(host: Host, login: Login): Promise<RedisLink>;
  cluster(hosts: readonly Host[], login: Login): Promise<RedisLink>;
}

/** Credentials and client name of a connection. */
export type Login = Pick<RedisAddress, "tls" | "username" | "password" | "database"> & { readonly name: string };

const connectTimeout = 5000;

/** Loads node-redis, or ioredis if only that is installed. Throws ConfigurationError if neither is. */
export async function loadDriver(): Promise<Driver> {
  try {
    return nodeRedis(await import("redis"));
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  return await loadIoRedis();
}

/** Exported for tests, which have both drivers installed. */
export async function loadIoRedis(): Promise<Driver> {
  try {
    return ioRedis(await import("ioredis"));
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw new ConfigurationError('[onceflow] [redis] neither "redis" nor "ioredis" is installed: npm install redis', {
      code: "MISSING_DRIVER",
      cause: error,
    });
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND";
}

function nodeRedis({ createClient, createCluster }: typeof import("redis")): Driver {
  const optionsOf = ({ tls, username, password, database, name }: Login) => ({
    socket: { connectTimeout, reconnectStrategy: false as const, ...(tls ? { tls: true as const } : {}) },
    disableOfflineQueue: true,
    name,
    database,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
  });
  return {
    async one(host, login) {
      const { socket, ...options } = optionsOf(login);
      const client = createClient({ ...options, socket: { ...socket, ...host } });
      // Commands in progress reject by themselves.
      client.on("error", () => {});
      client.unref();
      await client.connect();
      return linkOf(client);
    },
    async cluster(hosts, login) {
      const { socket, database: _, ...defaults } = optionsOf(login);
      const cluster = createCluster({
        rootNodes: hosts.map((host) => ({ socket: { ...socket, ...host } })),
        defaults: { ...defaults, socket },
        // Connect to a member only when it is needed: one that is down then concerns its own slots only.
        minimizeConnections: true,
      });
      cluster.on("error", () => {});
      // Connections are opened when they are needed, so each is unreferenced when it is ready.
      cluster.on("node-ready", () => {
        for (const { client } of cluster.masters) client?.unref();
      });
      await cluster.connect();
      return linkOf(cluster);
    },
  };
}

function ioRedis({ Redis, Cluster }: Pick<typeof import("ioredis"), "Redis" | "Cluster">): Driver {
  const optionsOf = ({ tls, username, password, database, name }: Login) => ({
    connectTimeout,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    connectionName: name,
    db: database,
    ...(tls ? { tls: {} } : {}),
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
  });
  return {
    async one(host, login) {
      const client = new Redis({ ...optionsOf(login), ...host, lazyConnect: true, enableOfflineQueue: false, retryStrategy: () => null });
      client.on("error", () => {});
      await client.connect();
      unref(client);
      return linkOf(client);
    },
    async cluster(hosts, login) {
      const { db: _, ...redisOptions } = optionsOf(login);
      const cluster = new Cluster([...hosts], {
        lazyConnect: true,
        redisOptions,
        enableOfflineQueue: false,
        clusterRetryStrategy: () => null,
      });
      cluster.on("error", () => {});
      cluster.on("+node", (node: { on(event: "ready", ready: () => void): void }) => node.on("ready", () => unref(node)));
      await cluster.connect();
      return linkOf(cluster as unknown as IoRedisCluster);
    },
  };
}

/** ioredis has no `unref` method. */
function unref(client: object): void {
  (client as { stream?: { unref?(): void } }).stream?.unref?.();
}
