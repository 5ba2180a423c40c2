import { delimiter } from "node:path";
import { expect, test } from "vitest";
import { runCommand } from "../servers/process/command.js";
import { fetchGrpcio, findPython, pythonSdk } from "../servers/sources/python.js";

const python = await findPython();

test("the tests of the Python SDK pass", async ({ skip }) => {
  if (!python.ok) return skip(python.reason);
  const grpcio = await fetchGrpcio(python);
  const env = {
    ...process.env,
    PYTHONPATH: [pythonSdk, ...(grpcio.ok ? [grpcio.folder] : [])].join(delimiter),
    PYTHONDONTWRITEBYTECODE: "1",
  };
  // unittest prints to standard error; the option joins the two.
  const run = "import sys, unittest; sys.stderr = sys.stdout; unittest.main(module=None, argv=['unittest'])";
  const printed = await runCommand(python.path, ["-W", "error::ResourceWarning", "-c", run], { boundMs: 170_000, cwd: pythonSdk, env });
  expect(Number(/Ran (\d+) tests/.exec(printed)?.[1])).toBeGreaterThan(50);
  expect(printed).toMatch(grpcio.ok ? /^OK$/m : /^OK \(skipped=3\)$/m);
});
