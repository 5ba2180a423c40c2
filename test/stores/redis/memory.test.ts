import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect, key, once, open, type Store } from "onceflow";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { beginOf, renewOf } from "../../../src/testing/contract/ledger/operations.js";
import { poll } from "../../kit/poll.js";
import { type Guard, startGuard } from "../../servers/process/guard.js";
import { urlOf } from "../../servers/redis/cluster.js";
import { redisProgram } from "../../servers/redis/redis.js";
import { type RedisProcess, startRedisProcess } from "../../servers/redis/server.js";

const hourMs = 3_600_000;

describe.skipIf(!inject("redis").ok)("a Redis server at its maxmemory", () => {
  let guard: Guard;
  let server: RedisProcess;
  let url: string;
  let admin: ReturnType<typeof createClient>;

  beforeAll(async () => {
    guard = await startGuard(join(tmpdir(), "onceflow-redis-memory-"), "SIGKILL");
    server = await startRedisProcess(await redisProgram(), guard, {
      appendonly: "yes",
      appendfsync: "always",
      "maxmemory-policy": "noeviction",
    });
    url = urlOf(server);
    admin = createClient({ url });
    admin.on("error", () => {});
    await admin.connect();
  });
  afterAll(async () => {
    admin?.destroy();
    await server?.end();
    await guard?.release();
  });

  const setMaxmemory = (value: string) => admin.sendCommand(["CONFIG", "SET", "maxmemory", value]);

  async function openUnlimited(prefix: string): Promise<Store> {
    await setMaxmemory("0");
    const store = await open(`${url}?prefix=${prefix}`, { purgeEveryMs: 0 });
    onTestFinished(() => store.close());
    return store;
  }

  /** Waits until the server's clock, which decides about expiry, has passed the retention of 1 ms. */
  async function untilExpired(store: Store, name: string): Promise<void> {
    await poll(
      10_000,
      async () => {
        const reading = await store.read({ scope: "", key: name });
        return reading !== undefined && reading.now > (reading.record.expiresAt ?? 0) ? true : undefined;
      },
      () => "the record did not expire",
    );
  }

  test.each([
    ["short results, the horizon still open", { result: "paid", horizonMs: hourMs }],
    ["long results, the horizon still open", { result: "x".repeat(200), horizonMs: hourMs }],
    ["records past their horizon", { result: "paid", horizonMs: 0 }],
  ])("purges %s, and accepts new keys again", async (title, { result, horizonMs }) => {
    const store = await openUnlimited(`full-${title.length}`);
    const names = Array.from({ length: 300 }, (_, i) => `over:${i}`);
    await Promise.all(names.map((name) => once(store, { key: key.of(name), retentionMs: 1, horizonMs }, () => result)));
    await untilExpired(store, names.at(-1) as string);
    await setMaxmemory("1");
    await expect(store.commit({ ledger: beginOf({ key: "refused" }) })).rejects.toThrow(/OOM/);
    expect(await store.purge({ limit: 1000 })).toBe(300);
    expect(await store.purge({ limit: 1000 })).toBe(0);
    const left = await inspect(store, { key: "over:0" });
    expect(left?.kept).toBe(horizonMs === 0 ? undefined : false);
    await setMaxmemory("0");
    expect(await store.commit({ ledger: beginOf({ key: "refused" }) })).toMatchObject({ kind: "started" });
  });

  test("a lease is renewed, while a begin in the same flush is refused", async () => {
    const store = await openUnlimited("renewed");
    const begin = beginOf({ key: "held" });
    await store.commit({ ledger: begin });
    await setMaxmemory("1");
    const renew = renewOf({ begin, attempt: 1 });
    const [renewed, refused] = await Promise.allSettled([
      store.commit({ ledger: renew }),
      store.commit({ ledger: beginOf({ key: "refused" }) }),
    ]);
    expect(renewed).toMatchObject({ status: "fulfilled", value: { kind: "renewed" } });
    expect(refused).toMatchObject({ status: "rejected", reason: { code: "STORE_UNREACHABLE" } });
  });

  test("a purge alone frees enough memory for new keys", async () => {
    const store = await openUnlimited("room");
    const names = Array.from({ length: 400 }, (_, i) => `over:${i}`);
    await Promise.all(names.map((name) => once(store, { key: key.of(name), retentionMs: 1, horizonMs: hourMs }, () => "y".repeat(60))));
    await Promise.all(
      names.map((name) => once(store, { key: key.of(`long-${name}`), retentionMs: 1, horizonMs: hourMs }, () => "y".repeat(2000))),
    );
    await untilExpired(store, `long-${names.at(-1)}`);
    const used = Number(/used_memory:(\d+)/.exec(String(await admin.sendCommand(["INFO", "memory"])))?.[1]);
    await setMaxmemory(String(used - 200_000));
    await expect(store.commit({ ledger: beginOf({ key: "new" }) })).rejects.toThrow(/OOM/);
    expect(await store.purge({ limit: 1000 })).toBe(800);
    expect(await store.commit({ ledger: beginOf({ key: "new" }) })).toMatchObject({ kind: "started" });
  });
});
