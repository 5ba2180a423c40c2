import { decide } from "../../core/ledger/decide.js";
import type { Operation } from "../../core/ledger/operation.js";
import type { AttemptEntry, LedgerRecord } from "../../core/ledger/record.js";
import { rowOf } from "../../core/store/group-commit.js";
import type { AuditedEntry, Backend, Verdicted } from "../../core/store/store.js";
import { listRecords } from "./ledger/list.js";
import { purgeRecords } from "./ledger/purge.js";
import { createMemoryPackets, type MemoryPackets, memoryPacketBackend } from "./packets/packets.js";
import { memoryRunBackend } from "./runs/runs.js";
import { createMemoryRuns, type MemoryRuns } from "./runs/table.js";

/** What a database would hold: the records by row, and the ended attempts of each. */
export interface MemoryLedger {
  readonly records: Map<string, LedgerRecord>;
  readonly attempts: Map<string, AttemptEntry[]>;
  readonly audit: Map<string, AuditedEntry[]>;
  readonly runs: MemoryRuns;
  readonly packets: MemoryPackets;
  /** The ledger's own clock, whole milliseconds. */
  now(): number;
}

export function createMemoryLedger(now: () => number = wallClock): MemoryLedger {
  const records = new Map<string, LedgerRecord>();
  const attempts = new Map<string, AttemptEntry[]>();
  const packets = createMemoryPackets(now, {
    get: (id) => records.get(rowOf(id)),
    put: (next, past) => put({ records, attempts }, next, past),
  });
  return { records, attempts, audit: new Map(), runs: createMemoryRuns(), packets, now };
}

/** Monotonic, and comparable with dates: a step of the system's clock must not lapse every lease at once. */
function wallClock(): number {
  return Math.floor(performance.timeOrigin + performance.now());
}

/** Memory is all there is: of those who asked for one key, only the newest are remembered. */
const auditedMax = 1000;

/** Several backends on one ledger are what several processes on one database are: the simulator uses that. */
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
    audit: async (entries) => {
      for (const entry of entries) {
        const row = rowOf(entry);
        const kept = (ledger.audit.get(row) ?? []).slice(-auditedMax + 1);
        ledger.audit.set(row, [...kept, Object.freeze({ ...entry, at: ledger.now() })]);
      }
    },
    audited: async (id, limit) => (ledger.audit.get(rowOf(id)) ?? []).slice(-limit),
    runs: memoryRunBackend(ledger.runs, ledger.now),
    packets: memoryPacketBackend(ledger.packets),
    close: async () => {},
  };
}

/** Check and set with no await between. */
function apply(ledger: MemoryLedger, operation: Operation): Verdicted {
  const row = rowOf(operation);
  const now = ledger.now();
  const record = ledger.records.get(row);
  const { answer, next, past } = decide(record, operation, now);
  if (next) put(ledger, next, past);
  return { answer, record: next ?? record, now };
}

/** Frozen, because the very objects are handed out: nobody can change what is recorded. */
function put({ records, attempts }: Pick<MemoryLedger, "records" | "attempts">, next: LedgerRecord, past: AttemptEntry | undefined): void {
  const row = rowOf(next);
  records.set(row, Object.freeze(next));
  if (past) attempts.set(row, [...(attempts.get(row) ?? []), Object.freeze(past)]);
}
