import { Redis } from "ioredis";
import { consume, type RedisStreamsOptions } from "onceflow/inbox/redis-streams";
import { createClient } from "redis";
import type { Broker } from "./broker-queue.js";

type Client = RedisStreamsOptions["client"];

interface Connected {
  readonly client: Client;
  /** The same client, except that its extensions of entries in progress are lost. */
  readonly silent: Client;
  close(): void;
}

/** Redis streams with either driver and both versions of the protocol. */
export function redisStreams(driver: "redis" | "ioredis"): Broker {
  return {
    name: driver === "redis" ? "nodeRedis" : "ioRedis",
    title: driver === "redis" ? "Redis Streams by redis, RESP 3" : "Redis Streams by ioredis",
    server: "redis",
    poisonings: [driver === "redis" ? { death: "exception", consumers: 3 } : { death: "exit", consumers: 1 }],
    async open(url, stream, claimAfterMs) {
      const observer = new Redis(url, { retryStrategy: () => 50 });
      observer.on("error", () => {});
      const { client, silent: deaf, close } = driver === "redis" ? await nodeRedis(url) : ioRedis(url);
      return {
        patienceMs: claimAfterMs,
        send: async (messages) => {
          for (const { body } of messages) await observer.xadd(stream, "*", "data", body);
        },
        consume: (options, { silent = false } = {}) =>
          consume({ ...options, client: silent ? deaf : client, stream, group: "group", field: "data", claimAfterMs }),
        left: async () => {
          const [group] = (await observer.xinfo("GROUPS", stream)) as [unknown[]];
          const at = (name: string) => Number(group[group.indexOf(name) + 1]);
          return at("lag") + at("pending");
        },
        close: async () => {
          observer.disconnect();
          close();
        },
      };
    },
  };
}

async function nodeRedis(url: string): Promise<Connected> {
  const client = createClient({ url, RESP: 3, socket: { reconnectStrategy: 50 } });
  client.on("error", () => {});
  await client.connect();
  const send = async (command: string[], options?: object) => (command[0] === "XCLAIM" ? [] : await client.sendCommand(command, options));
  const silent = { sendCommand: send, duplicate: () => client.duplicate() };
  return { client, silent, close: () => client.destroy() };
}

function ioRedis(url: string): Connected {
  const client = new Redis(url, { retryStrategy: () => 50 });
  client.on("error", () => {});
  const call = async (command: string, ...args: string[]) => (command === "XCLAIM" ? [] : await client.call(command, ...args));
  return { client, silent: { call, duplicate: () => client.duplicate() }, close: () => client.disconnect() };
}
