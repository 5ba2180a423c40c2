import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConfigurationError, key, once, open } from "onceflow";
import { redisStore } from "onceflow/store";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test, vi } from "vitest";
import { type Guard, startGuard } from "../../servers/process/guard.js";
import { urlOf } from "../../servers/redis/cluster.js";
import { redisProgram } from "../../servers/redis/redis.js";
import { replicates } from "../../servers/redis/sentinel.js";
import { ask, type RedisProcess, startRedisProcess } from "../../servers/redis/server.js";

/** Settings that break the durability promise are found when a store is opened. The tests use their own server, because they change its settings. */
describe.skipIf(!inject("redis").ok)("a Redis server whose settings may lose acknowledged writes", () => {
  let guard: Guard;
  let server: RedisProcess;
  let url: string;

  beforeAll(async () => {
    guard = await startGuard(join(tmpdir(), "onceflow-redis-check-"), "SIGKILL");
    server = await startRedisProcess(await redisProgram(), guard, {
      appendonly: "yes",
      appendfsync: "always",
      "repl-diskless-sync-delay": "0",
    });
    url = urlOf(server);
    await ask(url, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "-config", "-info");
  });
  afterAll(async () => {
    await server?.end();
    await guard?.release();
  });

  const good = { "maxmemory-policy": "noeviction", appendonly: "yes", appendfsync: "always", "min-replicas-to-write": "0" };
  const set = async (settings: Readonly<Record<string, string>>) => {
    for (const [name, value] of Object.entries(settings)) await ask(url, "CONFIG", "SET", name, value);
  };
  beforeEach(() => set(good));

  /** The codes of the warnings that opening the store emits. */
  async function warningsOf(at: string): Promise<string[]> {
    const emit = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    try {
      await (await open(at)).close();
      return emit.mock.calls.map(([, options]) => (options as { code: string }).code);
    } finally {
      emit.mockRestore();
    }
  }

  test("gives no warning if its settings are safe", async () => {
    expect(await warningsOf(url)).toEqual([]);
    expect(await warningsOf(`${url}?strict=true`)).toEqual([]);
  });

  test.each([
    [{ "maxmemory-policy": "allkeys-lru" }, "ONCEFLOW_REDIS_EVICTION"],
    [{ "maxmemory-policy": "allkeys-random" }, "ONCEFLOW_REDIS_EVICTION"],
    [{ appendonly: "no" }, "ONCEFLOW_REDIS_FSYNC"],
    [{ appendfsync: "everysec" }, "ONCEFLOW_REDIS_FSYNC"],
    [{ appendfsync: "no" }, "ONCEFLOW_REDIS_FSYNC"],
  ])("%j is a warning, and an error with strict=true", async (settings, code) => {
    await set(settings);
    expect(await warningsOf(url)).toEqual([code]);
    const [value = ""] = Object.values(settings);
    const error = await open(`${url}?strict=true`).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ConfigurationError);
    expect(error).toMatchObject({
      code: "REDIS_WEAK",
      message: expect.stringContaining(value === "no" && "appendonly" in settings ? "off" : value),
    });
  });

  test("a policy that evicts only keys with a TTL is harmless: onceflow sets none", async () => {
    await set({ "maxmemory-policy": "volatile-lru" });
    expect(await warningsOf(`${url}?prefix=harmless`)).toEqual([]);
    const store = await open(`${url}?prefix=harmless`);
    onTestFinished(() => store.close());
    await once(store, { key: key.of("kept"), retentionMs: 1000 }, () => "x".repeat(1000));
    const keys = (await ask(url, "KEYS", "harmless:*")) as string[];
    expect(keys.length).toBeGreaterThan(3);
    for (const name of keys) expect(await ask(url, "PTTL", name)).toBe(-1);
  });

  test("settings that the user may not read produce a warning that they were not checked", async () => {
    const limited = url.replace("redis://", "redis://limited:secret@");
    expect(await warningsOf(limited)).toEqual(["ONCEFLOW_REDIS_UNCHECKED"]);
    const error = await open(`${limited}?strict=true`).catch((e: unknown) => e);
    expect(String(error)).toMatch(/INFO and CONFIG GET may not be called/);
    expect(String(error)).not.toContain("secret");
  });

  test("replicas that writes do not wait for produce a warning, and a replica itself is refused", async () => {
    const replica = await startRedisProcess(await redisProgram(), guard, { replicaof: `127.0.0.1 ${server.port}` });
    onTestFinished(() => replica.end());
    await replicates(server);
    expect(await warningsOf(url)).toEqual(["ONCEFLOW_REDIS_REPLICAS"]);
    expect(await warningsOf(`${url}?waitReplicas=1`)).toEqual([]);
    await set({ "min-replicas-to-write": "1" });
    expect(await warningsOf(url)).toEqual([]);
    await expect(open(urlOf(replica))).rejects.toMatchObject({ code: "REDIS_REPLICA" });
  });

  test("a full server counts as unreachable for new keys, and works again when it has memory", async () => {
    const store = await open(`${url}?prefix=full`);
    onTestFinished(() => store.close());
    await once(store, { key: key.of("before") }, () => 1);
    await set({ maxmemory: "1" });
    const begin = { verb: "begin", scope: "", key: "full", owner: "me", fingerprint: null, effect: "keyed", leaseMs: 1000 } as const;
    const terms = { retentionMs: 1000, horizonMs: 0, reconcileAfterMs: 0, over: null, progress: null };
    await expect(store.commit({ ledger: { ...begin, ...terms } })).rejects.toMatchObject({ code: "STORE_UNREACHABLE" });
    expect((await once(store, { key: key.of("before") }, () => 2)).status).toBe("replayed");
    await set({ maxmemory: "0" });
    expect(await store.commit({ ledger: { ...begin, ...terms } })).toMatchObject({ kind: "started" });
  });

  test("data in the layout of a newer version is not changed", async () => {
    await ask(url, "SET", "newer:layout", "2");
    await expect(open(`${url}?prefix=newer`)).rejects.toMatchObject({ code: "SCHEMA_NEWER" });
  });

  test("a Redis key that another program overwrote fails alone", async () => {
    const store = await open(`${url}?prefix=taken`);
    onTestFinished(() => store.close());
    await once(store, { key: key.of("mine") }, () => 1);
    const [name = ""] = (await ask(url, "KEYS", "taken:*:r:*mine")) as string[];
    await ask(url, "DEL", name);
    await ask(url, "SET", name, "not a record");
    const results = await Promise.allSettled(["mine", "a", "b", "c"].map((each) => once(store, { key: key.of(each) }, () => each)));
    expect(results.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled", "fulfilled"]);
    expect((results[0] as PromiseRejectedResult).reason).toMatchObject({ code: "STORE_REFUSED" });
  });
});

test("a Redis server that is too old is refused", async () => {
  const replies: Readonly<Record<string, unknown>> = { INFO: "redis_version:6.0.16\r\nrole:master\r\n", CONFIG: [], GET: "1", SET: null };
  const client = { isReady: true, sendCommand: async ([name]: [string]) => replies[name], close: async () => {}, destroy() {}, unref() {} };
  await expect(redisStore({ client })).rejects.toMatchObject({ code: "REDIS_VERSION" });
});
