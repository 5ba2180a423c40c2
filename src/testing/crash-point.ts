import type { Batch } from "../core/operation.js";
import type { Store } from "../core/store.js";

/** Where to die: before or after each durable write of the ledger, and around the commit of a handler's transaction. */
export const crashPoints = [
  "before begin",
  "after begin",
  "before settle",
  "after settle",
  "before transaction",
  "before commit",
  "after commit",
] as const;
export type CrashPoint = (typeof crashPoints)[number];

/**
 * The same store, on which `die` is called at one point: `process.kill(process.pid, "SIGKILL")` in a process that a
 * test has started for that.
 */
export function withCrashPoint(store: Store, point: CrashPoint, die: () => void): Store {
  const at = (here: CrashPoint) => {
    if (here === point) die();
  };
  return Object.create(store, {
    commit: {
      value: async (batch: Batch) => {
        const { verb } = "ledger" in batch ? batch.ledger : batch.run;
        if (verb === "begin" || verb === "settle") at(`before ${verb}`);
        const answer = await ("ledger" in batch ? store.commit(batch) : store.commit(batch));
        if (verb === "begin" || verb === "settle") at(`after ${verb}`);
        return answer;
      },
    },
    transact: {
      value: async (work: Parameters<Store["transact"]>[0]) => {
        at("before transaction");
        const result = await store.transact(async (tx) => {
          const inside = await work(tx);
          at("before commit");
          return inside;
        });
        at("after commit");
        return result;
      },
    },
  }) as Store;
}
