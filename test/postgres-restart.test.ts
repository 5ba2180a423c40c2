import { setTimeout as delay } from "node:timers/promises";
import { inspect, key, once, open } from "onceflow";
import { EffectLedger } from "onceflow/testing";
import { expect, inject, onTestFinished, test } from "vitest";
import { acquire } from "./servers/acquire.js";

/** A server of its own, because it is killed. */
test.skipIf(!inject("postgres").ok)(
  "PostgreSQL is killed and restarted under load: every key once, nobody hangs",
  { timeout: 120_000 },
  async ({ skip }) => {
    const acquired = await acquire("postgres");
    if (!acquired.ok) return skip(acquired.reason);
    const { url, kill, restart, stop } = acquired.running;
    if (kill === undefined || restart === undefined) return skip("this server is not ours to kill");
    onTestFinished(() => stop());
    const store = await open(url);
    onTestFinished(() => store.close());
    const effects = new EffectLedger({ honoursKeys: false });
    const keys = Array.from({ length: 300 }, (_, i) => key.of(`restart:${i}`));
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
