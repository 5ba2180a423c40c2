import type { Store } from "onceflow";
import { getRun } from "onceflow/workflow/api";
import { expect } from "vitest";
import { appFolder, type Ran, runNode } from "../../kit/app-folder.js";
import { sample } from "../../kit/effort.js";
import { takeTurns } from "../../kit/heavy.js";
import { durableStores, onStoresInTurn, type Scene } from "../../kit/scene.js";

takeTurns();

/** As in an app: its workflows in one module, `configure` in the entry file. Effects are lines of its output. */
const orders = `import { createHook, sleep, step, workflow } from "onceflow/workflow";
const charge = step("charge", async () => {
  console.log("charge");
  if (process.env.DIE) process.kill(process.pid, "SIGKILL");
  return "charged";
});
export const order = workflow("order", async () => await charge());
export const approval = workflow("approval", async () => await createHook({ token: "approval" }));
export const late = workflow("late", async () => { await sleep(700); return "late"; });
`;

const prelude = `import { configure, open } from "onceflow";
import { getRun, listRuns, start } from "onceflow/workflow/api";
import { approval, late, order } from "./orders.mjs";
const store = () => open(process.env.STORE, { purgeEveryMs: 0 });
const leaseMs = 1000;
process.on("warning", ({ code, message }) => console.log(code, message));
`;

/** Runs an entry file of the app until it ends. */
function runApp(scene: Scene, main: string, env: NodeJS.ProcessEnv = {}): Promise<Ran> {
  const cwd = appFolder({ "orders.mjs": orders, "main.mjs": prelude + main, "package.json": '{ "name": "shop", "version": "4.5.6" }' });
  return runNode(["--no-warnings", "main.mjs"], { cwd, env: { STORE: scene.url, ...env } });
}

/** A run whose process was killed during its step, and whose lease has expired. */
async function killedInStep(scene: Scene): Promise<Store> {
  const main =
    'configure({ store: await store(), worker: { leaseMs } });\nawait start(order, [], { id: "o-1" });\nsetInterval(() => {}, 1000);';
  expect(await runApp(scene, main, { DIE: "1" })).toMatchObject({ code: "SIGKILL", stdout: "charge\n" });
  return await scene.open();
}

const untilEnded = 'while ((await getRun("o-1").status) !== "completed") await new Promise((go) => setTimeout(go, 20));';

onStoresInTurn("the worker of a process", sample(durableStores, 2), (test, on) => {
  test("configure({ worker: true }) in the entry file continues a run of a killed process after the restart, without a new start", async ({
    scene,
  }) => {
    await killedInStep(scene);
    const main = `const opened = await store();\nconfigure({ store: opened, worker: true });\n${untilEnded}\nconsole.log(await getRun("o-1").returnValue);\nawait opened.close();`;
    expect(await runApp(scene, main)).toMatchObject({ code: 0, stdout: "charge\ncharged\n" });
  });

  test("awaiting returnValue starts the worker and keeps the process alive until the run has ended", async ({ scene }) => {
    await killedInStep(scene);
    const main =
      'const opened = await store();\nconfigure({ store: opened });\nconsole.log(await getRun("o-1").returnValue);\nawait opened.close();';
    expect(await runApp(scene, main)).toMatchObject({ code: 0, stdout: "charge\ncharged\n" });
  });

  test("configure({ store }) alone, and worker: false, execute nothing; the caller gets a warning about runs that do not progress", async ({
    scene,
  }) => {
    const kept = await killedInStep(scene);
    const main = (configuration: string) => `const opened = await store();
configure(${configuration});
const warned = new Promise((go) => process.on("warning", go));
while (!(await Promise.race([warned, new Promise((go) => setTimeout(go, 50))]))) await getRun("o-1").status;
await listRuns();
await opened.close();`;
    for (const configuration of ["{ store: opened }", "{ store: opened, worker: false }"]) {
      const { code, stdout } = await runApp(scene, main(configuration));
      expect(code).toBe(0);
      expect(stdout.trim().split("\n")).toEqual([
        expect.stringMatching(
          /^ONCEFLOW_RUNS_OVERDUE run "o-1" of workflow "order" has been due for \d+ s, and no worker has claimed it\. No live worker has this workflow: call configure/,
        ),
      ]);
    }
    expect(await getRun("o-1", { store: kept }).status).toBe("running");
    const waits =
      'const opened = await store();\nconfigure({ store: opened, worker: false });\nsetTimeout(() => process.exit(7), 1500);\nawait getRun("o-1").returnValue;';
    expect((await runApp(scene, waits)).code).toBe(7);
    expect(await getRun("o-1", { store: kept }).status).toBe("running");
  });

  test("the worker is listed with its workflows and the app's version, and is removed from the list when it stops", async ({ scene }) => {
    const main = `const opened = await store();
configure({ store: opened, worker: true });
let workers = [];
while (workers.length === 0) {
  await new Promise((go) => setTimeout(go, 10));
  workers = await opened.runs.workers();
}
console.log(JSON.stringify(workers.map(({ workflows, version, live }) => ({ workflows, version, live }))));
await opened.close();`;
    const { stdout } = await runApp(scene, main);
    expect(JSON.parse(stdout)).toEqual([{ workflows: ["order", "approval", "late"], version: "4.5.6", live: true }]);
    expect(await (await scene.open()).runs.workers()).toEqual([]);
  });

  test("a store that cannot be opened gives a warning, and an error at the next use", async () => {
    const cwd = appFolder({
      "orders.mjs": orders,
      "main.mjs": `${prelude}configure({ worker: true });\nawait new Promise((go) => process.on("warning", go));\nawait start(order).catch(({ message }) => console.log("start:", message));`,
    });
    const { stdout } = await runNode(["--no-warnings", "main.mjs"], { cwd, env: { ONCEFLOW_URL: "nonsense:" } });
    expect(stdout).toMatch(/^ONCEFLOW_WORKER_NOT_STARTED the worker of this process could not start: .*nonsense/);
    expect(stdout).toMatch(/^start: .*nonsense/m);
  });

  test("an invalid step option gives a warning about that option, not about the store", async ({ scene }) => {
    const main =
      'const wrong = step("wrong", async () => {});\nwrong.maxRetry = 0;\nconst opened = await store();\nconfigure({ store: opened, worker: true });\nawait new Promise((go) => process.on("warning", go));\nawait opened.close();';
    const { code, stdout } = await runApp(scene, `import { step } from "onceflow/workflow";\n${main}`);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /could not start: step "wrong": maxRetry: .*did you mean "maxRetries"\? Correct the option and restart the process\./,
    );
    expect(stdout).not.toContain("configure({");
  });

  if (on === "sqlite")
    test("the worker alone does not keep the process alive, and releases its runs before the process ends", async ({ scene }) => {
      const main = 'configure({ store: await store(), worker: { leaseMs: 60_000 } });\nawait start(approval, [], { id: "a" });';
      expect(await runApp(scene, main)).toMatchObject({ code: 0, stdout: "" });
      const store = await scene.open();
      expect(await store.runs.read("a")).toMatchObject({ status: "running", owner: null });
      expect(await store.runs.workers()).toEqual([]);
      const idle = await runApp(scene, "configure({ store: await store(), worker: true });");
      expect(idle).toMatchObject({ code: 0, stdout: "" });
    });

  test("a misspelt option is an error with a suggestion", async ({ scene }) => {
    const main = `for (const wrong of [{ wroker: true }, { worker: "yes" }, { worker: { concurency: 1 } }])
  try { configure(wrong); } catch (error) { console.log(error.message); }`;
    const { stdout } = await runApp(scene, main);
    expect(stdout).toContain('configure: wroker: is not an option; did you mean "worker"?');
    expect(stdout).toContain("worker: must be true, false or an object of options");
    expect(stdout).toContain('configure: worker: concurency: is not an option; did you mean "concurrency"?');
  });
});
