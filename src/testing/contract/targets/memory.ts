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

export interface MemoryTargetOptions {
  readonly time: "virtual" | "real";
  /** Something else in the place of queue and journal, on the same memory: a store that breaks one promise, say. */
  readonly runs?: (faithful: RunBackend, memory: MemoryRuns) => RunBackend;
  /** The same of packets. */
  readonly packets?: (faithful: PacketBackend, memory: MemoryPackets) => PacketBackend;
}

/** The memory store: on virtual time, where nobody waits, or on the time it has in production. */
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
