import { simulateGraphs } from "onceflow/testing";
import { describe, expect, test } from "vitest";
import { effort } from "../../kit/effort.js";
import { muteWarnings } from "../../kit/warnings.js";

muteWarnings("ONCEFLOW_NOT_SAVED");

/** Every seed that ever failed stays here. */
const keptSeeds: readonly number[] = [4, 6, 11, 84, 90, 130, 181, 409, 619, 1119, 2340, 2559, 3143, 4548, 21_959];
const seeds = Number(process.env["ONCEFLOW_SEEDS"] ?? effort({ quick: 150, full: 1000 }));

describe("the simulated runtime of flow graphs", () => {
  test(`keeps its promises in ${seeds} seeds`, { timeout: 600_000 }, async () => {
    const total = { executions: 0, packets: 0, calls: 0, dead: 0, crashes: 0 };
    for (const seed of [...keptSeeds, ...Array.from({ length: seeds }, (_, i) => i + 1)]) {
      const report = await simulateGraphs(seed);
      for (const name of Object.keys(total) as (keyof typeof total)[]) total[name] += report[name];
    }
    // A simulation without faults would prove nothing.
    expect(total.executions).toBeGreaterThan(seeds * 2);
    expect(total.packets).toBeGreaterThan(seeds * 6);
    expect(total.calls).toBeGreaterThan(seeds * 6);
    expect(total.dead).toBeGreaterThan(seeds / 4);
    expect(total.crashes).toBeGreaterThan(seeds);
  });

  test("produces the same history for the same seed", async () => {
    for (const seed of [3, 77, 619]) expect((await simulateGraphs(seed)).trace).toEqual((await simulateGraphs(seed)).trace);
  });
});
