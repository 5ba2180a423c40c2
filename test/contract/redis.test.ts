import { Redis } from "ioredis";
import { type RedisTarget, redisTarget } from "onceflow/testing";
import { createClient } from "redis";
import { afterAll, beforeAll, inject } from "vitest";
import { describeContract, scriptVerbs } from "./redis-contract.js";

const server = inject("redis");
const targets: Record<string, RedisTarget> = {};
const endings: (() => unknown)[] = [];

beforeAll(async () => {
  if (!server.ok) return;
  const { url } = server;
  const nodeRedis = createClient({ url });
  nodeRedis.on("error", () => {});
  await nodeRedis.connect();
  const ioRedis = new Redis(url);
  targets["url"] = await redisTarget({ url });
  targets["ioredis"] = await redisTarget({ url, driver: "ioredis" });
  targets["node-redis client"] = await redisTarget({ url, client: nodeRedis });
  targets["ioredis client"] = await redisTarget({ url, client: ioRedis });
  endings.push(
    ...Object.values(targets).map(({ close }) => close),
    () => nodeRedis.close(),
    () => ioRedis.quit(),
  );
});

afterAll(async () => {
  for (const end of endings) await end();
});

describeContract("ledger, Redis by its URL", () => targets["url"]);
describeContract("ledger, Redis by its URL with ioredis", () => targets["ioredis"], [...scriptVerbs, "renew", "resend"]);
describeContract("ledger, Redis with a node-redis client", () => targets["node-redis client"], scriptVerbs);
describeContract("ledger, Redis with an ioredis client", () => targets["ioredis client"], scriptVerbs);
