import type { PacketBackend } from "../../../core/packets/operation.js";
import type { RunBackend } from "../../../core/runs/operation.js";
import { createStore } from "../../../core/store/create-store.js";
import type { StoreOptions } from "../../../core/store/store-options.js";
import { createMemoryLedger, type MemoryLedger, memoryBackend } from "../../../stores/memory/backend.js";
import type { MemoryPackets } from "../../../stores/memory/packets/packets.js";
import type { MemoryRuns } from "../../../stores/memory/runs/table.js";
import { ManualClock } from "../manual-clock.js";
import type { ContractTarget } from "./target.js";

const epochMs = Date.UTC(2030, 0, 1);

/** Options of `memoryTarget`. */
export interface MemoryTargetOptions {
  /** `"virtual"`: cases that wait take no time. `"real"`: the clock of production. */
  readonly time: "virtual" | "real";
  /** Replaces the backend of runs, on the same memory; for example with one that breaks a promise on purpose. */
  readonly runs?: (faithful: RunBackend, memory: MemoryRuns) => RunBackend;
  /** Replaces the backend of packets, likewise. */
  readonly packets?: (faithful: PacketBackend, memory: MemoryPackets) => PacketBackend;
}

/**
 * Makes a contract target of the memory store, on virtual or on real time.
 *
 * @example
 * const target = memoryTarget({ time: "virtual" });
 * for (const { cases } of ledgerContract) for (const one of cases) if (one.skip(target) === undefined) await one.run(target);
 */
export function memoryTarget({ time, runs = (it) => it, packets = (it) => it }: MemoryTargetOptions): ContractTarget {
  const open = async (ledger: MemoryLedger, options: StoreOptions) => {
    const backend = memoryBackend(ledger);
    const meant = { runs: runs(backend.runs, ledger.runs), packets: packets(backend.packets, ledger.packets) };
    return createStore({ ...backend, ...meant }, options);
  };
  return {
    name: `memory on ${time} time`,
    capabilities: { transactions: false, sharedClock: true, durable: false, runs: true, packets: true },
    severs: false,
    virtualTime: time === "virtual",
    async create() {
      const remove = async () => {};
      if (time === "real") {
        const ledger = createMemoryLedger();
        return { open: (options = {}) => open(ledger, options), remove };
      }
      const clock = new ManualClock();
      const ledger = createMemoryLedger(() => epochMs + Math.floor(clock.now()));
      return {
        open: (options) => open(ledger, { clock, ...options }),
        pass: (ms) => clock.pass(ms),
        remove,
      };
    },
  };
}
