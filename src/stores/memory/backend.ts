import { rowOf } from "../../core/ledger/record.js";
import type { Backend } from "../../core/store/store.js";
import { appendAudit, readAudit } from "./ledger/audit.js";
import { apply } from "./ledger/flush.js";
import { listRecords } from "./ledger/list.js";
import { purgeRecords } from "./ledger/purge.js";
import { type MemoryRecords, putRecord } from "./ledger/records.js";
import { createMemoryPackets, type MemoryPackets, memoryPacketBackend } from "./packets/packets.js";
import { memoryRunBackend } from "./runs/runs.js";
import { createMemoryRuns, type MemoryRuns, MemoryRunTable } from "./runs/table.js";

/** All data of a store in memory. */
export interface MemoryLedger extends MemoryRecords {
  readonly runs: MemoryRuns;
  readonly packets: MemoryPackets;
}

export function createMemoryLedger(now: () => number = wallClock): MemoryLedger {
  const ledger: MemoryRecords = { records: new Map(), attempts: new Map(), audit: new Map(), now };
  const packets = createMemoryPackets(now, {
    get: (id) => ledger.records.get(rowOf(id)),
    put: (next, past) => putRecord(ledger, next, past),
  });
  return { ...ledger, runs: createMemoryRuns(), packets };
}

/** Milliseconds since 1970, but monotonic: a step of the system's clock must not expire every lease at once. */
function wallClock(): number {
  return Math.floor(performance.timeOrigin + performance.now());
}

/** Several backends on one ledger behave like several processes on one database: the simulators use that. */
export function memoryBackend(ledger: MemoryLedger): Backend & Required<Pick<Backend, "runs" | "packets">> {
  return {
    name: "memory",
    capabilities: { transactions: false, sharedClock: true, durable: false, runs: true, packets: true },
    flush: async (operations) => operations.map((operation) => apply(ledger, operation)),
    read: async (id) => {
      const record = ledger.records.get(rowOf(id));
      return record && { record, now: ledger.now() };
    },
    attempts: async ({ afterAttempt, limit, ...id }) =>
      (ledger.attempts.get(rowOf(id)) ?? []).filter((entry) => entry.attempt > afterAttempt).slice(0, limit),
    list: async (query) => listRecords(ledger, query),
    purge: async (query) => purgeRecords(ledger, query),
    audit: async (entries) => appendAudit(ledger, entries),
    audited: async (id, limit) => readAudit(ledger, id, limit),
    runs: memoryRunBackend(ledger.runs, ledger.now),
    packets: memoryPacketBackend(ledger.packets, new MemoryRunTable(ledger.runs, ledger.now)),
    close: async () => {},
  };
}
