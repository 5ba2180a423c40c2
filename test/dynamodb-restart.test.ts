import { setTimeout as delay } from "node:timers/promises";
import { inspect, key, once, open } from "onceflow";
import { EffectLedger } from "onceflow/testing";
import { expect, inject, onTestFinished, test } from "vitest";
import { takeTurns } from "./heavy.js";
import { acquire } from "./servers/acquire.js";
import { freshTable } from "./servers/dynamodb-tables.js";

takeTurns();

/**
 * A server of its own, with its data in a file, because it is killed. AWS does not lose what it has answered; that this
 * emulator does not either, when its process dies and the machine does not, is its own doing.
 */
test.skipIf(!inject("dynamodb").ok)(
  "DynamoDB Local is killed and restarted under load: every key once, nobody hangs",
  { timeout: 120_000 },
  async ({ skip }) => {
    const acquired = await acquire("dynamodbOnDisk");
    if (!acquired.ok) return skip(acquired.reason);
    const { url, kill, restart, stop } = acquired.running;
    if (kill === undefined || restart === undefined) return skip("this server is not ours to kill");
    onTestFinished(() => stop());
    const store = await open(freshTable(url).url);
    onTestFinished(() => store.close());
    const effects = new EffectLedger({ honoursKeys: false });
    const keys = Array.from({ length: 100 }, (_, i) => key.of(`restart:${i}`));
    const kills = 2;
    let next = 0;
    let killed = 0;

    const customers = Array.from({ length: 12 }, async () => {
      for (let k = keys[next++]; k !== undefined; k = keys[next++]) {
        // The last keys wait for the last kill: none comes when everything is done already.
        while (killed < kills && next > keys.length * ((killed + 1) / (kills + 1))) await delay(5);
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
      for (; killed < kills; killed++) {
        await delay(100 + Math.random() * 100);
        await kill();
        await delay(100);
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
