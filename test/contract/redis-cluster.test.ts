import { Cluster } from "ioredis";
import { type RedisTarget, redisTarget } from "onceflow/testing";
import { createCluster } from "redis";
import { afterAll, beforeAll, inject } from "vitest";
import { startRedisCluster, urlOf } from "../servers/redis/cluster.js";
import { redisProgram } from "../servers/redis/redis.js";
import { allButRenew, describeContract, scriptVerbs } from "./redis-contract.js";

const server = inject("redis");
const targets: Record<string, RedisTarget> = {};
const endings: (() => unknown)[] = [];

beforeAll(async () => {
  if (!server.ok) return;
  // Replicas that writes wait for: without this every store would warn when it is opened.
  const { url, members, stop } = await startRedisCluster(await redisProgram(), { "min-replicas-to-write": "1" });
  endings.push(stop);
  const nodeRedis = createCluster({ rootNodes: members.map((member) => ({ url: urlOf(member) })) });
  nodeRedis.on("error", () => {});
  await nodeRedis.connect();
  const ioRedis = new Cluster(members.map(({ port }) => ({ host: "127.0.0.1", port })));
  targets["url"] = await redisTarget({ url });
  targets["ioredis"] = await redisTarget({ url, driver: "ioredis" });
  targets["node-redis cluster"] = await redisTarget({ url, client: nodeRedis });
  targets["ioredis cluster"] = await redisTarget({ url, client: ioRedis });
  endings.unshift(
    ...Object.values(targets).map(({ close }) => close),
    () => nodeRedis.close(),
    () => ioRedis.quit(),
  );
});

afterAll(async () => {
  for (const end of endings) await end();
});

// Most cases share one client: connecting to each member for every store would take longer than the cases.
describeContract("ledger, Redis Cluster of six, with a node-redis cluster", () => targets["node-redis cluster"], allButRenew);
describeContract("ledger, Redis Cluster of six, by its URL", () => targets["url"], ["open", "renew", "resend"]);
describeContract("ledger, Redis Cluster of six, by its URL with ioredis", () => targets["ioredis"], ["open", "begin"]);
describeContract("ledger, Redis Cluster of six, with an ioredis cluster", () => targets["ioredis cluster"], scriptVerbs);
