import { createHook, getWritable, step, type Workflow, workflow } from "onceflow/workflow";
import { getRun, resumeHook, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";

onStores("steps that wait for runs", everyStore, (test) => {
  test("a worker whose slots are all taken by such steps executes the runs that they wait for", async ({ scene }) => {
    const double = step("double", async (n: number) => n * 2);
    const child = workflow(scene.name("child"), async (n: number) => await double(n));
    const ask = step("ask", async (n: number) => await (await start(child, [n])).returnValue);
    const parent = workflow(scene.name("parent"), async (n: number) => await ask(n));
    const { store } = await scene.work({ concurrency: 10 });
    const runs = await Promise.all(Array.from({ length: 10 }, (_, n) => start(parent, [n], { store })));
    expect(await Promise.all(runs.map((run) => run.returnValue))).toEqual(runs.map((_, n) => n * 2));
  });

  test("works at any depth: steps that wait for runs whose steps wait for runs, with children between them", async ({ scene }) => {
    const nested: Workflow<[number], number> = workflow(scene.name("nested"), async (depth: number): Promise<number> => {
      if (depth === 0) return 0;
      return depth % 2 === 0 ? 1 + (await ask(depth - 1)) : 1 + (await (await start(nested, [depth - 1])).returnValue);
    });
    const ask = step("ask", async (depth: number): Promise<number> => await (await start(nested, [depth])).returnValue);
    const { store } = await scene.work({ concurrency: 1 });
    expect(await (await start(nested, [6], { store })).returnValue).toBe(6);
  });

  test("works for a step that reads the stream of a run, and for one that waits for a run that waits for a hook", async ({ scene }) => {
    const say = step("say", async (word: string) => {
      const writer = getWritable<string>().getWriter();
      await writer.write(word);
      await writer.close();
    });
    const speaker = workflow(scene.name("speaker"), async () => {
      await say("one");
      return await createHook<string>({ token: "go" });
    });
    const listen = step("listen", async () => {
      const run = await start(speaker);
      const words: unknown[] = [];
      for await (const word of run.readable) words.push(word);
      return [...words, await run.returnValue];
    });
    const parent = workflow(scene.name("parent"), async () => await listen());
    const { store } = await scene.work({ concurrency: 1 });
    const run = await start(parent, [], { store });
    await resumeHook("go", "two", { store, waitMs: 30_000 });
    expect(await run.returnValue).toEqual(["one", "two"]);
  });

  test("no other run is executed beyond the worker's concurrency", async ({ scene }) => {
    const finish = gate();
    const hold = step("hold", async () => await finish.opened);
    const child = workflow(scene.name("child"), async () => await hold());
    const ask = step("ask", async () => await (await start(child, [], { id: "child" })).returnValue);
    const parent = workflow(scene.name("parent"), async () => await ask());
    const bystander = workflow(scene.name("bystander"), async () => "done");
    const { store, worker } = await scene.work({ concurrency: 1 });
    const run = await start(parent, [], { store });
    const other = await start(bystander, [], { store });
    await until("the awaited run is executed", () => worker.has("child"));
    expect([worker.running, await getRun(other.id, { store }).status]).toEqual([2, "pending"]);
    finish.open();
    await run.returnValue;
    expect(await other.returnValue).toBe("done");
  });
});
