import { InvalidInputError } from "onceflow";
import { ContextError, createHook, defineHook, HookNotFoundError, sleep, step, workflow } from "onceflow/workflow";
import { getHookByToken, getRun, resumeHook, start } from "onceflow/workflow/api";
import { expect, test as plain } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { story, untilReleased } from "../scene.js";

onStores("hooks", everyStore, (test) => {
  test("awaiting a hook returns the payload", async ({ scene }) => {
    const approval = workflow(scene.name("approval"), async () => {
      const hook = createHook<{ approved: boolean; at: Date }>({ token: "approval:1" });
      const { approved, at } = await hook;
      return [approved, at];
    });
    const { store } = await scene.work();
    const run = await start(approval, [], { store });
    expect(await resumeHook("approval:1", { approved: true, at: new Date(7) }, { store })).toEqual({ token: "approval:1", runId: run.id });
    expect(await run.returnValue).toEqual([true, new Date(7)]);
  });

  test("a run that waits for long is released, and claimed again for its payload", async ({ scene }) => {
    const approval = workflow(scene.name("approval"), async () => await createHook({ token: "t" }));
    const { store, worker } = await scene.work();
    const run = await start(approval, [], { store });
    await untilReleased(store, run.id);
    // The store shows it before the worker notices.
    await until("the worker has nothing left", () => worker.running === 0);
    await resumeHook("t", "late", { store });
    expect(await run.returnValue).toBe("late");
  });

  test("for await yields one payload after the other", async ({ scene }) => {
    const chat = workflow(scene.name("chat"), async () => {
      const hook = createHook<string>({ token: "chat" });
      const heard: string[] = [];
      for await (const message of hook) {
        heard.push(message);
        if (message === "bye") break;
      }
      return heard;
    });
    const { store } = await scene.work();
    const run = await start(chat, [], { store });
    for (const message of ["hello", "how are you", "bye"]) await resumeHook("chat", message, { store });
    expect(await run.returnValue).toEqual(["hello", "how are you", "bye"]);
  });

  test("payloads that arrive before the code awaits them are kept in order", async ({ scene }) => {
    const [called, free] = [gate(), gate()];
    const busy = step("busy", async () => {
      called.open();
      await free.opened;
    });
    const queue = workflow(scene.name("queue"), async () => {
      const hook = createHook<number>({ token: "queue" });
      await busy();
      return [await hook, await hook, await hook, await hook, await hook];
    });
    const { store } = await scene.work();
    const run = await start(queue, [], { store });
    await called.opened;
    for (let i = 1; i <= 4; i++) await resumeHook("queue", i, { store });
    free.open();
    await resumeHook("queue", 5, { store });
    expect(await run.returnValue).toEqual([1, 2, 3, 4, 5]);
  });

  test("payloads that are sent at the same time from two handles arrive in one order", async ({ scene }) => {
    const queue = workflow(scene.name("queue"), async () => {
      const hook = createHook<string>({ token: "queue" });
      const heard: string[] = [];
      while (heard.length < 40) heard.push(await hook);
      return heard;
    });
    const { store } = await scene.work();
    const other = await scene.open();
    const run = await start(queue, [], { store });
    const send = async (from: typeof store, name: string) => {
      for (let i = 0; i < 20; i++) await resumeHook("queue", `${name} ${i}`, { store: from });
    };
    await Promise.all([send(store, "a"), send(other, "b")]);
    const heard = (await run.returnValue) as string[];
    for (const name of ["a", "b"]) {
      const own = heard.filter((each) => each.startsWith(name));
      expect(own).toEqual(Array.from({ length: 20 }, (_, i) => `${name} ${i}`));
    }
  });

  test("kept payloads survive the worker", async ({ scene }) => {
    const [called, free] = [gate(), gate()];
    const busy = step("busy", async () => {
      called.open();
      await free.opened;
    });
    const queue = workflow(scene.name("queue"), async () => {
      const hook = createHook<number>({ token: "queue" });
      const first = await hook;
      await busy();
      return [first, await hook, await hook];
    });
    const doomed = await scene.workAndDie();
    const run = await start(queue, [], { store: doomed.store });
    const outside = await scene.open();
    await resumeHook("queue", 1, { store: outside });
    await called.opened;
    await resumeHook("queue", 2, { store: outside });
    doomed.die();
    await resumeHook("queue", 3, { store: outside });
    free.open();
    const { store } = await scene.work();
    expect(await getRun(run.id, { store }).returnValue).toEqual([1, 2, 3]);
  });

  test("resumeHook accepts a hook and returns its token and run; so does the resume of a defined hook", async ({ scene }) => {
    const approval = defineHook<number>();
    const waiting = workflow(scene.name("waiting"), async () => {
      const hook = approval.create({ token: "t" });
      return [await hook, await hook];
    });
    const { store } = await scene.work();
    const run = await start(waiting, [], { store });
    expect(await resumeHook("t", 1, { store })).toEqual({ token: "t", runId: run.id });
    const hook = await getHookByToken("t", { store });
    expect(await approval.resume(hook, 2, { store })).toEqual({ token: "t", runId: run.id });
    expect(await run.returnValue).toEqual([1, 2]);
    for (const bad of ["", undefined, 7, {}, { token: 7 }])
      await expect(resumeHook(bad as never, 1, { store })).rejects.toThrow(InvalidInputError);
  });

  test("a resume with a key is delivered once, while the first one waits and after it was consumed", async ({ scene }) => {
    const queue = workflow(scene.name("queue"), async () => {
      const hook = createHook<string>({ token: "queue" });
      return [await hook, await hook, await hook];
    });
    const { store } = await scene.work();
    const other = await scene.open();
    const run = await start(queue, [], { store });
    await Promise.all(Array.from({ length: 10 }, (_, i) => resumeHook("queue", "a", { store: i % 2 ? store : other, key: "delivery-1" })));
    await until("it is consumed", async () => (await story(store, run.id)).includes("got hook#0"));
    await resumeHook("queue", "a", { store, key: "delivery-1" });
    await untilReleased(store, run.id);
    await resumeHook("queue", "a", { store: other, key: "delivery-1" });
    await resumeHook("queue", "b", { store, key: "delivery-2" });
    await resumeHook("queue", "a", { store });
    expect(await run.returnValue).toEqual(["a", "b", "a"]);
  });

  test("the same key for another token is another delivery", async ({ scene }) => {
    const both = workflow(scene.name("both"), async () => {
      const [a, b] = [createHook({ token: "a" }), createHook({ token: "b" })];
      return [await a, await b];
    });
    const { store } = await scene.work();
    const run = await start(both, [], { store });
    await resumeHook("a", 1, { store, key: "k" });
    await resumeHook("b", 2, { store, key: "k" });
    expect(await run.returnValue).toEqual([1, 2]);
  });

  test("resumeHook right after a start waits until the hook exists", async ({ scene }) => {
    const prepare = step("prepare", async () => "prepared");
    const approval = workflow(scene.name("approval"), async (token: string) => {
      await prepare();
      return await createHook({ token });
    });
    const { store } = await scene.work();
    const away = await scene.open();
    const runs = [await start(approval, ["here"], { store }), await start(approval, ["elsewhere"], { store: away })];
    await resumeHook("here", 1, { store });
    await resumeHook("elsewhere", 2, { store: away });
    expect(await Promise.all(runs.map((run) => run.returnValue))).toEqual([1, 2]);
  });

  test("waitMs sets how long resumeHook waits; an invalid duration is refused", async ({ scene }) => {
    const late = workflow(scene.name("late"), async () => {
      await createHook({ token: "go on" });
      return await createHook({ token: "late" });
    });
    const { store } = await scene.work();
    const run = await start(late, [], { store });
    await expect(resumeHook("late", 1, { store, waitMs: 0 })).rejects.toThrow(HookNotFoundError);
    await expect(resumeHook("late", 1, { store, waitMs: -1 })).rejects.toThrow(InvalidInputError);
    const resumed = resumeHook("late", 1, { store, waitMs: 60_000 });
    await resumeHook("go on", 0, { store, waitMs: 60_000 });
    await resumed;
    expect(await run.returnValue).toBe(1);
  });

  test("an unknown token gives HookNotFoundError; an invalid payload or key gives InvalidInputError", async ({ scene }) => {
    const store = await scene.open();
    await expect(resumeHook("missing", 1, { store })).rejects.toThrow(HookNotFoundError);
    await expect(getHookByToken("missing", { store })).rejects.toThrow(HookNotFoundError);
    await expect(resumeHook("missing", () => 1, { store })).rejects.toThrow(InvalidInputError);
    await expect(resumeHook("missing", 1, { store, key: "" })).rejects.toThrow(InvalidInputError);
  });

  test("getHookByToken returns run, metadata and time", async ({ scene }) => {
    const rich = workflow(scene.name("rich"), async () => {
      await Promise.all([createHook({ token: "rich", metadata: { for: new Set(["finance"]) } }), createHook({ token: "bare" })]);
    });
    const { store } = await scene.work();
    const run = await start(rich, [], { store });
    const hook = await getHookByToken("rich", { store });
    expect(hook).toEqual({
      token: "rich",
      runId: run.id,
      hookId: `${run.id}/hook#0`,
      metadata: { for: new Set(["finance"]) },
      createdAt: expect.any(Date),
    });
    expect((await getHookByToken("bare", { store })).metadata).toBeUndefined();
    await run.cancel();
    await expect(run.returnValue).rejects.toThrow();
    await expect(getHookByToken("rich", { store })).rejects.toThrow(HookNotFoundError);
  });

  test("a hook and a timeout can race", async ({ scene }) => {
    const waiting = workflow(scene.name("waiting"), async (ms: number) => {
      const hook = createHook({ token: `t${ms}` });
      return await Promise.race([hook, sleep(ms).then(() => "too late")]);
    });
    const { store } = await scene.work();
    const late = await start(waiting, [30], { store });
    const inTime = await start(waiting, [3_600_000], { store });
    await untilReleased(store, inTime.id);
    await resumeHook("t3600000", "in time", { store });
    expect(await Promise.all([late.returnValue, inTime.returnValue])).toEqual(["too late", "in time"]);
  });
});

plain("createHook outside of a workflow is an error", () => {
  expect(() => createHook()).toThrow(ContextError);
});
