import { configure, InvalidInputError, NotKnownError, type Store } from "onceflow";
import { createHook, RunMismatchError, RunNotFoundError, step, WorkflowNotRegisteredError, workflow } from "onceflow/workflow";
import { getRun, listRuns, type Run, resumeHook, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { story } from "../scene.js";

onStores("start", everyStore, (test) => {
  test("passes the arguments and returns the result", async ({ scene }) => {
    const add = workflow(scene.name("add"), async (a: number, b: number) => a + b);
    const { store } = await scene.work();
    const run = await start(add, [2, 3], { store });
    expect(await run.returnValue).toBe(5);
    expect(await run.status).toBe("completed");
    expect(run.mismatch).toBe(false);
  });

  test("works without arguments; without an id each start makes another run", async ({ scene }) => {
    const none = workflow(scene.name("none"), async (...args: unknown[]) => args.length);
    const { store } = await scene.work();
    const [a, b] = [await start(none, [], { store }), await start(none, undefined, { store })];
    expect(a.id).not.toBe(b.id);
    expect(await Promise.all([a.returnValue, b.returnValue])).toEqual([0, 0]);
  });

  test("start({ id, workflow, input }) passes the input as one argument, an object or an array", async ({ scene }) => {
    const echo = workflow(scene.name("echo"), async (...args: unknown[]) => args);
    const { store } = await scene.work();
    const event = { id: "evt_1", items: [1, 2] };
    const object = await start({ id: "stripe-evt_1", workflow: echo, input: event, store });
    const array = await start({ id: "stripe-evt_2", workflow: echo, input: [1, 2], store });
    const nothing = await start({ id: "stripe-evt_3", workflow: echo, store });
    expect(await object.returnValue).toEqual([event]);
    expect(await array.returnValue).toEqual([[1, 2]]);
    expect(await nothing.returnValue).toEqual([]);
    expect([object.id, object.runId]).toEqual(["stripe-evt_1", "stripe-evt_1"]);
  });

  test("with the same id returns the same run, while it runs and when it has ended", async ({ scene }) => {
    let calls = 0;
    const charge = step("charge", async () => ++calls);
    const order = workflow(scene.name("order"), async (id: string) => {
      await charge();
      return id;
    });
    const { store } = await scene.work();
    const runs = await Promise.all(Array.from({ length: 10 }, () => start(order, ["o-1"], { id: "o-1", store })));
    expect(await Promise.all(runs.map((run) => run.returnValue))).toEqual(Array(10).fill("o-1"));
    const late = await start(order, ["o-1"], { id: "o-1", store });
    expect(await late.returnValue).toBe("o-1");
    expect(late.mismatch).toBe(false);
    expect(calls).toBe(1);
    expect((await listRuns({ store })).items).toHaveLength(1);
  });

  test("of one id on two handles at once makes one run", async ({ scene }) => {
    let calls = 0;
    const count = step("count", async () => ++calls);
    const order = workflow(scene.name("order"), async () => await count());
    const places = [await scene.work(), await scene.work(), { store: await scene.open() }];
    const runs = await Promise.all(
      Array.from({ length: 21 }, (_, i) => start(order, [], { id: "one", store: places[i % 3]?.store as Store })),
    );
    await Promise.all(runs.map((run) => run.returnValue));
    expect(calls).toBe(1);
    expect(new Set(runs.map((run) => run.id))).toEqual(new Set(["one"]));
  });

  test("of one id at the same moment executes the run at once, and both callers get its result", async ({ scene }) => {
    const greet = workflow(scene.name("greet"), async (name: string) => await createHook<string>({ token: name }));
    // The next poll would find the run, but only much later.
    const { store } = await scene.work({ leaseMs: 600_000, pollMs: 300_000 });
    const other = await scene.open();
    for (const handles of [[store, store, store] as const, [store, other] as const, [other, store] as const]) {
      const id = `greeting-${handles.length}-${handles[0] === store}`;
      const runs = await Promise.all(handles.map((handle) => start(greet, [id], { id, store: handle })));
      await resumeHook(id, "hello", { store });
      expect(await Promise.all(runs.map((run) => run.returnValue))).toEqual(handles.map(() => "hello"));
    }
  });

  test("with the same id and another input returns the existing run, with mismatch set", async ({ scene }) => {
    const echo = workflow(scene.name("echo"), async (input: unknown) => input);
    const { store } = await scene.work();
    await start(echo, [{ a: 1, b: 2 }], { id: "x", store });
    const reordered = await start(echo, [{ b: 2, a: 1 }], { id: "x", store });
    const other = await start(echo, [{ a: 2 }], { id: "x", store });
    expect([reordered.mismatch, other.mismatch]).toEqual([false, true]);
    expect(await other.returnValue).toEqual({ a: 1, b: 2 });
  });

  test("with the same id for another workflow is a mismatch, too", async ({ scene }) => {
    const first = workflow(scene.name("first"), async () => "first");
    const second = workflow(scene.name("second"), async () => "second");
    const { store } = await scene.work();
    await start(first, [], { id: "x", store });
    const other = await start(second, [], { id: "x", store });
    expect(other.mismatch).toBe(true);
    expect(await other.returnValue).toBe("first");
  });

  test('onMismatch: "refuse" throws, but not if the input is the same', async ({ scene }) => {
    const echo = workflow(scene.name("echo"), async (input: number) => input);
    const { store } = await scene.work();
    await start(echo, [1], { id: "x", store, onMismatch: "refuse" });
    await expect(start(echo, [2], { id: "x", store, onMismatch: "refuse" })).rejects.toThrow(RunMismatchError);
    expect((await start(echo, [1], { id: "x", store, onMismatch: "refuse" })).mismatch).toBe(false);
  });

  test("fingerprint chooses which part of the input is compared", async ({ scene }) => {
    const echo = workflow(scene.name("echo"), async (input: unknown) => input);
    const { store } = await scene.work();
    const deliver = (sentAt: number, fingerprint: string) =>
      start(echo, [{ id: "evt", sentAt }], { id: "evt", store, fingerprint, onMismatch: "refuse" });
    await deliver(1, "evt");
    expect((await deliver(2, "evt")).mismatch).toBe(false);
    await expect(deliver(2, "other")).rejects.toThrow(RunMismatchError);
  });

  test("rich input arrives unchanged, and a mismatch in it is found", async ({ scene }) => {
    const echo = workflow(scene.name("echo"), async (input: unknown) => input);
    const { store } = await scene.work();
    const rich = { at: new Date(0), big: 10n, map: new Map([["a", new Set([1])]]), none: undefined, text: "a\0b" };
    const run = await start(echo, [rich], { id: "rich", store });
    expect(await run.returnValue).toEqual(rich);
    expect((await start(echo, [rich], { id: "rich", store })).mismatch).toBe(false);
    expect((await start(echo, [{ ...rich, big: 11n }], { id: "rich", store })).mismatch).toBe(true);
  });

  test("changes that the caller makes to its input afterwards do not reach the run", async ({ scene }) => {
    const wait = step("wait", async () => 1);
    const read = workflow(scene.name("read"), async (input: { items: number[] }) => {
      await wait();
      return input.items;
    });
    const { store } = await scene.work();
    const input = { items: [1] };
    const starting = start(read, [input], { store });
    input.items.push(2);
    expect(await (await starting).returnValue).toEqual([1]);
  });

  test("invalid input is refused with its path, before anything is written", async ({ scene }) => {
    const echo = workflow(scene.name("echo"), async (input: unknown) => input);
    const { store } = await scene.work();
    const refused = async (starting: Promise<unknown>, field: string) => {
      const error = await starting.then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect(error).toBeInstanceOf(InvalidInputError);
      expect((error as InvalidInputError).field).toContain(field);
    };
    await refused(start(echo, [{ deep: [{ fn: () => 1 }] }], { id: "a", store }), "[0].deep[0].fn");
    await refused(start(echo, [1], { id: "", store }), "id");
    await refused(start(echo, [1], { id: "a\nb", store }), "id");
    await refused(start(echo, [1], { id: "x".repeat(513), store }), "id");
    await refused(start(echo, [1], { id: 1 as never, store }), "id");
    await refused(start(echo, { 0: 1 } as never, { store }), "args");
    await refused(start(echo, [1], { onMismatch: "ignore" as never, store }), "onMismatch");
    await refused(start(echo, [1], { fingerprint: "", store }), "fingerprint");
    await refused(start(echo, [1], { retentionMs: -1, store }), "retentionMs");
    await refused(start({ workflow: 1 as never, store }), "workflow");
    await expect(start((async () => 1) as never, [], { store })).rejects.toThrow(WorkflowNotRegisteredError);
    await refused(start(undefined as never), "start");
    expect((await listRuns({ store })).items).toEqual([]);
  });

  test("is durable when it returns: another handle finds the run", async ({ scene }) => {
    const hold = step("hold", () => new Promise<never>(() => {}));
    const held = workflow(scene.name("held"), async () => await hold());
    const { store } = await scene.work();
    const run = await start(held, [], { store });
    const other = await scene.open();
    expect(await getRun(run.id, { store: other }).status).toBe("running");
    expect(await story(other, run.id)).toEqual(["step hold#0"]);
  });

  test("recognises its own run after a lost reply: there is one run, and mismatch is false", async ({ scene }) => {
    let calls = 0;
    const count = step("count", async () => (calls += 1));
    const order = workflow(scene.name("order"), async () => await count());
    const { store } = await scene.work({}, losesReplies(await scene.open(), 2));
    const run = await start(order, [], { id: "one", store });
    expect(await run.returnValue).toBe(1);
    expect(run.mismatch).toBe(false);
    const startOnly = losesReplies(await scene.open(), 2);
    expect((await start(order, [], { id: "two", store: startOnly })).mismatch).toBe(false);
    expect(calls).toBeLessThanOrEqual(2);
  });

  test("on a handle without a worker only creates the run: nothing is executed until a worker starts", async ({ scene }) => {
    let calls = 0;
    const count = step("count", async () => (calls += 1));
    const order = workflow(scene.name("order"), async () => await count());
    const store = await scene.open();
    const runs: Run[] = [];
    for (let i = 0; i < 5; i++) runs.push(await start(order, [], { store }));
    expect(await Promise.all(runs.map((run) => run.status))).toEqual(Array(5).fill("pending"));
    expect(calls).toBe(0);
    await scene.work();
    await Promise.all(runs.map((run) => run.returnValue));
    expect(calls).toBe(5);
  });

  test("workers claim only runs of workflows that they have registered", async ({ scene }) => {
    const mine = workflow(scene.name("mine"), async () => "mine");
    const theirs = workflow(scene.name("theirs"), async () => "theirs");
    const { store, worker } = await scene.work({ workflows: [mine] });
    expect(worker.workflows).toHaveLength(1);
    const [a, b] = [await start(mine, [], { store }), await start(theirs, [], { store })];
    expect(await a.returnValue).toBe("mine");
    expect(await worker.tick()).toBe(0);
    expect(await b.status).toBe("pending");
    await scene.work({ workflows: [theirs] });
    expect(await b.returnValue).toBe("theirs");
  });

  test("a run that was never started does not exist, and everything else about it throws RunNotFoundError", async ({ scene }) => {
    const store = await scene.open();
    const run = getRun("missing", { store });
    expect(await run.exists).toBe(false);
    const asked = await Promise.allSettled([run.status, run.returnValue, run.createdAt, run.cancel(), run.wakeUp()]);
    for (const answer of asked) expect(answer.status === "rejected" && answer.reason).toBeInstanceOf(RunNotFoundError);
  });

  test("a run has its times and names", async ({ scene }) => {
    const name = scene.name("timed");
    const timed = workflow(name, async () => 1);
    const { store } = await scene.work();
    const run = await start(timed, [], { store });
    await run.returnValue;
    const [created, started, completed] = await Promise.all([run.createdAt, run.startedAt, run.completedAt]);
    expect(Number(started)).toBeGreaterThanOrEqual(Number(created));
    expect(Number(completed)).toBeGreaterThanOrEqual(Number(started));
    expect(Math.abs(Number(created) - Date.now())).toBeLessThan(60_000);
    expect(await run.workflowName).toBe(name);
    expect(await run.exists).toBe(true);
  });
});

onStores("the process's own store", ["memory"], (test) => {
  test("configure: a process with worker: false starts runs and never executes them; with a worker it does both", async ({ scene }) => {
    let calls = 0;
    const count = step("count", async () => (calls += 1));
    const order = workflow(scene.name("order"), async () => await count());
    const store = await scene.open();
    scene.onEnd(() => configure({ worker: false }));
    configure({ store, worker: false });
    const run = await start(order);
    await start({ id: "second", workflow: order });
    expect(await getRun("second").status).toBe("pending");
    expect(calls).toBe(0);
    configure({ store, worker: { pollMs: 10 } });
    await start(order);
    expect(await run.returnValue).toBeGreaterThan(0);
    await until("all are executed", () => calls === 3);
    await (await scene.work({}, store)).worker.stop();
  });
});

/** Commits, but loses the reply of the first `times` commits. */
function losesReplies(store: Store, times: number): Store {
  let left = times;
  const commit = async (batch: Parameters<Store["commit"]>[0]) => {
    const answer = await store.commit(batch as never);
    if (left-- > 0) throw new NotKnownError("the reply was lost");
    return answer;
  };
  return Object.create(store, { commit: { value: commit } }) as Store;
}
