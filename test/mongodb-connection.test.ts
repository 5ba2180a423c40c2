import { setTimeout as delay } from "node:timers/promises";
import { type ClientSession, MongoClient } from "mongodb";
import { inspect, key as keyOf, NotKnownError, once, type Store } from "onceflow";
import { mongoStore, type Settle } from "onceflow/store";
import { type CuttingProxy, cuttingProxy, EffectLedger } from "onceflow/testing";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test } from "vitest";
import { beginOf as contractBegin } from "../src/testing/contract/operations.js";
import { acquire } from "./servers/acquire.js";

const server = inject("mongodb");

/** Replies and requests that are lost on the way, on a real connection (to an emulator, unless a real server is given). */
describe.skipIf(!server.ok).each([
  { driver: "does not retry", retries: false },
  { driver: "retries once by itself", retries: true },
])("a MongoDB connection that breaks, and the driver $driver", ({ retries }) => {
  let proxy: CuttingProxy;
  let store: Store;
  let client: MongoClient;
  let direct: MongoClient;
  let keys = 0;
  let key = "";

  beforeAll(async () => {
    const url = new URL(server.ok ? server.url : "");
    proxy = await cuttingProxy({ host: url.hostname, port: Number(url.port) });
    direct = await new MongoClient(url.href).connect();
    url.port = String(proxy.port);
    // The driver looks after its servers by itself: what is to be cut is ours.
    client = new MongoClient(url.href, { directConnection: true, retryWrites: retries, retryReads: retries, heartbeatFrequencyMS: 5_000 });
    store = await mongoStore({ client, prefix: `connection_${process.pid}_${retries}` });
  });
  afterAll(async () => {
    await store.close();
    await client.close();
    await proxy.close();
    await direct.close();
  });
  beforeEach(() => {
    keys += 1;
    key = `cut-${retries}-${keys}`;
  });

  const begin = (owner: string) => contractBegin({ key, owner, effect: "atMostOnce", leaseMs: 10_000 });

  /** Not known, and found when it is sent again; or the driver has done that. */
  async function lost<T>(send: () => Promise<T>): Promise<T> {
    if (retries) return await send();
    await expect(send()).rejects.toThrow(NotKnownError);
    return await send();
  }

  for (const what of ["request", "reply"] as const) {
    test(`a begin whose ${what} is lost finds the truth when it is sent again`, async () => {
      const before = proxy.cuts;
      proxy.cutNext(what);
      expect(await lost(() => store.commit({ ledger: begin("me") }))).toMatchObject({ kind: "started", attempt: 1 });
      expect(proxy.cuts).toBe(before + 1);
      expect(await store.commit({ ledger: begin("another") })).toMatchObject({ kind: "running", attempt: 1 });
    });

    test(`a settle whose ${what} is lost finds the truth when it is sent again`, async () => {
      await store.commit({ ledger: begin("me") });
      const to = { state: "completed", outcome: "1" } as const;
      const settle: Settle = { verb: "settle", scope: "", key, owner: "me", attempt: 1, to, note: null };
      proxy.cutNext(what);
      expect(await lost(() => store.commit({ ledger: settle }))).toEqual({ kind: "settled" });
      expect((await inspect(store, { key }))?.value).toBe(1);
    });

    test(`once does it once when the ${what} of its begin is lost, and when that of its settle is`, async () => {
      let calls = 0;
      const before = proxy.cuts;
      proxy.cutNext(what);
      const result = await once(store, { key: keyOf.of(key), effect: "atMostOnce" }, () => {
        calls += 1;
        proxy.cutNext(what);
        return "done";
      });
      expect(result).toMatchObject({ status: "executed", value: "done", attempt: 1 });
      expect([calls, proxy.cuts - before]).toEqual([1, 2]);
      expect((await inspect(store, { key }))?.attempts).toHaveLength(1);
    });

    test(`a transaction whose commit's ${what} is lost: row and outcome both, or neither`, async () => {
      const rows = `business_${process.pid}_${retries}`;
      const cutAtCommit = <T>(work: (tx: object) => Promise<T>) =>
        store.transact(async (tx) => {
          const result = await work(tx);
          proxy.cutNext(what);
          return result;
        });
      const result = await once(store, { key: keyOf.of(key), tx: cutAtCommit }, async ({ tx }) => {
        await client
          .db()
          .collection<{ key: string }>(rows)
          .insertOne({ key }, { session: tx as ClientSession });
        return "done";
      }).catch((error: unknown) => error);
      const state = (await inspect(store, { key }))?.state;
      const count = (await direct.db().collection(rows).find({ key }).toArray()).length;
      // The driver sends every commit a second time by itself, whatever it is told about other writes.
      expect([count, state]).toEqual([1, "completed"]);
      expect(result).toMatchObject({ status: "executed", value: "done" });
    });
  }
});

/** A server of its own, because it is killed. */
test.skipIf(!server.ok)(
  "MongoDB (the emulator, on its log) is killed and restarted under load: every key once, nobody hangs",
  { timeout: 120_000 },
  async ({ skip }) => {
    const acquired = await acquire("mongodb");
    if (!acquired.ok) return skip(acquired.reason);
    const { url, kill, restart, stop } = acquired.running;
    onTestFinished(() => stop());
    if (kill === undefined || restart === undefined) return skip("this server is not ours to kill");
    const client = new MongoClient(url, { serverSelectionTimeoutMS: 5000 });
    const store = await mongoStore({ client });
    onTestFinished(() => client.close());
    onTestFinished(() => store.close());
    const effects = new EffectLedger({ honoursKeys: false });
    const keys = Array.from({ length: 300 }, (_, i) => keyOf.of(`restart:${i}`));
    let next = 0;

    const customers = Array.from({ length: 20 }, async () => {
      for (let k = keys[next++]; k !== undefined; k = keys[next++]) {
        const charge = () =>
          once(store, { key: k, effect: "atMostOnce", leaseMs: 60_000 }, async ({ effectKey, number }) => {
            await delay(20);
            return effects.call(effectKey, { attempt: number, result: "charged" });
          });
        // A begin that could not be sent for ten seconds gives up; the customer does not.
        const result = await charge().catch(charge);
        expect(result).toMatchObject({ status: "executed", value: "charged", attempt: 1 });
      }
    });
    const killing = (async () => {
      for (let i = 0; i < 2; i++) {
        await delay(60);
        await kill();
        await delay(150);
        await restart();
      }
    })();
    await Promise.all([...customers, killing]);

    for (const k of keys) {
      const record = await inspect(store, { key: k });
      expect(record).toMatchObject({ state: "completed", attempt: 1 });
      expect(effects.rawCalls(record?.effectKey ?? "")).toBe(1);
    }
  },
);
