import { type ClientSession, MongoClient } from "mongodb";
import { inspect, key as keyOf, once, type Store } from "onceflow";
import { mongoStore } from "onceflow/store";
import { type CuttingProxy, cuttingProxy } from "onceflow/testing";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test } from "vitest";
import { acquire } from "../../servers/acquire.js";
import { lostThings, testLostMessages } from "../lost-messages.js";
import { chargeThroughRestarts } from "../restarts.js";

const server = inject("mongodb");

/** Requests and replies are lost on a real connection (to an emulator, unless a real server is given). */
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
    // The driver sends heartbeats by itself. They are rare here, so that the proxy cuts messages of the store.
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

  for (const what of lostThings) {
    testLostMessages(what, () => ({ store, proxy, key }), { resends: retries });

    test(`a transaction whose commit's ${what} is lost: row and outcome are both saved, or neither`, async () => {
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
      // The driver sends every commit a second time by itself, also with retryWrites: false.
      expect([count, state]).toEqual([1, "completed"]);
      expect(result).toMatchObject({ status: "executed", value: "done" });
    });
  }
});

/** Uses its own server, because the test kills it. */
test.skipIf(!server.ok)(
  "MongoDB (the emulator, on its log) is killed and restarted under load: every key runs once, and no caller hangs",
  async ({ skip }) => {
    const acquired = await acquire("mongodb");
    if (!acquired.ok) return skip(acquired.reason);
    const { url, kill, restart, stop } = acquired.running;
    onTestFinished(() => stop());
    if (kill === undefined || restart === undefined) return skip("the tests did not start this server, so they cannot kill it");
    const client = new MongoClient(url, { serverSelectionTimeoutMS: 5000 });
    const store = await mongoStore({ client });
    onTestFinished(() => client.close());
    onTestFinished(() => store.close());
    await chargeThroughRestarts({ stores: [store], kill, restart, keys: 300, customers: 20, kills: 2 });
  },
);
