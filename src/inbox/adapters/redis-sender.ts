/** The part of a node-redis client (`createClient`) that is used. */
interface NodeRedisClient {
  // biome-ignore lint/suspicious/noExplicitAny: drivers' own types are generic over everything, and replies are checked here
  sendCommand(args: any, options?: any): Promise<any>;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  duplicate(): any;
}

/** The part of an ioredis client (`new Redis`) that is used. */
interface IoRedisClient {
  call(command: string, ...args: string[]): Promise<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: as above
  duplicate(): any;
}

/** One server, by either driver. */
export type RedisClient = NodeRedisClient | IoRedisClient;

export interface RedisSender {
  send(command: readonly string[]): Promise<unknown>;
  /** The same on a connection of its own, which may be kept waiting. */
  duplicate(onError: (error: unknown) => void): Promise<RedisSender & { destroy(): void }>;
}

export function senderOf(client: RedisClient): RedisSender {
  return "call" in client ? ofIoRedis(client) : ofNodeRedis(client);
}

function ofNodeRedis(client: NodeRedisClient): RedisSender {
  return {
    // Replies as we know them, whatever the client was told to make of them.
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
