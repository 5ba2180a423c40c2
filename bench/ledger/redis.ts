import { open } from "onceflow";
import { createClient } from "redis";
import { acquire } from "../../test/servers/acquire.js";
import { versionOf } from "../conditions.js";
import type { Contender } from "../measure.js";
import { installPeer } from "../workflow/peers.js";
import { executes, freshKeys, ours, replays, result, settleAll, times } from "./ours.js";
import { RedisFloor } from "./redis-floor.js";
import { names, type ReplayWrites, type Subject } from "./subject.js";

/** All keys are in the memory of the server. */
const keysMax = 200_000;

interface PeerModule {
  open(url: string, result: unknown): Promise<{ work(key: string): Promise<unknown>; close(): Promise<unknown> }>;
}

/** A private server that acknowledges a write when it is on disk, for our store, the floor and the peer. */
export async function redisSubject(): Promise<Subject> {
  const acquired = await acquire("redis");
  if (!acquired.ok) throw new Error(`Redis is not available: ${acquired.reason}`);
  const { url, stop } = acquired.running;
  const client = createClient({ url });
  await client.connect();
  const info = async (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(await client.info())?.[1] ?? "";
  const { module, versions } = await installPeer("powertools");
  const powertools = (await import(module)) as PeerModule;
  let memoryBefore = 0;
  let prefixes = 0;
  const newUrl = () => {
    prefixes += 1;
    return `${url}?prefix=bench-${prefixes}`;
  };
  return {
    name: "redis",
    keysMax,
    conditions: {
      redis: `${await info("redis_version")}, appendonly yes, appendfsync always`,
      "redis driver": `redis ${versionOf("redis")}`,
      "redis peer": Object.entries(versions)
        .map(([name, version]) => `${name} ${version}`)
        .join(", "),
    },
    async emptyUrl() {
      await client.flushAll();
      memoryBefore = Number(await info("used_memory"));
      return newUrl();
    },
    async prepare({ kind }) {
      await client.flushAll();
      const store = await open(newUrl());
      const floor = new RedisFloor(url);
      await floor.open();
      const peer = await powertools.open(url, result);
      const keys = freshKeys("peer");
      const contender: Contender = { name: names.peer, work: () => peer.work(keys()) };
      return {
        contenders: [await ours(store, kind), ...(kind === "executed" ? [floor.bare(), contender] : [await floor.read()])],
        async close() {
          floor.close();
          await peer.close();
          await store.close();
        },
      };
    },
    countReplayWrites: async (count) => await countReplayWrites(newUrl(), count, info),
    storedBytes: async () => Number(await info("used_memory")) - memoryBefore,
    async close() {
      await client.close();
      await stop();
    },
  };
}

async function countReplayWrites(url: string, count: number, info: (name: string) => Promise<string>): Promise<ReplayWrites> {
  const store = await open(url);
  try {
    await settleAll(store);
    const counters = ["rdb_changes_since_last_save", "aof_current_size"];
    const read = () => Promise.all(counters.map(async (name) => Number(await info(name))));
    const before = await read();
    await times(count, 64, replays(store));
    const between = await read();
    await executes(store, freshKeys("control"))();
    const after = await read();
    const change = (from: readonly number[], to: readonly number[], i: number) => (to[i] ?? 0) - (from[i] ?? 0);
    return {
      replays: count,
      counters: counters.map((name, i) => ({ name, byReplays: change(before, between, i), byOneExecuted: change(between, after, i) })),
    };
  } finally {
    await store.close();
  }
}
