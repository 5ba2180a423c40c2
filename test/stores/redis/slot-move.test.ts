import { crc32 } from "node:zlib";
import { Cluster } from "ioredis";
import { inspect, key, list, once, open, type Store } from "onceflow";
import { redisStore } from "onceflow/store";
import { createCluster } from "redis";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { duplicating } from "../../../src/stores/redis/connection/duplicate.js";
import type { RedisLink } from "../../../src/stores/redis/connection/link.js";
import { beginOf, completed, type Held, renewOf, settleOf } from "../../../src/testing/contract/ledger/operations.js";
import { takeTurns } from "../../kit/heavy.js";
import { poll } from "../../kit/poll.js";
import { type RedisCluster, startRedisCluster, urlOf } from "../../servers/redis/cluster.js";
import { redisProgram } from "../../servers/redis/redis.js";
import { ask, type RedisProcess } from "../../servers/redis/server.js";
import { beginSlotMove, shardOfSecond } from "../../servers/redis/slot.js";

takeTurns();

const long = "x".repeat(300);

/**
 * A Cluster moves a slot key by key. Every test moves some keys of one shard and then uses the shard: an operation that
 * needs keys of both nodes must wait, and no key may exist on both.
 */
describe.skipIf(!inject("redis").ok)("a Redis Cluster that moves a slot", () => {
  let cluster: RedisCluster;
  let shard: number;
  let names: readonly string[];
  let used = 0;
  let swapped = false;

  beforeAll(async () => {
    cluster = await startRedisCluster(await redisProgram(), { "min-replicas-to-write": "1" });
    shard = await shardOfSecond(cluster.members[1] as RedisProcess);
    names = Array.from({ length: 20_000 }, (_, i) => `key:${i}`).filter((name) => crc32(`\0${name}`) % 64 === shard);
  }, 60_000);
  afterAll(() => cluster?.stop());

  const nextName = () => names[used++] as string;
  const keyOf = (kind: "r" | "o" | "a" | "u", name: string) => `onceflow:{${shard}}:${kind}:\0${name}`;
  const indexOf = (index: "names" | "over") => `onceflow:{${shard}}:${index}`;

  /** Begins to move the slot to the third master; the next test moves it back to the second one. */
  async function move() {
    const [first, second, third] = cluster.members as [RedisProcess, RedisProcess, RedisProcess];
    const masters = swapped ? [first, third, second] : [first, second, third];
    swapped = !swapped;
    return await beginSlotMove(shard, masters);
  }

  async function opened(options: Parameters<typeof open>[1] = {}): Promise<Store> {
    const store = await open(cluster.url, { purgeEveryMs: 0, ...options });
    onTestFinished(() => store.close());
    return store;
  }

  async function held(store: Store, fields: Parameters<typeof beginOf>[0] = {}): Promise<Held> {
    const begin = beginOf({ key: nextName(), ...fields });
    expect(await store.commit({ ledger: begin })).toMatchObject({ kind: "started" });
    return { begin, attempt: 1 };
  }

  const settle = (store: Store, one: Held, value: unknown = "done") => store.commit({ ledger: settleOf(one, completed(value)) });

  const purgeUntil = (store: Store, isDone: () => Promise<boolean>) =>
    poll(
      10_000,
      async () => {
        await store.purge({ limit: 100 });
        return (await isDone()) || undefined;
      },
      () => "expired records were not purged",
    );

  test("a settle waits until the purge index has moved; renewals work meanwhile; afterwards all records are purged", async () => {
    const store = await opened();
    const first = await held(store, { retentionMs: 1 });
    await settle(store, first);
    const [early, late] = [await held(store, { retentionMs: 1 }), await held(store, { retentionMs: 1 })];
    const moving = await move();
    // If the index were written on the node that has the record by now, it would exist on both nodes: one half could not be moved, or would be lost.
    await moving.migrate(indexOf("names"), keyOf("r", early.begin.key));
    await expect(settle(store, early)).rejects.toThrow(/TRYAGAIN/);
    const renewals = await Promise.all([early, late].map((one) => store.commit({ ledger: renewOf(one) })));
    expect(renewals).toMatchObject([{ kind: "renewed" }, { kind: "renewed" }]);
    await moving.finish();
    expect(await settle(store, early)).toEqual({ kind: "settled" });
    expect(await settle(store, late)).toEqual({ kind: "settled" });
    const keys = [first, early, late].map(({ begin }) => begin.key);
    expect((await list(store)).items.map((item) => item.key).sort()).toEqual([...keys].sort());
    await purgeUntil(store, async () => (await list(store)).items.length === 0);
  });

  test("a long result on another node than its record: the key waits, and its result does not count as lost", async () => {
    const store = await opened();
    const name = nextName();
    await once(store, { key: key.of(name) }, () => long);
    const moving = await move();
    await moving.migrate(indexOf("names"), indexOf("over"), keyOf("r", name));
    await expect(store.commit({ ledger: beginOf({ key: name }) })).rejects.toThrow(/TRYAGAIN/);
    await expect(store.read({ scope: "", key: name })).rejects.toThrow(/TRYAGAIN/);
    await moving.finish();
    expect(await once(store, { key: key.of(name) }, () => "again")).toMatchObject({ status: "replayed", value: long });
    await store.commit({
      ledger: { verb: "resolve", scope: "", key: name, owner: "me", attempt: 1, to: { state: "free" }, note: null, erase: true },
    });
  });

  test("an attempt log on another node than its record: a new attempt waits, and the log is read from its node", async () => {
    const store = await opened({ audit: "all" });
    const name = nextName();
    for (const owner of ["first", "second"]) {
      const begin = beginOf({ key: name, owner });
      const answer = await store.commit({ ledger: begin });
      const attempt = answer.kind === "started" ? answer.attempt : 0;
      await store.commit({ ledger: settleOf({ begin, attempt }, { state: "free" }) });
    }
    const moving = await move();
    await moving.migrate(indexOf("names"), indexOf("over"), keyOf("r", name));
    await expect(store.commit({ ledger: beginOf({ key: name }) })).rejects.toThrow(/TRYAGAIN/);
    expect(await store.attempts({ scope: "", key: name, afterAttempt: 0, limit: 10 })).toMatchObject([{ attempt: 1 }]);
    await moving.finish();
    expect(await store.commit({ ledger: beginOf({ key: name }) })).toMatchObject({ kind: "started", attempt: 3 });
    expect((await inspect(store, { key: name }))?.attempts.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
  });

  test("the audit log of a key exists on one node only", async () => {
    const store = await opened({ audit: "all" });
    const one = await held(store);
    const entry = { scope: "", key: one.begin.key, owner: "me", answer: "running" as const, attempt: 1 };
    await store.commit({ ledger: beginOf({ key: one.begin.key }) });
    await expect.poll(async () => (await store.audited(entry, 10)).length).toBe(1);
    const moving = await move();
    await moving.migrate(keyOf("r", one.begin.key));
    expect(await store.audited(entry, 10)).toHaveLength(1);
    await moving.finish();
    expect(await store.audited(entry, 10)).toHaveLength(1);
    await settle(store, one);
  });

  test("a purge skips the shard until the move is over, and purges the other shards", async () => {
    const store = await opened();
    const one = await held(store, { retentionMs: 1 });
    await settle(store, one);
    const elsewhere = beginOf({ key: "elsewhere", retentionMs: 1 });
    await store.commit({ ledger: elsewhere });
    await settle(store, { begin: elsewhere, attempt: 1 });
    const moving = await move();
    await moving.migrate(keyOf("r", one.begin.key));
    await purgeUntil(store, async () => (await store.read(elsewhere)) === undefined);
    await moving.finish();
    await purgeUntil(store, async () => (await store.read(one.begin)) === undefined);
    for (const member of cluster.members.slice(0, 3)) {
      const left = (await ask(urlOf(member), "KEYS", `*${one.begin.key}`)) as string[];
      expect(left).toEqual([]);
    }
  });

  test("with a cluster client that the user passed, a settle waits for the index, too", async () => {
    const client = createCluster({ rootNodes: cluster.members.map((member) => ({ url: urlOf(member) })) });
    client.on("error", () => {});
    await client.connect();
    onTestFinished(() => client.destroy());
    const store = await redisStore({ client, purgeEveryMs: 0 });
    onTestFinished(() => store.close());
    const one = await held(store, { retentionMs: 1 });
    const moving = await move();
    await moving.migrate(indexOf("names"), keyOf("r", one.begin.key));
    await expect(settle(store, one)).rejects.toThrow(/TRYAGAIN/);
    expect(await store.commit({ ledger: renewOf(one) })).toMatchObject({ kind: "renewed" });
    await moving.finish();
    expect(await settle(store, one)).toEqual({ kind: "settled" });
  });

  test("a user who lacks a right on one master is refused", async () => {
    const [first, second, third] = cluster.members as [RedisProcess, RedisProcess, RedisProcess];
    for (const member of cluster.members)
      await ask(urlOf(member), "ACL", "SETUSER", "shop", "reset", "on", ">secret", "~*", "+@all", ...(member === third ? ["-zadd"] : []));
    const url = `redis+cluster://shop:secret@127.0.0.1:${first.port},127.0.0.1:${second.port}`;
    await expect(open(url)).rejects.toThrow(/may not run ZADD/);
  });

  test("the store can open its own connections from cluster clients, too", async () => {
    const nodeRedis = createCluster({ rootNodes: cluster.members.map((member) => ({ url: urlOf(member) })) });
    nodeRedis.on("error", () => {});
    await nodeRedis.connect();
    onTestFinished(() => nodeRedis.destroy());
    const ioRedis = new Cluster(cluster.members.map(({ port }) => ({ host: "127.0.0.1", port })));
    ioRedis.on("error", () => {});
    onTestFinished(() => ioRedis.disconnect());
    for (const client of [nodeRedis, ioRedis] as const) {
      const link = await (duplicating(client) as () => Promise<RedisLink>)();
      onTestFinished(() => link.destroy());
      expect(link.cluster).toBe(true);
      for (const name of ["onceflow:{0}:x", "onceflow:{1}:x", "onceflow:{2}:x"]) expect(await link.send(["EXISTS", name], name)).toBe(0);
    }
  });
});
