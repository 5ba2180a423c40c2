import { createHook, getStepMetadata, RunCancelledError, RunFailedError, sleep, step, type Workflow, workflow } from "onceflow/workflow";
import { getRun, listRuns, resumeHook, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { story, untilReleased } from "../scene.js";

onStores("children", everyStore, (test) => {
  test("a child returns its result, and its id is derived from its parent and its place in the code", async ({ scene }) => {
    const double = step("double", async (n: number) => n * 2);
    const child = workflow(scene.name("child"), async (n: number) => await double(n));
    const parent = workflow(scene.name("parent"), async () => {
      const runs = [await start(child, [1]), await start(child, [2])];
      return [runs.map(({ id }) => id), await Promise.all(runs.map((run) => run.returnValue))] as const;
    });
    const { store } = await scene.work();
    const [ids, results] = await (await start(parent, [], { id: "p", store })).returnValue;
    expect(results).toEqual([2, 4]);
    expect(new Set(ids).size).toBe(2);
    for (const id of ids) {
      expect(id).toMatch(/^run_[\w-]{27}$/);
      expect((await store.runs.read(id))?.parent).toBe("p");
    }
    const other = await scene.work({}, await scene.open());
    const [again] = await (await start(parent, [], { id: "q", store: other.store })).returnValue;
    expect(again).not.toEqual(ids);
  });

  test("children are the same runs after a takeover, and are started once", async ({ scene }) => {
    let calls = 0;
    const reached = gate();
    const count = step("count", async () => ++calls);
    const child = workflow(scene.name("child"), async () => await count());
    const hold = step("hold", async () => {
      reached.open();
      if (getStepMetadata().attempt === 1) await new Promise(() => {});
    });
    const parent = workflow(scene.name("parent"), async () => {
      const run = await start(child);
      const first = await run.returnValue;
      await hold();
      return [run.id, first, await (await start(child)).returnValue];
    });
    const doomed = await scene.workAndDie();
    await start(parent, [], { id: "p", store: doomed.store });
    await reached.opened;
    const [born] = (await listRuns({ store: doomed.store, status: "completed" })).items;
    doomed.die();
    const { store } = await scene.work();
    expect(await getRun("p", { store }).returnValue).toEqual([born?.id, 1, 2]);
    expect((await listRuns({ store })).items).toHaveLength(3);
  });

  test("a failed or cancelled child rejects in the parent", async ({ scene }) => {
    const failing = workflow(scene.name("failing"), async () => Promise.reject(new Error("child's own")));
    const sleeping = workflow(scene.name("sleeping"), async () => await sleep("1h"));
    const parent = workflow(scene.name("parent"), async () => {
      const [bad, asleep] = [await start(failing), await start(sleeping, [], { id: "asleep" })];
      const results = await Promise.allSettled([bad.returnValue, asleep.returnValue]);
      return results.map((result) => {
        if (result.status === "fulfilled") return "fulfilled";
        if (result.reason instanceof RunFailedError) return ["failed", (result.reason.cause as Error).message];
        return result.reason instanceof RunCancelledError ? ["cancelled", result.reason.runId] : "another error";
      });
    });
    const { store } = await scene.work();
    const run = await start(parent, [], { store });
    await until("the child is there", () => getRun("asleep", { store }).exists);
    await getRun("asleep", { store }).cancel();
    expect(await run.returnValue).toEqual([
      ["failed", "child's own"],
      ["cancelled", "asleep"],
    ]);
  });

  test("an uncaught failure of a child fails the parent, with the first cause at the end of the chain", async ({ scene }) => {
    const failing = workflow(scene.name("failing"), async () => Promise.reject(new Error("the first cause")));
    const parent: Workflow<[], unknown> = workflow(scene.name("parent"), async () => await (await start(failing)).returnValue);
    const grand = workflow(scene.name("grand"), async () => await (await start(parent)).returnValue);
    const { store } = await scene.work();
    const error = await (await start(grand, [], { store })).returnValue.catch((thrown: Error) => thrown);
    expect((error as Error).message).toContain("the first cause");
  });

  test("children can have children, at any depth", async ({ scene }) => {
    const name = scene.name("tree");
    const tree: Workflow<[number], number> = workflow(name, async (depth: number): Promise<number> => {
      if (depth === 0) return 1;
      const [left, right] = [await start(tree, [depth - 1]), await start(tree, [depth - 1])];
      return (await left.returnValue) + (await right.returnValue);
    });
    const { store } = await scene.work();
    expect(await (await start(tree, [3], { store })).returnValue).toBe(8);
    expect((await listRuns({ store, workflow: name, limit: 100 })).items).toHaveLength(15);
  });

  test("parents free their slot while they wait, so that more children run than the worker has slots", async ({ scene }) => {
    const name = scene.name("tree");
    const tree: Workflow<[number], number> = workflow(name, async (depth: number): Promise<number> => {
      if (depth === 0) return 1;
      const children = await Promise.all([0, 1].map(() => start(tree, [depth - 1])));
      return (await Promise.all(children.map((child) => child.returnValue))).reduce((sum, n) => sum + n, 0);
    });
    const { store } = await scene.work({ concurrency: 1 });
    expect(await (await start(tree, [3], { store })).returnValue).toBe(8);
  });

  test("a child with an existing id is that run, even if another caller started it", async ({ scene }) => {
    let calls = 0;
    const count = step("count", async () => ++calls);
    const shared = workflow(scene.name("shared"), async () => await count());
    const parent = workflow(scene.name("parent"), async () => {
      const run = await start(shared, [], { id: "shared-1" });
      return await run.returnValue;
    });
    const { store } = await scene.work();
    expect(await (await start(shared, [], { id: "shared-1", store })).returnValue).toBe(1);
    const parents = [await start(parent, [], { store }), await start(parent, [], { store })];
    expect(await Promise.all(parents.map((run) => run.returnValue))).toEqual([1, 1]);
    expect(calls).toBe(1);
  });

  test("the same holds while the run of the other caller is still running", async ({ scene }) => {
    const waiting = workflow(scene.name("waiting"), async () => await createHook({ token: "t" }));
    const parent = workflow(scene.name("parent"), async () => await (await start(waiting, [], { id: "w" })).returnValue);
    const { store } = await scene.work();
    await start(waiting, [], { id: "w", store });
    const run = await start(parent, [], { store });
    await until("it has started", async () => (await story(store, run.id)).length > 0);
    await resumeHook("t", "payload", { store });
    expect(await run.returnValue).toBe("payload");
  });

  test("one child started twice by its id is one run, awaited twice", async ({ scene }) => {
    let calls = 0;
    const count = step("count", async () => ++calls);
    const child = workflow(scene.name("child"), async () => await count());
    const parent = workflow(scene.name("parent"), async () => {
      const [one, two] = [await start(child, [], { id: "c" }), await start(child, [], { id: "c" })];
      return [await one.returnValue, await two.returnValue, await one.returnValue];
    });
    const { store } = await scene.work();
    expect(await (await start(parent, [], { store })).returnValue).toEqual([1, 1, 1]);
    expect(calls).toBe(1);
  });

  test("a child continues without its parent if the parent does not wait for it", async ({ scene }) => {
    const child = workflow(scene.name("child"), async () => {
      await sleep(20);
      return "grown up";
    });
    const parent = workflow(scene.name("parent"), async () => (await start(child)).id);
    const { store } = await scene.work();
    const id = await (await start(parent, [], { store })).returnValue;
    expect(await getRun(id, { store }).returnValue).toBe("grown up");
  });

  test("a parent that waits for long is released, and the child's end wakes it", async ({ scene }) => {
    const child = workflow(scene.name("child"), async () => await createHook({ token: "t" }));
    const parent = workflow(scene.name("parent"), async () => await (await start(child)).returnValue);
    const { store, worker } = await scene.work();
    const run = await start(parent, [], { store });
    await until("the child waits for its hook", async () => (await store.runs.hook("t")) !== undefined);
    await untilReleased(store, run.id);
    await until("both have left", () => worker.running === 0);
    await resumeHook("t", "come back", { store });
    expect(await run.returnValue).toBe("come back");
  });

  test("children are executed by other processes, too", async ({ scene }) => {
    const child = workflow(scene.name("child"), async (n: number) => n + 1);
    const parent = workflow(scene.name("parent"), async () => await (await start(child, [1])).returnValue);
    const { store } = await scene.work({ workflows: [parent] });
    const run = await start(parent, [], { store });
    await scene.work({ workflows: [child] });
    expect(await run.returnValue).toBe(2);
  });

  test("start() inside a step derives the id from its stepId, so that a retry starts the same run", async ({ scene }) => {
    let calls = 0;
    const count = step("count", async () => ++calls);
    const child = workflow(scene.name("child"), async (n: number) => [n, await count()]);
    const launch = step(
      "launch",
      async () => {
        const runs = [await start(child, [1]), await start(child, [2])];
        if (getStepMetadata().attempt === 1) throw new Error("after the starts");
        return [runs.map(({ id }) => id), await Promise.all(runs.map((run) => run.returnValue))] as const;
      },
      { backoff: { minMs: 1, maxMs: 1 } },
    );
    const parent = workflow(scene.name("parent"), async () => await launch());
    const { store } = await scene.work();
    const [ids, results] = await (await start(parent, [], { store })).returnValue;
    expect(new Set(ids).size).toBe(2);
    expect(results.map(([n]) => n)).toEqual([1, 2]);
    expect(calls).toBe(2);
    expect((await listRuns({ store })).items).toHaveLength(3);
  });

  test("the result of a run that the workflow did not start can be read in a step; in the workflow code it is an error that says so", async ({
    scene,
  }) => {
    const other = workflow(scene.name("other"), async () => "other's");
    const ask = step("ask", async (id: string) => await getRun<string>(id, { store }).returnValue);
    const parent = workflow(scene.name("parent"), async () => {
      const direct = await getRun("other", { store }).returnValue.catch((error: Error) => error.message);
      return [direct, await ask("other")];
    });
    const { store } = await scene.work();
    await start(other, [], { id: "other", store });
    const [direct, asked] = await (await start(parent, [], { store })).returnValue;
    expect(direct).toContain("step");
    expect(asked).toBe("other's");
  });

  test("a workflow that is called in a workflow is a plain function: its steps belong to the caller", async ({ scene }) => {
    const add = step("add", async (n: number) => n + 1);
    const part = workflow(scene.name("part"), async (n: number) => await add(n));
    const whole = workflow(scene.name("whole"), async () => (await part(1)) + (await part(10)));
    const { store } = await scene.work();
    const run = await start(whole, [], { store });
    expect(await run.returnValue).toBe(13);
    expect(await story(store, run.id)).toEqual(["step add#0", "done add#0", "step add#1", "done add#1", "end completed"]);
  });
});
