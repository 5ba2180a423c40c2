import { tmpdir } from "node:os";
import { join } from "node:path";
import { key as keyOf, once, open, type Store } from "onceflow";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { until } from "../../kit/until.js";
import { type Guard, startGuard } from "../../servers/process/guard.js";
import { urlOf } from "../../servers/redis/cluster.js";
import { redisProgram } from "../../servers/redis/redis.js";
import { type RedisProcess, startRedisProcess } from "../../servers/redis/server.js";
import { effect, effects, expectDoneOnce } from "../counted-effects.js";

interface Fault {
  readonly on: readonly string[];
  readonly off: readonly string[];
}

/** Makes a real server refuse writes for a while. The name is the first word of its error replies. */
const faults: Readonly<Record<string, Fault>> = {
  // As the old master behaves after a failover.
  READONLY: { on: ["REPLICAOF", "127.0.0.1", "1"], off: ["REPLICAOF", "NO", "ONE"] },
  NOREPLICAS: { on: ["CONFIG", "SET", "min-replicas-to-write", "1"], off: ["CONFIG", "SET", "min-replicas-to-write", "0"] },
  OOM: { on: ["CONFIG", "SET", "maxmemory", "1"], off: ["CONFIG", "SET", "maxmemory", "0"] },
};

/** The tests use their own server: it refuses the writes of all its clients. */
describe.skipIf(!inject("redis").ok)("transient errors of Redis", () => {
  let guard: Guard;
  let server: RedisProcess;
  let admin: ReturnType<typeof createClient>;
  let store: Store;

  beforeAll(async () => {
    guard = await startGuard(join(tmpdir(), "onceflow-redis-passing-"), "SIGKILL");
    server = await startRedisProcess(await redisProgram(), guard, {
      appendonly: "yes",
      appendfsync: "always",
      "maxmemory-policy": "noeviction",
    });
    admin = createClient({ url: urlOf(server) });
    admin.on("error", () => {});
    await admin.connect();
    store = await open(urlOf(server), { purgeEveryMs: 0 });
  });
  afterAll(async () => {
    await store?.close();
    admin?.destroy();
    await server?.end();
    await guard?.release();
  });

  /** How many commands the server has refused with this error. */
  async function refusals(word: string): Promise<number> {
    const stats = String(await admin.sendCommand(["INFO", "errorstats"]));
    return Number(new RegExp(`errorstat_${word}:count=(\\d+)`).exec(stats)?.[1] ?? 0);
  }

  test.for(Object.entries(faults))(
    "%s at a begin and at a settle: the effect runs once, and its result is kept",
    async ([word, { on, off }]) => {
      let [refused, ran] = [await refusals(word), false];
      await admin.sendCommand(on);
      const executed = once(store, { key: keyOf.of(word), leaseMs: 60_000 }, async () => {
        refused = await refusals(word);
        await admin.sendCommand(on);
        ran = true;
        return effect(word);
      });
      await until("the begin was refused", async () => (await refusals(word)) > refused);
      expect(effects.get(word)).toBeUndefined();
      await admin.sendCommand(off);
      await until("the handler has run", () => ran);
      await until("the settle was refused", async () => (await refusals(word)) > refused);
      await admin.sendCommand(off);
      expect(await executed).toMatchObject({ status: "executed", value: `done ${word}` });
      await expectDoneOnce(store, word);
    },
  );
});
