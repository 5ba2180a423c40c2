import { key, once, type Store } from "onceflow";
import { block } from "./block.js";

/** Resolves when the store's heartbeat thread has renewed a lease by itself: the thread runs, and has loaded its modules. On a busy machine that takes longer than a lease. */
export async function heartbeatThreadReady(store: Store): Promise<void> {
  const id = { scope: "", key: `heartbeat thread of ${process.pid}` };
  const revOf = async () => (await store.read(id))?.record.rev ?? 0;
  await once(store, { key: key.of(id.key), leaseMs: 1000 }, async () => {
    for (let ready = false; !ready; ) {
      const [before, ownRenewals] = [await revOf(), store.metrics.renewed];
      block(800);
      ready = (await revOf()) > before && store.metrics.renewed === ownRenewals;
    }
  });
}
