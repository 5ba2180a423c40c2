/** The members of a node-redis client (`createClient`) that are used. */
interface NodeRedisClient {
  // biome-ignore lint/suspicious/noExplicitAny: drivers' own types are generic over everything, and replies are checked here
  sendCommand(args: any, options?: any): Promise<any>;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  duplicate(): any;
}

/** The members of an ioredis client (`new Redis`) that are used. */
interface IoRedisClient {
  call(command: string, ...args: string[]): Promise<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  duplicate(): any;
}

/** A client of one Redis server, of node-redis or ioredis. */
export type RedisClient = NodeRedisClient | IoRedisClient;

export interface RedisSender {
  send(command: readonly string[]): Promise<unknown>;
  /** A sender on a separate connection, for blocking commands. */
  duplicate(onError: (error: unknown) => void): Promise<RedisSender & { destroy(): void }>;
}

export function senderOf(client: RedisClient): RedisSender {
  return "call" in client ? ofIoRedis(client) : ofNodeRedis(client);
}

function ofNodeRedis(client: NodeRedisClient): RedisSender {
  return {
    // Overrides the client's type mapping, so that replies have the default types.
    send: (command) => client.sendCommand(command, { typeMapping: {} }),
    async duplicate(onError) {
      const copy = client.duplicate();
      copy.on("error", onError);
      await copy.connect();
      return { ...ofNodeRedis(copy), destroy: () => copy.destroy() };
    },
  };
}

function ofIoRedis(client: IoRedisClient): RedisSender {
  return {
    send: ([name = "", ...args]) => client.call(name, ...args),
    async duplicate(onError) {
      const copy = client.duplicate();
      copy.on("error", onError);
      return { ...ofIoRedis(copy), destroy: () => copy.disconnect() };
    },
  };
}
