import { setTimeout as delay } from "node:timers/promises";
import { inspect, key, NotKnownError, once, open } from "onceflow";
import { EffectLedger } from "onceflow/testing";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { takeTurns } from "./heavy.js";
import { acquire } from "./servers/acquire.js";
import { signal } from "./servers/processes.js";

takeTurns();

/** Servers of their own, because they are killed. */
describe.skipIf(!inject("redis").ok)("a Redis server that dies", () => {
  async function ownServer(skip: (reason: string) => never) {
    const acquired = await acquire("redis");
    if (!acquired.ok) return skip(acquired.reason);
    const { running } = acquired;
    const { kill, restart, stop } = running;
    if (kill === undefined || restart === undefined) return skip("this server is not ours to kill");
    onTestFinished(() => stop());
    return { url: running.url, kill, restart, pid: () => running.pid as number };
  }

  test("is killed and restarted under load, appendfsync always: every key once, nobody hangs", { timeout: 120_000 }, async ({ skip }) => {
    const { url, kill, restart } = await ownServer(skip);
    const stores = await Promise.all([open(url), open(url), open(url)]);
    onTestFinished(async () => void (await Promise.all(stores.map((store) => store.close()))));
    const effects = new EffectLedger({ honoursKeys: false });
    const keys = Array.from({ length: 400 }, (_, i) => key.of(`restart:${i}`));
    const kills = 4;
    let next = 0;
    let killed = 0;

    const customers = Array.from({ length: 24 }, async (_, i) => {
      const store = stores[i % stores.length] as (typeof stores)[number];
      // The last keys wait for the last restart: no kill comes when everything is done already.
      for (let k = keys[next++]; k !== undefined; k = keys[next++]) {
        while (killed < kills && next > keys.length * ((killed + 1) / (kills + 1))) await delay(5);
        const charge = () =>
          once(store, { key: k, effect: "atMostOnce", leaseMs: 60_000 }, async ({ effectKey, number }) => {
            await delay(10);
            return effects.call(effectKey, { attempt: number, result: "charged" });
          });
        // A begin that could not be sent for ten seconds gives up; the customer does not.
        const result = await charge().catch(charge);
        expect(result).toMatchObject({ status: "executed", value: "charged", attempt: 1 });
      }
    });
    const killing = (async () => {
      for (; killed < kills; killed++) {
        await delay(50 + Math.random() * 50);
        await kill();
        await delay(100);
        await restart();
      }
    })();
    await Promise.all([...customers, killing]);

    for (const k of keys) {
      const record = await inspect(stores[0] as (typeof stores)[number], { key: k });
      expect(record).toMatchObject({ state: "completed", attempt: 1 });
      expect(effects.rawCalls(record?.effectKey ?? "")).toBe(1);
    }
  });

  test("falls silent with its connections open: what it was asked is not known in bounded time, and it goes on", async ({ skip }) => {
    const { url, pid } = await ownServer(skip);
    const store = await open(url);
    onTestFinished(() => store.close());
    await once(store, { key: key.of("before") }, () => 1);
    signal(pid(), "SIGSTOP");
    const asked = performance.now();
    const commit = store.commit({
      ledger: { verb: "renew", scope: "", key: "before", owner: "nobody", attempt: 1, leaseMs: 1000 },
    });
    try {
      await expect(commit).rejects.toThrow(NotKnownError);
      expect(performance.now() - asked).toBeLessThan(20_000);
    } finally {
      signal(pid(), "SIGCONT");
    }
    expect((await once(store, { key: key.of("before") }, () => 2)).value).toBe(1);
  });
});
