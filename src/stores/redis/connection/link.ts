/** What the store needs from a driver: one connection, or the connections to the members of a Cluster. */
export interface RedisLink {
  readonly cluster: boolean;
  /** Whether a command would be sent now, without waiting for a connection. */
  ready(): boolean;
  /** Sends a command to the server that has `key`. Commands sent in one turn of the event loop share a round trip. */
  send(command: readonly string[], key: string): Promise<unknown>;
  /** The masters: all of them, or those with an open connection. */
  servers(which: "all" | "connected"): Promise<readonly RedisServer[]>;
  close(): Promise<void>;
  /** Closes the connection at once, without waiting for commands in progress. */
  destroy(): void;
}

/** One server and its connection. */
export interface RedisServer {
  /** The driver's client: the same object as long as it is the same connection. */
  readonly client: object;
  send(command: readonly string[]): Promise<unknown>;
}

/** The part of a node-redis client (`createClient`) that is used. */
interface NodeRedisClient {
  readonly isReady: boolean;
  // biome-ignore lint/suspicious/noExplicitAny: drivers' own types are generic over everything, and replies are checked here
  sendCommand(args: any, options?: any): Promise<any>;
  close(): Promise<void>;
  destroy(): void;
  unref(): void;
}

/** The part of a node-redis cluster (`createCluster`) that is used. */
interface NodeRedisCluster {
  readonly isOpen: boolean;
  readonly masters: readonly unknown[];
  // biome-ignore lint/suspicious/noExplicitAny: as above
  nodeClient(node: any): any;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  sendCommand(firstKey: any, isReadonly: any, args: any, options?: any): Promise<any>;
  close(): Promise<unknown>;
  destroy(): void;
}

/** The part of an ioredis client (`new Redis`) that is used. */
interface IoRedisClient {
  readonly status: string;
  call(command: string, ...args: string[]): Promise<unknown>;
  quit(): Promise<unknown>;
  disconnect(): void;
}

/** The part of an ioredis cluster (`new Cluster`) that is used. */
export interface IoRedisCluster extends IoRedisClient {
  nodes(role?: "master"): readonly IoRedisClient[];
}

export type RedisClient = NodeRedisClient | NodeRedisCluster | IoRedisClient | IoRedisCluster;

/** Makes the client return plain replies, whatever type mapping it is configured with. */
const plain = { typeMapping: {} };

export function linkOf(client: RedisClient): RedisLink {
  if ("masters" in client) return nodeRedisCluster(client);
  if ("call" in client) return "nodes" in client ? ioRedisCluster(client) : ioRedis(client);
  return nodeRedis(client);
}

function nodeRedis(client: NodeRedisClient): RedisLink {
  return {
    cluster: false,
    ready: () => client.isReady,
    send: (command) => client.sendCommand(command, plain),
    servers: async () => [nodeRedisServer(client)],
    close: () => client.close(),
    destroy: () => client.destroy(),
  };
}

function nodeRedisServer(client: NodeRedisClient): RedisServer {
  return { client, send: (command) => client.sendCommand(command, plain) };
}

function nodeRedisCluster(cluster: NodeRedisCluster): RedisLink {
  return {
    cluster: true,
    // Notices a member whose connection was lost while idle, before a command is sent to it.
    ready: () => cluster.isOpen && cluster.masters.every((node) => (node as { client?: { isOpen: boolean } }).client?.isOpen !== false),
    send: (command, key) => cluster.sendCommand(key, false, command, plain),
    servers: (which) => {
      const nodes = cluster.masters.filter((node) => which === "all" || (node as { client?: unknown }).client !== undefined);
      return Promise.all(nodes.map(async (node) => nodeRedisServer((await cluster.nodeClient(node)) as NodeRedisClient)));
    },
    close: async () => void (await cluster.close()),
    destroy: () => cluster.destroy(),
  };
}

function ioRedis(client: IoRedisClient): RedisLink {
  const { send } = ioRedisServer(client);
  return {
    cluster: false,
    ready: () => client.status === "ready",
    send,
    servers: async () => [ioRedisServer(client)],
    close: async () => void (await client.quit()),
    destroy: () => client.disconnect(),
  };
}

function ioRedisServer(client: IoRedisClient): RedisServer {
  return { client, send: ([name = "", ...args]) => client.call(name, ...args) };
}

function ioRedisCluster(cluster: IoRedisCluster): RedisLink {
  return {
    ...ioRedis(cluster),
    cluster: true,
    ready: () => cluster.status === "ready" && cluster.nodes("master").every(({ status }) => status !== "end" && status !== "close"),
    servers: async () => cluster.nodes("master").map(ioRedisServer),
  };
}
