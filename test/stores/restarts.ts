import { inspect, key, once, type Store } from "onceflow";
import { EffectLedger } from "onceflow/testing";
import { expect } from "vitest";
import { letTimePass } from "../kit/real-time.js";

export interface Restarts {
  /** Store handles that the customers share. */
  readonly stores: readonly [Store, ...Store[]];
  readonly kill: () => Promise<void>;
  readonly restart: () => Promise<void>;
  readonly keys: number;
  readonly customers: number;
  readonly kills: number;
}

/** Customers charge each key while the server is killed and restarted. Asserts that each key has one effect and that no customer hangs. */
export async function chargeThroughRestarts({ stores, kill, restart, keys: count, customers, kills }: Restarts): Promise<void> {
  const effects = new EffectLedger({ honoursKeys: false });
  const keys = Array.from({ length: count }, (_, i) => key.of(`restart:${i}`));
  let next = 0;
  let killed = 0;

  const charging = Array.from({ length: customers }, async (_, i) => {
    const store = stores[i % stores.length] as Store;
    for (let k = keys[next++]; k !== undefined; k = keys[next++]) {
      // The last keys wait for the last restart, so that every kill interrupts work.
      while (killed < kills && next > keys.length * ((killed + 1) / (kills + 1))) await letTimePass(5, "polls for the next restart");
      const charge = () =>
        once(store, { key: k, effect: "atMostOnce", leaseMs: 60_000 }, async ({ effectKey, number }) => {
          await letTimePass(20, "the server dies while some charges are in progress");
          return effects.call(effectKey, { attempt: number, result: "charged" });
        });
      // A begin fails after ten seconds without a connection. The customer tries again.
      const result = await charge().catch(charge);
      expect(result).toMatchObject({ status: "executed", value: "charged", attempt: 1 });
    }
  });
  const killing = (async () => {
    for (; killed < kills; killed++) {
      await letTimePass(50 + Math.random() * 100, "a kill comes at a moment that no event chooses");
      await kill();
      await letTimePass(120, "the server is down for a while");
      await restart();
    }
  })();
  await Promise.all([...charging, killing]);

  for (const k of keys) {
    const record = await inspect(stores[0], { key: k });
    expect(record).toMatchObject({ state: "completed", attempt: 1 });
    expect(effects.rawCalls(record?.effectKey ?? "")).toBe(1);
  }
}
