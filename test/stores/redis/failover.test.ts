import { crc32 } from "node:zlib";
import { inspect, key, list, NotKnownError, once, open, type Store } from "onceflow";
import type { Begin } from "onceflow/store";
import { EffectLedger } from "onceflow/testing";
import { beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { beginOf as contractBegin } from "../../../src/testing/contract/ledger/operations.js";
import { gate } from "../../kit/gate.js";
import { takeTurns } from "../../kit/heavy.js";
import { poll } from "../../kit/poll.js";
import { letTimePass } from "../../kit/real-time.js";
import { until } from "../../kit/until.js";
import { signal } from "../../servers/process/processes.js";
import type { Found } from "../../servers/provider.js";
import { startRedisCluster, urlOf } from "../../servers/redis/cluster.js";
import { redisProgram } from "../../servers/redis/redis.js";
import { startRedisPair } from "../../servers/redis/sentinel.js";
import { ask, type RedisProcess } from "../../servers/redis/server.js";
import { beginSlotMove, shardOfSecond } from "../../servers/redis/slot.js";

takeTurns();

async function opened(url: string): Promise<Store> {
  const store = await open(url);
  onTestFinished(() => store.close());
  return store;
}

/** Twelve customers charge one key after another until none is left, while `happens` acts on the servers. */
async function chargeAll(
  stores: readonly Store[],
  names: readonly string[],
  happens: (effects: EffectLedger) => Promise<void>,
): Promise<EffectLedger> {
  const effects = new EffectLedger({ honoursKeys: false });
  let next = 0;
  const over = gate();
  const customers = Array.from({ length: 12 }, async (_, i) => {
    for (let name = names[next++]; name !== undefined; name = names[next++]) {
      // Half of the keys are charged after the failure.
      if (next > names.length / 2) await over.opened;
      const charge = () =>
        once(
          stores[i % stores.length] as Store,
          { key: key.of(name), effect: "atMostOnce", leaseMs: 60_000 },
          async ({ effectKey, number }) => {
            await letTimePass(5, "a server dies while some charges are in progress");
            return effects.call(effectKey, { attempt: number, result: "charged" });
          },
        );
      // A begin fails after ten seconds without an answer. The customer tries again.
      const result = await charge().catch(charge).catch(charge);
      expect(result, name).toMatchObject({ status: "executed", value: "charged", attempt: 1 });
    }
  });
  const happening = happens(effects).finally(() => over.open());
  await Promise.all([...customers, happening]);
  return effects;
}

async function expectOnce(store: Store, names: readonly string[], effects: EffectLedger): Promise<void> {
  for (const name of names) {
    const record = await inspect(store, { key: name });
    expect(record, name).toMatchObject({ state: "completed", attempt: 1 });
    expect(effects.rawCalls(record?.effectKey ?? ""), name).toBe(1);
  }
}

function beginOf(name: string): Begin {
  return contractBegin({ key: name, owner: `owner of ${name}`, effect: "atMostOnce" });
}

const namesOf = (what: string, count: number) => Array.from({ length: count }, (_, i) => `${what}:${i}`);

describe.skipIf(!inject("redis").ok)("failover", () => {
  let program: Found;
  beforeAll(async () => {
    program = await redisProgram();
  });

  test("the master is killed and sentinels promote its replica: with waitReplicas every key runs once", async () => {
    const pair = await startRedisPair(program, { sentinels: 3 });
    onTestFinished(() => pair.stop());
    const stores = [await opened(`${pair.url}?waitReplicas=1&waitMs=500`), await opened(`${pair.url}?waitReplicas=1&waitMs=500`)];
    const names = namesOf("sentinel", 200);
    const effects = await chargeAll(stores, names, async (charged) => {
      await until("some keys are charged", () => charged.keys().length >= 12);
      await pair.master.kill();
      await isMaster(pair.replica);
      // waitReplicas needs a second server before any write is acknowledged. Sentinels would make the old master a replica after ten seconds.
      await pair.master.restart();
      await ask(urlOf(pair.master), "REPLICAOF", "127.0.0.1", String(pair.replica.port));
    });
    await expectOnce(stores[0] as Store, names, effects);
    expect(String(await ask(urlOf(pair.master), "INFO", "replication"))).toContain("role:slave");
  });

  test("writes that the replica had not received are lost with the master, and their keys are executed again", async () => {
    const pair = await startRedisPair(program, { sentinels: 0 });
    onTestFinished(() => pair.stop());
    const effects = new EffectLedger({ honoursKeys: true });
    const charge = (store: Store, name: string) =>
      once(store, { key: key.of(name), effect: "keyed" }, async ({ effectKey, number }) =>
        effects.call(effectKey, { attempt: number, result: name }),
      );
    const before = await opened(urlOf(pair.master));
    await charge(before, "replicated");
    await hasReceivedAll(pair.replica, pair.master);
    await cutOff(pair.replica, pair.master);
    for (const name of namesOf("lost", 10)) expect((await charge(before, name)).status).toBe("executed");
    await promote(pair.replica, pair.master);
    const after = await opened(urlOf(pair.replica));
    expect((await charge(after, "replicated")).status).toBe("replayed");
    const again = await Promise.all(namesOf("lost", 10).map((name) => charge(after, name)));
    // The window that the reference page describes: each call was acknowledged, lost and made again. The provider's key prevented a second effect.
    expect(again.map(({ status, attempt }) => [status, attempt])).toEqual(again.map(() => ["executed", 1]));
    for (const name of namesOf("lost", 10)) {
      const { effectKey = "" } = (await inspect(after, { key: name })) ?? {};
      expect([effects.rawCalls(effectKey), effects.applied(effectKey)]).toEqual([2, 1]);
    }
  });

  test("with waitReplicas a write that no replica has throws NotKnownError, and no handler runs for it", async () => {
    const pair = await startRedisPair(program, { sentinels: 0 });
    onTestFinished(() => pair.stop());
    const store = await opened(`${urlOf(pair.master)}?waitReplicas=1&waitMs=100`);
    await once(store, { key: key.of("replicated") }, () => 1);
    await cutOff(pair.replica, pair.master);
    const begin = beginOf("cut off");
    await expect(store.commit({ ledger: begin })).rejects.toThrow(NotKnownError);
    await expect(store.commit({ ledger: begin })).rejects.toThrow(/0 of 1 replicas/);
    // The replica is back: the same begin is recognised as done, now on all servers.
    signal(pair.replica.pid as number, "SIGCONT");
    const answer = await poll(
      20_000,
      () => store.commit({ ledger: begin }).catch(() => undefined),
      () => "the replica never came back",
    );
    expect(answer).toMatchObject({ kind: "started", attempt: 1 });
  });

  test("one member of a Cluster is killed, and a slot of another one is moved: every key runs once, and all keys are listed", async () => {
    const cluster = await startRedisCluster(program);
    onTestFinished(() => cluster.stop());
    const url = `${cluster.url}?waitReplicas=1&waitMs=500`;
    const stores = [await opened(url), await opened(url)];
    const victim = cluster.members[0] as RedisProcess;

    // Names of one shard. Its slot moves away from the second master while these keys are charged.
    const shard = await shardOfSecond(cluster.members[1] as RedisProcess);
    const moving = namesOf("moved", 12_000)
      .filter((name) => crc32(`\0${name}`) % 64 === shard)
      .slice(0, 121);
    const spare = moving.pop() ?? "";
    const fresh = beginOf(spare);
    const moved = await chargeAll(stores, moving, () =>
      moveSlot(shard, cluster.members.slice(0, 3), async () => {
        // If the index were written on the node that has the records by now, it would exist on both nodes, and one half would be lost.
        await expect((stores[0] as Store).commit({ ledger: fresh })).rejects.toThrow(/TRYAGAIN/);
      }),
    );
    expect(await (stores[0] as Store).commit({ ledger: fresh })).toMatchObject({ kind: "started", attempt: 1 });
    await expectOnce(stores[0] as Store, moving, moved);

    const names = namesOf("cluster", 200);
    const effects = await chargeAll(stores, names, async (charged) => {
      await until("some keys are charged", () => charged.keys().length >= 12);
      await victim.kill();
      await isMaster(cluster.members[3] as RedisProcess);
      await victim.restart();
    });
    await expectOnce(stores[0] as Store, names, effects);
    const listed = [...(await list(stores[0] as Store, { limit: 1000 })).items].map((item) => item.key).sort();
    expect(listed).toEqual([...moving, spare, ...names].sort());
  });
});

async function isMaster(server: RedisProcess): Promise<void> {
  await poll(
    30_000,
    // A promoted server closes its connections, including this one.
    async () => /role:master/.test(String(await ask(urlOf(server), "INFO", "replication").catch(() => ""))) || undefined,
    () => "no replica was promoted",
  );
}

/** Reads the replica's own offset: the master's view of it is up to a second old. */
async function hasReceivedAll(replica: RedisProcess, master: RedisProcess): Promise<void> {
  const offset = (name: string, reply: unknown) => Number(new RegExp(`${name}:(\\d+)`).exec(String(reply))?.[1]);
  const written = offset("master_repl_offset", await ask(urlOf(master), "INFO", "replication"));
  await poll(
    30_000,
    async () => offset("slave_repl_offset", await ask(urlOf(replica), "INFO", "replication")) >= written || undefined,
    () => "the replica did not receive the master's writes",
  );
}

/** Stops the replica and its connection: from now on it receives nothing. */
async function cutOff(replica: RedisProcess, master: RedisProcess): Promise<void> {
  signal(replica.pid as number, "SIGSTOP");
  await ask(urlOf(master), "CLIENT", "KILL", "TYPE", "replica");
}

async function promote(replica: RedisProcess, master: RedisProcess): Promise<void> {
  await master.kill();
  signal(replica.pid as number, "SIGCONT");
  await ask(urlOf(replica), "REPLICAOF", "NO", "ONE");
}

/** Moves the slot key by key, while clients use the keys. The index moves last, after `amid`. */
async function moveSlot(shard: number, masters: readonly RedisProcess[], amid: () => Promise<void>): Promise<void> {
  const index = `onceflow:{${shard}}:names`;
  const source = urlOf(masters[1] as RedisProcess);
  const slot = String(await ask(source, "CLUSTER", "KEYSLOT", index));
  await poll(
    10_000,
    async () => (Number(await ask(source, "CLUSTER", "COUNTKEYSINSLOT", slot)) >= 6 ? true : undefined),
    () => "no client wrote into the slot",
  );
  const move = await beginSlotMove(shard, masters);
  const keysLeft = async () => (await move.keysLeft()).filter((name) => name !== index);
  for (let keys = await keysLeft(); keys.length > 0; keys = await keysLeft()) await move.migrate(...keys);
  await amid();
  await move.finish();
}
