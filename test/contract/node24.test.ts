import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { ledgerContract, packetContract, runContract, sqliteTarget } from "onceflow/testing";
import { expect, inject, test } from "vitest";
import { takeTurns } from "../kit/heavy.js";

takeTurns();

const program = fileURLToPath(new URL("../../.build/test/contract/programs/contract.js", import.meta.url));
/** Enough for two contracts on a busy machine. */
const runMsMax = 110_000;
const target = sqliteTarget({ driver: "node:sqlite" });
const cases = [...ledgerContract, ...runContract, ...packetContract].flatMap((group) =>
  group.cases.filter((one) => one.skip(target) === undefined),
);

/** The output of the program, whether or not it passed. */
function run(node: string): Promise<{ readonly code: number | string | null | undefined; readonly output: string }> {
  // With these variables, its child processes would report to a test runner that does not exist.
  const { NODE_TEST_CONTEXT: _, NODE_OPTIONS: __, ...env } = process.env;
  return new Promise((resolve) => {
    execFile(node, [program], { env, timeout: runMsMax, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      resolve({ code: error ? (error.code ?? error.signal) : 0, output: `${stdout}\n${stderr}` });
    });
  });
}

test("the SQLite contracts hold on Node 24 with Node's built-in driver", { timeout: runMsMax + 10_000 }, async ({ skip }) => {
  const node24 = inject("node24");
  if (!node24.ok) return skip(node24.reason);
  const { code, output } = await run(node24.path);
  const failed = output.slice(output.indexOf("failing tests:"));
  expect(code, failed).toBe(0);
  expect(output).toMatch(/\{"node":"v24\.[^"]+","target":"sqlite with node:sqlite","otherWasLoaded":false\}/);
  expect(output).toContain(`pass ${cases.length}`);
});
