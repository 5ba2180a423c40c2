import { createStore } from "../../core/create-store.js";
import { createMemoryLedger, memoryBackend } from "../../stores/memory/memory-ledger.js";
import { ManualClock } from "./manual-clock.js";
import type { ContractTarget } from "./target.js";

const epochMs = Date.UTC(2030, 0, 1);

/** The memory store: on virtual time, where nobody waits, or on the time it has in production. */
export function memoryTarget({ time }: { readonly time: "virtual" | "real" }): ContractTarget {
  return {
    name: `memory on ${time} time`,
    capabilities: { transactions: false, sharedClock: true, durable: false, runs: true },
    severs: false,
    async create() {
      const remove = async () => {};
      if (time === "real") {
        const ledger = createMemoryLedger();
        return { open: async (options) => createStore(memoryBackend(ledger), options), remove };
      }
      const clock = new ManualClock();
      const ledger = createMemoryLedger(() => epochMs + Math.floor(clock.now()));
      return {
        open: async (options) => createStore(memoryBackend(ledger), { clock, ...options }),
        pass: (ms) => clock.pass(ms),
        remove,
      };
    },
  };
}
