import { mkdir, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { createHook, sleep, workflow } from "onceflow/workflow";
import { getRun, resumeHook, start } from "onceflow/workflow/api";
import { waitForHook, waitForSleep } from "onceflow/workflow/vitest";
import { expect, onTestFinished, test } from "vitest";
import { thrownBy } from "../../kit/thrown-by.js";
import { runCommand } from "../../servers/process/command.js";
import { memoryOnly } from "./scene.js";

const root = resolve(import.meta.dirname, "../../..");

const files = {
  "vitest.config.ts": `
    import { workflow } from "onceflow/workflow/vitest";
    import { defineConfig } from "vitest/config";
    export default defineConfig({ plugins: [workflow()], test: { include: ["*.test.ts"] } });
  `,
  "approval.ts": `
    import { createHook, sleep } from "onceflow/workflow";
    async function charge(amount: number) {
      "use step";
      return amount * 2;
    }
    export async function approval(doc: string) {
      "use workflow";
      const charged = await charge(21);
      await sleep("7d");
      using hook = createHook<{ approved: boolean }>({ token: \`approve:\${doc}\` });
      const { approved } = await hook;
      return { doc, charged, approved };
    }
  `,
  "approval.test.ts": `
    import { resumeHook, start } from "onceflow/workflow/api";
    import { waitForHook, waitForSleep } from "onceflow/workflow/vitest";
    import { expect, test } from "vitest";
    import { approval } from "./approval.js";
    test("a document is approved", async () => {
      const run = await start(approval, ["doc-1"]);
      expect(await waitForSleep(run)).toBe("sleep#0");
      await run.wakeUp();
      const hook = await waitForHook(run, { token: "approve:doc-1" });
      await resumeHook(hook.token, { approved: true });
      expect(await run.returnValue).toEqual({ doc: "doc-1", charged: 42, approved: true });
    });
  `,
};

test("workflow() in vitest.config.ts makes directives work in tests, on a store in memory, without further setup", async () => {
  const folder = join(root, ".build", `vitest-${process.pid}`);
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await mkdir(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const { ONCEFLOW_URL: _, VITEST: __, ...env } = process.env;
  const cli = join(root, "node_modules/vitest/vitest.mjs");
  const printed = await runCommand(process.execPath, [cli, "run", "--root", folder], { boundMs: 60_000, cwd: folder, env });
  expect(stripVTControlCharacters(printed)).toMatch(/Tests +1 passed/);
});

test("waitForHook returns the hook that has received nothing, with its details; waitForSleep returns the sleep that ends first", async () => {
  const store = await memoryOnly();
  const waits = workflow("compat vitest waits", async () => {
    const [first, second] = [createHook<string>({ token: "first", metadata: { door: 1 } }), createHook<string>({ token: "second" })];
    await Promise.race([sleep("2h"), sleep("1h")]);
    return [await first, await second];
  });
  const run = await start(waits, [], { store, id: "waits" });
  expect(await waitForSleep(run)).toBe("sleep#1");
  const first = await waitForHook(run);
  expect(first).toMatchObject({ token: "first", runId: "waits", hookId: "waits/hook#0", metadata: { door: 1 } });
  expect((await waitForHook(run, { token: "second" })).token).toBe("second");
  await resumeHook(first.token, "a", { store });
  // Also before the run has consumed the payload.
  expect((await waitForHook(run)).token).toBe("second");
  await resumeHook("second", "b", { store });
  await run.wakeUp();
  expect(await run.returnValue).toEqual(["a", "b"]);
});

test("waiting for a hook or sleep that does not come fails, and the error says what the run waits for instead", async () => {
  const store = await memoryOnly();
  const waits = workflow("compat vitest other", async () => await createHook({ token: "only" }));
  const run = await start(waits, [], { store, id: "other" });
  await waitForHook(run);
  expect((await thrownBy(waitForSleep(run, { timeout: 20, pollInterval: 5 }))).message).toBe(
    'waited for 20 ms for a sleep, but run "other" has a hook with the token "only"',
  );
  await resumeHook("only", 1, { store });
  await run.returnValue;
  expect((await thrownBy(waitForHook(run))).message).toMatch(/^waited for a hook .*, but run "other" has ended: completed/);
  expect((await thrownBy(waitForHook(getRun("none", { store })))).name).toBe("RunNotFoundError");
  expect((await thrownBy(waitForSleep(run, { timeout: -1 }))).name).toBe("InvalidInputError");
});
