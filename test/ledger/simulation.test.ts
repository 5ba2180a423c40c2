import { decide, type LedgerRecord, type Operation, type Verdicted } from "onceflow/store";
import { type SimulationOptions, simulate } from "onceflow/testing";
import { describe, expect, test } from "vitest";
import { effort } from "../kit/effort.js";
import { muteWarnings } from "../kit/warnings.js";

muteWarnings("ONCEFLOW_NOT_SAVED");

/** Every seed that ever failed stays in this list. */
const keptSeeds: readonly number[] = [];
const seedsForMore = Number(process.env["ONCEFLOW_SEEDS"] ?? effort({ quick: 500, full: 2000 }));

describe("the ledger, simulated", () => {
  test(`keeps its promises in ${seedsForMore} seeds`, { timeout: 600_000 }, async () => {
    const total = { attempts: 0, crashes: 0, operations: 0 };
    for (const seed of [...keptSeeds, ...Array.from({ length: seedsForMore }, (_, i) => i + 1)]) {
      const report = await simulate(seed);
      total.attempts += report.attempts;
      total.crashes += report.crashes;
      total.operations += report.operations;
    }
    // A simulation in which nothing fails proves nothing.
    expect(total.crashes).toBeGreaterThan(seedsForMore);
    expect(total.attempts).toBeGreaterThan(seedsForMore * 3);
  });

  test("gives the same trace for the same seed", async () => {
    for (const seed of [3, 77, 1234]) expect((await simulate(seed)).trace).toEqual((await simulate(seed)).trace);
  });
});

/** Decides like a store that breaks one promise, on the same ledger: the simulator must find each of them. */
type Sabotage = (record: LedgerRecord | undefined, operation: Operation, now: number) => ReturnType<typeof decide>;

function sabotaged(sabotage: Sabotage): NonNullable<SimulationOptions["backend"]> {
  return (ledger) => ({
    name: "sabotaged",
    capabilities: { transactions: false, sharedClock: true, durable: false, runs: false, packets: false },
    flush: async (operations) =>
      operations.map((operation): Verdicted => {
        const row = `${operation.scope}\0${operation.key}`;
        const record = ledger.records.get(row);
        const now = ledger.now();
        const { answer, next } = sabotage(record, operation, now);
        if (next) ledger.records.set(row, next);
        return { answer, record: next ?? record, now };
      }),
    read: async ({ scope, key }) => {
      const record = ledger.records.get(`${scope}\0${key}`);
      return record && { record, now: ledger.now() };
    },
    attempts: async () => [],
    list: async () =>
      [...ledger.records.values()].map((record) => ({ record, now: ledger.now() })).filter((r) => r.record.state === "unknown"),
    purge: async () => 0,
    audit: async () => {},
    audited: async () => [],
    close: async () => {},
  });
}

const sabotages: Record<string, Sabotage> = {
  "lets a stale owner settle": (record, operation, now) =>
    record && operation.verb === "settle"
      ? decide({ ...record, owner: operation.owner, attempt: operation.attempt, state: "running" }, operation, now)
      : decide(record, operation, now),
  "takes over a live lease": (record, operation, now) =>
    decide(
      record && operation.verb === "begin" && record.owner !== operation.owner ? { ...record, leaseUntil: 0 } : record,
      operation,
      now,
    ),
  "re-runs atMostOnce after a crash": (record, operation, now) =>
    record?.effect === "atMostOnce" && operation.verb === "begin"
      ? decide({ ...record, effect: "idempotent" }, { ...operation, effect: "idempotent" }, now)
      : decide(record, operation, now),
  "forgets the attempt number when a key is freed": (record, operation, now) =>
    decide(record?.state === "free" ? undefined : record, operation, now),
  "drops a late result": (record, operation, now) =>
    record?.state === "running" && operation.verb === "settle" && now >= record.leaseUntil
      ? { answer: { kind: "stale", record } }
      : decide(record, operation, now),
  "keeps the key of a dead attempt without end": (record, operation, now) =>
    record?.state === "running" && operation.verb === "begin" && record.owner !== operation.owner
      ? { answer: { kind: "running", attempt: record.attempt, forMs: 10 } }
      : decide(record, operation, now),
  "answers with the outcome of another input": (record, operation, now) =>
    decide(record && { ...record, fingerprint: null }, operation, now),
};

describe("the simulator finds a store that", () => {
  for (const [name, sabotage] of Object.entries(sabotages)) {
    test(name, async () => {
      const found = (async () => {
        for (let seed = 1; seed <= 500; seed++) await simulate(seed, { backend: sabotaged(sabotage) });
      })();
      await expect(found).rejects.toThrow(/seed \d+: /);
    });
  }
});
