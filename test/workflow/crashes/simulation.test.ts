import { open } from "onceflow";
import { replayJournal, simulateWorkflows } from "onceflow/testing";
import { step, work, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { describe, expect, test } from "vitest";
import { effort } from "../../kit/effort.js";
import { captureWarnings, muteWarnings } from "../../kit/warnings.js";

muteWarnings("ONCEFLOW_NOT_SAVED");

/** Every seed that ever failed stays in this list. */
const keptSeeds: readonly number[] = [50_851, 72_603, 1134, 1927, 125, 1438, 1642, 1016, 270, 20_337, 21_778, 31_620, 675, 3643, 560];
const seeds = Number(process.env["ONCEFLOW_SEEDS"] ?? effort({ quick: 150, full: 1000 }));

describe("the workflow engine, simulated", () => {
  test(`keeps its promises in ${seeds} seeds`, { timeout: 600_000 }, async () => {
    const total = { runs: 0, bodies: 0, crashes: 0 };
    for (const seed of [...keptSeeds, ...Array.from({ length: seeds }, (_, i) => i + 1)]) {
      const report = await simulateWorkflows(seed);
      total.runs += report.runs;
      total.bodies += report.bodies;
      total.crashes += report.crashes;
    }
    // A simulation in which nothing fails proves nothing.
    expect(total.runs).toBeGreaterThan(seeds * 2);
    expect(total.bodies).toBeGreaterThan(seeds * 5);
    expect(total.crashes).toBeGreaterThan(seeds * 2);
  });

  test("keeps its promises with the replay check on, which reports nothing because the simulated code is deterministic", {
    timeout: 300_000,
  }, async () => {
    const warnings = captureWarnings();
    for (let seed = 1; seed <= Math.max(1, seeds / 10); seed++) await simulateWorkflows(seed, { replayCheck: true });
    // Workers with changed code behave differently if the run began on another worker: the check is right to report those.
    const found = warnings.filter(
      ({ code, message }) => code === "ONCEFLOW_REPLAY_CHECK" && !message.includes("Found: the code has ended"),
    );
    expect(found).toEqual([]);
  });

  test("gives the same trace for the same seed", async () => {
    for (const seed of [3, 77, 1234, 5754]) expect((await simulateWorkflows(seed)).trace).toEqual((await simulateWorkflows(seed)).trace);
  });
});

/** The same, of seeds with operators. */
const keptWithOperators: readonly number[] = [
  10, 30, 55, 85, 92, 95, 101, 115, 128, 180, 240, 292, 351, 396, 398, 404, 488, 547, 654, 707, 1039, 1549, 1552, 2019, 2038, 2395, 902,
  5708, 2215, 2890, 3707, 8028, 9160, 9470, 9682, 9912, 10_201, 11_100, 11_495, 13_585, 14_426, 14_795, 15_087, 16_056, 16_164, 17_341,
  17_966, 17_988, 19_065, 21_574, 24_999, 28_907,
];
const seedsWithOperators = Number(process.env["ONCEFLOW_SEEDS"] ?? effort({ quick: 100, full: 500 }));

describe("the workflow engine with operators, simulated", () => {
  test(`keeps its promises in ${seedsWithOperators} seeds`, { timeout: 600_000 }, async () => {
    const total = { actions: 0, refusals: 0, crashes: 0 };
    for (const seed of [...keptWithOperators, ...Array.from({ length: seedsWithOperators }, (_, i) => i + 1)]) {
      const report = await simulateWorkflows(seed, { operators: true });
      total.actions += report.actions;
      total.refusals += report.refusals;
      total.crashes += report.crashes;
    }
    expect(total.actions).toBeGreaterThan(seedsWithOperators * 2);
    expect(total.refusals).toBeGreaterThan(seedsWithOperators * 2);
    expect(total.crashes).toBeGreaterThan(seedsWithOperators * 2);
  });

  test("gives the same trace for the same seed", async () => {
    const trace = async (seed: number) => (await simulateWorkflows(seed, { operators: true })).trace;
    for (const seed of [2, 55, 398]) expect(await trace(seed)).toEqual(await trace(seed));
  });
});

/** The same, of seeds in which operators also stop runs, which have deadlines. */
const keptWithStops: readonly number[] = [3, 754, 759, 1042, 1754];
const seedsWithStops = Number(process.env["ONCEFLOW_SEEDS"] ?? effort({ quick: 40, full: 400 }));

describe("the workflow engine with operators who stop runs, simulated", () => {
  test(`keeps its promises in ${seedsWithStops} seeds`, { timeout: 600_000 }, async () => {
    const total = { actions: 0, refusals: 0 };
    for (const seed of [...keptWithStops, ...Array.from({ length: seedsWithStops }, (_, i) => i + 1)]) {
      const report = await simulateWorkflows(seed, { operators: true, stops: true });
      total.actions += report.actions;
      total.refusals += report.refusals;
    }
    expect(total.actions).toBeGreaterThan(seedsWithStops * 2);
    expect(total.refusals).toBeGreaterThan(seedsWithStops * 2);
  });

  test("needs operators", async () => {
    await expect(simulateWorkflows(1, { stops: true })).rejects.toMatchObject({ code: "INVALID_INPUT", field: "stops" });
  });
});

describe("replayJournal", () => {
  test("reports whether the code ends, would continue or has diverged, and executes nothing", async () => {
    const store = await open("memory:");
    let calls = 0;
    const count = step("count", async (by: number) => {
      calls += by;
      return calls;
    });
    const twice = workflow("replayed twice", async () => [await count(1), await count(2)]);
    const thrice = workflow("replayed thrice", async () => [await count(3), await count(1), await count(2)]);
    await work(store, { workflows: [twice] });
    await start(twice, [], { id: "r", store }).then((run) => run.returnValue);
    const run = (await store.runs.read("r")) ?? expect.fail("the run is there");
    const journal = await store.runs.journal("r", 0, 100);
    expect(await replayJournal({ workflow: twice, run, journal })).toEqual({ kind: "ended", status: "completed", output: "[1,3]" });
    expect(await replayJournal({ workflow: twice, run, journal: journal.slice(0, 1) })).toEqual({ kind: "open" });
    expect(await replayJournal({ workflow: thrice, run, journal })).toMatchObject({ kind: "diverged" });
    expect(calls).toBe(3);
    await store.close();
  });
});
