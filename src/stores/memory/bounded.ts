import type { Backend } from "../../core/store/store.js";
import { createMemoryLedger, memoryBackend } from "./backend.js";

/** A store in memory that forgets the oldest completed records beyond `recordsMax`. Records that are running or unknown stay. */
export function boundedMemoryBackend(recordsMax: number): Backend {
  const ledger = createMemoryLedger();
  const backend = memoryBackend(ledger);
  return {
    ...backend,
    async flush(operations) {
      const answers = await backend.flush(operations);
      let over = ledger.records.size - recordsMax;
      if (over <= 0) return answers;
      for (const [row, { state }] of ledger.records) {
        if (over <= 0) break;
        if (state === "running" || state === "unknown") continue;
        ledger.records.delete(row);
        ledger.attempts.delete(row);
        ledger.audit.delete(row);
        over -= 1;
      }
      return answers;
    },
  };
}
