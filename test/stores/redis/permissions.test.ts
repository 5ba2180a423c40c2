import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { ConfigurationError, inspect, key, list, once, open } from "onceflow";
import { redisStore } from "onceflow/store";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test, vi } from "vitest";
import { type Guard, startGuard } from "../../servers/process/guard.js";
import { urlOf } from "../../servers/redis/cluster.js";
import { redisProgram } from "../../servers/redis/redis.js";
import { type RedisProcess, startRedisProcess } from "../../servers/redis/server.js";

/** What the reference page says a user needs. */
const commands = [
  ...["eval", "evalsha", "time", "exists", "get", "set", "del", "unlink"],
  ...["hmget", "hset", "hdel", "zadd", "zrem", "zcount", "zrangebyscore", "zrangebylex", "zremrangebyrank"],
  ...["rpush", "ltrim", "lrange"],
];
const watching = ["info", "config|get"];

describe.skipIf(!inject("redis").ok)("the rights of a Redis user", () => {
  let guard: Guard;
  let server: RedisProcess;
  let admin: ReturnType<typeof createClient>;

  beforeAll(async () => {
    guard = await startGuard(join(tmpdir(), "onceflow-redis-acl-"), "SIGKILL");
    server = await startRedisProcess(await redisProgram(), guard, { appendonly: "yes", appendfsync: "always" });
    admin = createClient({ url: urlOf(server) });
    admin.on("error", () => {});
    await admin.connect();
  });
  afterAll(async () => {
    admin?.destroy();
    await server?.end();
    await guard?.release();
  });

  /** The URL of a user with these rights and no others. */
  async function userWith(rights: readonly string[], keys = "~onceflow:*"): Promise<string> {
    await admin.sendCommand(["ACL", "SETUSER", "shop", "reset", "on", ">secret", keys, "-@all", ...rights.map((name) => `+${name}`)]);
    return `redis://shop:secret@127.0.0.1:${server.port}`;
  }
  const without = (...names: string[]) => [...commands, ...watching].filter((name) => !names.includes(name));

  test("those of the page are enough for everything, and nothing is left of the check", async () => {
    const url = await userWith(without());
    const emit = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    onTestFinished(() => emit.mockRestore());
    const store = await open(url, { audit: "all", purgeEveryMs: 0 });
    onTestFinished(() => store.close());
    expect(emit.mock.calls).toEqual([]);
    expect(await admin.sendCommand(["KEYS", "*"])).toEqual(["onceflow:layout"]);
    const charge = () => once(store, { key: key.of("charge"), retentionMs: "forever" }, () => "x".repeat(100));
    expect([(await charge()).status, (await charge()).status]).toEqual(["executed", "replayed"]);
    await once(store, { key: key.of("flaky") }, () => Promise.reject(new Error("no"))).catch(() => {});
    await once(store, { key: key.of("flaky") }, () => 1);
    expect((await inspect(store, { key: "flaky" }))?.attempts).toHaveLength(2);
    expect((await list(store, { state: "completed" })).items).toHaveLength(2);
    expect(await store.purge({ limit: 10 })).toBe(0);
  });

  test.each(commands)("without %s: refused at open, which names it", async (name) => {
    const error = await open(await userWith(without(name))).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ConfigurationError);
    expect(error).toMatchObject({ code: "REDIS_PERMISSION" });
    expect(String(error)).toContain(`may not run ${name.toUpperCase()} (ACL SETUSER … +${name})`);
    expect(String(error)).not.toContain("secret");
  });

  test("all that is missing is named at once", async () => {
    const url = await userWith(without("zadd", "hset", "unlink"));
    // What removes is tried first: what could not be removed again is not written.
    await expect(open(url)).rejects.toThrow(/may not run UNLINK/);
    await expect(open(await userWith(without("zadd", "hset")))).rejects.toThrow(/may not run HSET, ZADD/);
    expect(await admin.sendCommand(["KEYS", "*permissions*"])).toEqual([]);
  });

  test("other keys than ours", async () => {
    await expect(open(await userWith(without(), "~shop:*"))).rejects.toThrow(
      /may not read and write the keys onceflow:\* \(ACL SETUSER … ~onceflow:\*\)/,
    );
    await (await open(`${await userWith(without(), "~shop:*")}?prefix=shop`)).close();
  });

  test("WAIT is needed to wait for replicas, and only then", async () => {
    const url = await userWith(without());
    await expect(open(`${url}?waitReplicas=1`)).rejects.toThrow(/may not run WAIT/);
    await (await open(url)).close();
  });

  test("clients of the user's own: the same", async () => {
    const url = await userWith(without("zadd"));
    const nodeRedis = createClient({ url });
    nodeRedis.on("error", () => {});
    await nodeRedis.connect();
    onTestFinished(() => nodeRedis.destroy());
    await expect(redisStore({ client: nodeRedis })).rejects.toThrow(/may not run ZADD/);
    const ioRedis = new Redis(url);
    onTestFinished(() => ioRedis.disconnect());
    await expect(redisStore({ client: ioRedis })).rejects.toThrow(/may not run ZADD/);
  });
});
