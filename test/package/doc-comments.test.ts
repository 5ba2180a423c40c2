import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const root = resolve(import.meta.dirname, "../..");

/**
 * Exports that have no doc comment yet. The list only shrinks: a new export has a doc comment from the start.
 *
 *   node scripts/public-api.mjs --undocumented > test/package/undocumented.json
 */
const missing = JSON.parse(readFileSync(join(import.meta.dirname, "undocumented.json"), "utf8")) as readonly string[];

test("every public export has a doc comment", () => {
  const script = join(root, "scripts/public-api.mjs");
  const found = JSON.parse(execFileSync(process.execPath, [script, "--undocumented"], { encoding: "utf8" })) as string[];
  expect(
    found.filter((name) => !missing.includes(name)),
    "exports without a doc comment",
  ).toEqual([]);
  expect(
    missing.filter((name) => !found.includes(name)),
    "documented now: remove them from test/package/undocumented.json",
  ).toEqual([]);
});
