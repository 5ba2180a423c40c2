import { join } from "node:path";
import { open as openStore } from "onceflow";
import { sleep, step, type Worker, work, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import type { Contender, Hooks, OpenOptions, Recovered } from "./contender.js";

const concurrency = 200;
/** Short, so that the run of a killed worker can be claimed soon. The lease is not part of the measured time. */
const recoveredLeaseMs = 1000;

export async function open({ url, folder, hooks, resting = false }: OpenOptions): Promise<Contender> {
  const store = await openStore(url ?? `sqlite:${join(folder, "onceflow.db")}`);
  const { threeSteps, manySteps, sleeper, last } = define(hooks);
  const workflows = [threeSteps, manySteps, sleeper];
  let worker: Worker | undefined = resting ? undefined : await work(store, { workflows, concurrency, replayCheck: false });
  return {
    run: async () => (await start(threeSteps, [1], { store })).returnValue,
    longRun: async (steps) => (await start(manySteps, [steps], { store })).returnValue,
    sleep: (index, dueAt) => start(sleeper, [index, dueAt], { store }),
    flushes: () => store.metrics.flushes,
    async hang(steps) {
      worker = await work(store, { workflows, concurrency, leaseMs: recoveredLeaseMs, replayCheck: false });
      last.holds = true;
      const reached = last.reached();
      await start(manySteps, [steps], { store });
      await reached;
      return { freeAfterMs: recoveredLeaseMs };
    },
    async recover(): Promise<Recovered> {
      const startedAt = performance.now();
      const reached = last.reached();
      worker = await work(store, { workflows, concurrency, replayCheck: false });
      await reached;
      return { resumedMs: performance.now() - startedAt };
    },
    async close() {
      await worker?.stop();
      await store.close();
    },
  };
}

/** The last step of the long run: it can be made to hang, and reports when it begins. */
interface LastStep {
  holds: boolean;
  reached(): Promise<void>;
}

function define(hooks: Hooks) {
  const s1 = step("s1", async (n: number) => n + 1);
  const s2 = step("s2", async (n: number) => n + 1);
  const s3 = step("s3", async (n: number) => n + 1);
  const threeSteps = workflow("threeSteps", async (n: number) => s3(await s2(await s1(n))));

  let onReached = () => {};
  const last: LastStep = {
    holds: false,
    reached: () =>
      new Promise((resolve) => {
        onReached = resolve;
      }),
  };
  const add = step("add", async (n: number, isLast: boolean) => {
    hooks.step();
    if (isLast) onReached();
    if (isLast && last.holds) await new Promise(() => {});
    return n + 1;
  });
  const manySteps = workflow("manySteps", async (steps: number) => {
    let n = 0;
    for (let i = 1; i <= steps; i++) n = await add(n, i === steps);
    return n;
  });

  const sleeper = workflow("sleeper", async (index: number, dueAt: number) => {
    await sleep(new Date(dueAt));
    hooks.woke(index);
  });
  return { threeSteps, manySteps, sleeper, last };
}
