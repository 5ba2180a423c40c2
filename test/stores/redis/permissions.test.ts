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

/** The commands that a user needs, according to the reference page. */
const commands = [
  ...["eval", "evalsha", "time", "exists", "get", "set", "del", "unlink"],
  ...["hmget", "hset", "hdel", "zadd", "zrem", "zcount", "zrangebyscore", "zrangebylex", "zremrangebyrank"],
  ...["rpush", "ltrim", "lrange"],
];
const optionalReads = ["info", "config|get"];

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

  /** Creates a user with exactly these rights, and returns its URL. */
  async function userWith(rights: readonly string[], keys = "~onceflow:*"): Promise<string> {
    await admin.sendCommand(["ACL", "SETUSER", "shop", "reset", "on", ">secret", keys, "-@all", ...rights.map((name) => `+${name}`)]);
    return `redis://shop:secret@127.0.0.1:${server.port}`;
  }
  const without = (...names: string[]) => [...commands, ...optionalReads].filter((name) => !names.includes(name));

  test("the documented rights are enough for every operation, and the check at open leaves no keys behind", async () => {
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

  test.each(commands)("without %s: refused at open, and the error names the command", async (name) => {
    const error = await open(await userWith(without(name))).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ConfigurationError);
    expect(error).toMatchObject({ code: "REDIS_PERMISSION" });
    expect(String(error)).toContain(`may not run ${name.toUpperCase()} (ACL SETUSER … +${name})`);
    expect(String(error)).not.toContain("secret");
  });

  test("all missing commands are named in one error", async () => {
    const url = await userWith(without("zadd", "hset", "unlink"));
    // Removal is tried first: the check writes nothing that it could not remove again.
    await expect(open(url)).rejects.toThrow(/may not run UNLINK/);
    await expect(open(await userWith(without("zadd", "hset")))).rejects.toThrow(/may not run HSET, ZADD/);
    expect(await admin.sendCommand(["KEYS", "*permissions*"])).toEqual([]);
  });

  test("a user who may not access onceflow's keys is refused", async () => {
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

  test("clients that the user passed are checked, too", async () => {
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
