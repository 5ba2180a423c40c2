import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { fullOnly } from "./effort.js";

afterEach(() => void vi.unstubAllEnvs());

/** The module in a run with this ONCEFLOW_TESTS. */
async function effortIn(tier: string | undefined) {
  vi.stubEnv("ONCEFLOW_TESTS", tier);
  vi.resetModules();
  return await import("./effort.js");
}

test("the quick tier is the default and has fewer of everything", async () => {
  for (const tier of [undefined, "quick"]) {
    const { effort, isFull, sample } = await effortIn(tier);
    expect([isFull, effort({ quick: 2, full: 10 }), sample(["a", "b", "c", "d"], 3)]).toEqual([false, 2, ["a", "d"]]);
  }
  const { effort, isFull, sample } = await effortIn("full");
  expect([isFull, effort({ quick: 2, full: 10 }), sample(["a", "b", "c", "d"], 3)]).toEqual([true, 10, ["a", "b", "c", "d"]]);
});

test("a misspelt tier is an error: a run must not test less than it says", async () => {
  await expect(effortIn("ful")).rejects.toThrow("ONCEFLOW_TESTS: must be quick or full");
});

test("every file of the full tier exists", () => {
  const missing = Object.keys(fullOnly).filter((file) => !existsSync(resolve(import.meta.dirname, "..", file)));
  expect(missing).toEqual([]);
});
