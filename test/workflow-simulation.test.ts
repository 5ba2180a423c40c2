import { simulateWorkflows } from "onceflow/testing";
import { describe, expect, test } from "vitest";

/** Every seed that ever failed stays here for ever. */
const keptSeeds: readonly number[] = [];
const seedsOfEveryRun = 1000;
const seeds = Number(process.env["ONCEFLOW_SEEDS"] ?? seedsOfEveryRun);

describe("the workflow engine, simulated", () => {
  test(`keeps its promises in ${seeds} seeds`, { timeout: 600_000 }, async () => {
    const total = { runs: 0, bodies: 0, crashes: 0 };
    for (const seed of [...keptSeeds, ...Array.from({ length: seeds }, (_, i) => i + 1)]) {
      const report = await simulateWorkflows(seed);
      total.runs += report.runs;
      total.bodies += report.bodies;
      total.crashes += report.crashes;
    }
    // A simulator in which nothing goes wrong proves nothing.
    expect(total.runs).toBeGreaterThan(seeds * 2);
    expect(total.bodies).toBeGreaterThan(seeds * 5);
    expect(total.crashes).toBeGreaterThan(seeds * 2);
  });

  test("replays a seed to the letter", async () => {
    for (const seed of [3, 77, 1234, 5754]) expect((await simulateWorkflows(seed)).trace).toEqual((await simulateWorkflows(seed)).trace);
  });
});
