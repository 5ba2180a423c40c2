import type { Store } from "onceflow";
import {
  createHook,
  RunCycleError,
  RunMismatchError,
  RunNotFoundError,
  sleep,
  step,
  type Workflow,
  work,
  workflow,
} from "onceflow/workflow";
import { getRun, resumeHook, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { mortal } from "../../../src/testing/mortal-store.js";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores, shortMs } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { story, untilReleased } from "../scene.js";

onStores("children that are started with an id", everyStore, (test) => {
  test("the id of another workflow's run gives RunMismatchError, and the same after a replay", async ({ scene }) => {
    const invoice = workflow(scene.name("invoice"), async () => "an invoice");
    const name = scene.name("order");
    const order = workflow(name, async () => "an order");
    const parent = workflow(scene.name("parent"), async () => {
      const error = await start(order, [], { id: "shared" }).catch((thrown: unknown) => thrown);
      const caught = error instanceof RunMismatchError ? ["mismatch", error.runId, error.code] : "no error";
      return [caught, await createHook<string>({ token: "go" })];
    });
    const { store, worker } = await scene.work();
    await (await start(invoice, [], { id: "shared", store })).returnValue;
    const run = await start(parent, [], { store });
    await untilReleased(store, run.id);
    await until("it has left memory", () => !worker.has(run.id));
    await resumeHook("go", "replayed", { store });
    expect(await run.returnValue).toEqual([["mismatch", "shared", "RUN_MISMATCH"], "replayed"]);
    expect(await story(store, run.id)).toContain(`started child ${name}#0`);
  });

  test('the id of a run with another input sets mismatch to true, or throws with onMismatch: "refuse"', async ({ scene }) => {
    const child = workflow(scene.name("child"), async (n: number) => n);
    const parent = workflow(scene.name("parent"), async () => {
      const [same, other] = [await start(child, [1], { id: "one" }), await start(child, [2], { id: "one" })];
      const refused = await start(child, [2], { id: "one", onMismatch: "refuse" }).catch(
        (thrown: unknown) => thrown instanceof RunMismatchError,
      );
      const accepted = await start(child, [1], { id: "one", onMismatch: "refuse" });
      const fresh = await start(child, [3], { id: "new", onMismatch: "refuse" });
      await createHook({ token: "go" });
      return [same.mismatch, other.mismatch, refused, accepted.mismatch, fresh.mismatch, await other.returnValue, await fresh.returnValue];
    });
    const { store } = await scene.work();
    await (await start(child, [1], { id: "one", store })).returnValue;
    const run = await start(parent, [], { store });
    await untilReleased(store, run.id);
    await resumeHook("go", "replayed", { store });
    expect(await run.returnValue).toEqual([false, true, true, false, false, 1, 3]);
  });

  test("if the worker dies before it has journaled the answer to the start, the next worker gets the same answer", async ({ scene }) => {
    const other = workflow(scene.name("other"), async () => "other");
    const child = workflow(scene.name("child"), async () => "child");
    const parent = workflow(scene.name("parent"), async () => {
      const taken = await start(child, [], { id: "taken" }).catch((thrown: unknown) => (thrown as Error).name);
      const mine = await start(child, [], { id: "mine", onMismatch: "refuse" });
      return [taken, await mine.returnValue];
    });
    await start(other, [], { id: "taken", store: await scene.open() });
    const { store: dying, died } = diesAtRead(await scene.open(), "taken");
    await work(dying, { leaseMs: shortMs, background: true, workflows: [parent] });
    void start(parent, [], { id: "p", store: dying });
    await died;
    const { store } = await scene.work();
    expect(await getRun("p", { store }).returnValue).toEqual(["RunMismatchError", "child"]);
  });

  test("a journal of 0.1.0, which does not have the answer to a start, replays as before", async ({ scene }) => {
    const [name, childName] = [scene.name("parent"), scene.name("child")];
    const other = workflow(scene.name("other"), async () => "another workflow's");
    const child = workflow(childName, async () => "child's");
    const hold = step("hold", async () => "held");
    workflow(name, async () => {
      const run = await start(child, [], { id: "taken", onMismatch: "refuse" });
      return [run.mismatch, await hold(), await run.returnValue];
    });
    const store = await scene.open();
    await start(other, [], { id: "taken", store });
    const at = (await getRun("taken", { store }).createdAt).getTime();
    const events = JSON.stringify([
      ["child", `child ${childName}#0`, at, "taken", childName],
      ["step", "hold#0", at, 0, ""],
    ]);
    const plain = { fingerprint: "", creator: "", retentionMs: null, input: "[]" };
    const entry = { events, consumed: null, hooks: [], children: [], then: { kind: "hold" } } as const;
    const first = { owner: "a worker of 0.1.0", leaseMs: 1, entry };
    await store.commit({ run: { verb: "start", id: "p", workflow: name, parent: null, ...plain, first } });
    await scene.work();
    expect(await getRun("p", { store }).returnValue).toEqual([false, "held", "another workflow's"]);
    expect(await getRun("p", { store }).status).toBe("completed");
  });

  test("a run that is removed while another run waits for it gives RunNotFoundError, and the same after a replay", async ({ scene }) => {
    const finish = gate();
    const wait = step("wait", async () => await finish.opened);
    const short = workflow(scene.name("short"), async () => await wait());
    const parent = workflow(scene.name("parent"), async () => {
      const run = await start(short, [], { id: "short" });
      const error = await run.returnValue.catch((thrown: unknown) => thrown);
      return [error instanceof RunNotFoundError && error.runId, await createHook({ token: "go" })];
    });
    const elsewhere = await scene.work({ workflows: [short] });
    await start(short, [], { id: "short", store: elsewhere.store, retentionMs: 0 });
    const doomed = await scene.workAndDie({ workflows: [parent] });
    await start(parent, [], { id: "p", store: doomed.store });
    await until("it waits", async () => (await story(doomed.store, "p")).some((line) => line.startsWith("await")));
    doomed.die();
    finish.open();
    await until("the child is removed", async () => {
      await elsewhere.store.runs.purge(10);
      return (await elsewhere.store.runs.read("short")) === undefined;
    });
    const { store, worker } = await scene.work({ workflows: [parent] });
    await until("the error is journaled", async () => (await story(store, "p")).includes("hook hook#0"));
    await untilReleased(store, "p");
    await until("it has left memory", () => !worker.has("p"));
    await resumeHook("go", "replayed", { store });
    expect(await getRun("p", { store }).returnValue).toEqual(["short", "replayed"]);
  });

  test("of two runs that wait for each other, one gets an error and the other one its result", async ({ scene }) => {
    const runs = await started(ring(scene.name("ring")), ["a", "b"], await scene.open());
    await scene.work();
    expect(await Promise.all(runs.map((run) => run.returnValue))).toEqual(["a: RunCycleError a, b", "b: a: RunCycleError a, b"]);
  });

  test("a child that waits for its parent, a longer cycle and a run that waits for itself get RunCycleError", async ({ scene }) => {
    const cycle = ring(scene.name("ring"));
    const nested: Workflow<[string], string> = workflow(scene.name("nested"), async (id: string): Promise<string> => {
      const child = await start(inner, [id]);
      return await child.returnValue;
    });
    const inner: Workflow<[string], string> = workflow(scene.name("inner"), async (id: string): Promise<string> => {
      return await (await start(nested, [id], { id })).returnValue.catch((error: Error) => error.constructor.name);
    });
    const { store } = await scene.work();
    const [self] = await started(cycle, ["self"], store);
    const deep = await start(nested, ["deep"], { id: "deep", store });
    const runs = await started(cycle, ["c1", "c2", "c3", "c4"], await scene.open());
    expect(await self?.returnValue).toBe("self: RunCycleError self");
    expect(await deep.returnValue).toBe("RunCycleError");
    const results = await Promise.all(runs.map((run) => run.returnValue));
    expect(results.every((result) => result.endsWith("c1: RunCycleError c1, c2, c3, c4"))).toBe(true);
  });

  test("a cycle is found on a worker without free capacity", async ({ scene }) => {
    const runs = await started(ring(scene.name("ring")), ["a", "b"], await scene.open());
    await scene.work({ concurrency: 1 });
    expect(await Promise.all(runs.map((run) => run.returnValue))).toEqual(["a: RunCycleError a, b", "b: a: RunCycleError a, b"]);
  });

  test("a cycle is found across two workers", async ({ scene }) => {
    const runs = await started(ring(scene.name("ring")), ["a", "b"], await scene.open());
    await scene.work({ concurrency: 1 });
    await scene.work({ concurrency: 1 });
    expect(await Promise.all(runs.map((run) => run.returnValue))).toEqual(["a: RunCycleError a, b", "b: a: RunCycleError a, b"]);
  });

  test("runs that wait for each other but can still continue by a sleep, a hook or a step are left alone", async ({ scene }) => {
    const released = gate();
    const hold = step("hold", async () => await released.opened);
    const patient: Workflow<[string, string], string> = workflow(
      scene.name("patient"),
      async (id: string, other: string): Promise<string> => {
        const run = await start(patient, [other, id], { id: other });
        const waits = [run.returnValue.then(() => "the other"), createHook<string>({ token: id })];
        if (id === "a")
          waits.push(
            sleep("2h").then(() => "slept"),
            hold().then(() => "held"),
          );
        return await Promise.race(waits);
      },
    );
    const { store } = await scene.work();
    const a = await start(patient, ["a", "b"], { id: "a", store });
    const b = await start(patient, ["b", "a"], { id: "b", store });
    await until(
      "three seconds have passed",
      async () =>
        (await store.runs.claim({ owner: "clock reader", workflows: [], leaseMs: 1, limit: 1 })).now > (await a.createdAt).getTime() + 3000,
    );
    expect([await a.status, await b.status]).toEqual(["running", "running"]);
    released.open();
    expect(await Promise.all([a.returnValue, b.returnValue])).toEqual(["held", "the other"]);
  });
});

/** A store whose process dies when it reads this run. */
function diesAtRead(of: Store, id: string): { readonly store: Store; readonly died: Promise<void> } {
  const doomed = mortal(of);
  const died = gate();
  const read: Store["runs"]["read"] = (run) => {
    if (run === id) {
      doomed.die();
      died.open();
    }
    return doomed.store.runs.read(run);
  };
  const runs = { value: Object.create(doomed.store.runs, { read: { value: read } }) as unknown };
  return { store: Object.create(doomed.store, { runs }) as Store, died: died.opened };
}

/** Each run waits for the next one by its id, the last one for the first, and returns what it got. */
function ring(name: string): Workflow<[string[], number], string> {
  const self: Workflow<[string[], number], string> = workflow(name, async (ids: string[], place: number): Promise<string> => {
    const next = (place + 1) % ids.length;
    const run = await start(self, [ids, next], { id: ids[next] as string });
    return `${ids[place]}: ${await run.returnValue.catch(inWords)}`;
  });
  return self;
}

function inWords(error: unknown): string {
  return error instanceof RunCycleError ? `RunCycleError ${[...error.runs].sort().join(", ")}` : String(error);
}

async function started(of: Workflow<[string[], number], string>, ids: string[], store: Store) {
  return await Promise.all(ids.map((id, place) => start(of, [ids, place], { id, store })));
}
