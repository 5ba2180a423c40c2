import { connectMsMax } from "./connection.js";
import { linkOf, type RedisClient, type RedisLink } from "./link.js";

/** What `duplicate` of every driver returns: another client with the same settings, not connected yet. */
type Duplicate = RedisClient & {
  connect(): Promise<unknown>;
  on(event: "error", handle: () => void): unknown;
  unref?(): void;
  readonly stream?: { unref?(): void };
};

/** As for links opened by URL, a link ends with its connection: no command waits in the driver's queue, and the driver sends none twice. */
const ioRedisOptions = {
  lazyConnect: true,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  retryStrategy: () => null,
  sentinelRetryStrategy: () => null,
};
const ioRedisClusterOptions = { lazyConnect: true, enableOfflineQueue: false, clusterRetryStrategy: () => null };

/** Returns a function that opens links with the settings of the user's client. Undefined: this client cannot be duplicated. */
export function duplicating(client: RedisClient): (() => Promise<RedisLink>) | undefined {
  if (!("duplicate" in client) || typeof client.duplicate !== "function") return undefined;
  const duplicate = client.duplicate.bind(client) as (...settings: unknown[]) => Duplicate;
  return async () => {
    if ("masters" in client) return await connected(duplicate({ minimizeConnections: true }));
    if ("call" in client) return await connected("nodes" in client ? duplicate([], ioRedisClusterOptions) : duplicate(ioRedisOptions));
    return await connected(duplicate({ disableOfflineQueue: true }));
  };
}

async function connected(own: Duplicate): Promise<RedisLink> {
  own.on("error", () => {});
  const link = linkOf(own);
  // With the user's settings the driver may retry without end.
  const timer = setTimeout(() => link.destroy(), connectMsMax);
  try {
    await own.connect();
  } catch (error) {
    link.destroy();
    throw error;
  } finally {
    clearTimeout(timer);
  }
  // The connection must not keep the process alive.
  if (own.unref === undefined) own.stream?.unref?.();
  else own.unref();
  return link;
}
