import { execFileSync } from "node:child_process";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const script = join(resolve(import.meta.dirname, "../.."), "scripts/public-api.mjs");

test("every public export has a doc comment", () => {
  const undocumented = JSON.parse(execFileSync(process.execPath, [script, "--undocumented"], { encoding: "utf8" })) as string[];
  expect(undocumented).toEqual([]);
});
