import type { Store } from "onceflow";
import { createHook, sleep, step, type Workflow, workflow } from "onceflow/workflow";
import { getRun, listRuns, resumeHook, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { everyStore, onStores, type Scene } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { untilReleased, untilStatus } from "../scene.js";

/** Versions of one workflow: the same name at the same place, as after a deployment. */
function version<Args extends unknown[], Result>(name: string, fn: (...args: Args) => Promise<Result>): Workflow<Args, Result> {
  return workflow(name, fn);
}

/** Steps of two versions of one application. Each records its calls by run. */
function versions(scene: Scene) {
  const name = scene.name("deployed");
  const calls: string[] = [];
  const record = (what: string) => step(what, async (run: string) => void calls.push(`${run} ${what}`));
  const [first, second, extra] = [record("first"), record("second"), record("extra")];
  const oldCode = version(name, async (run: string) => {
    await first(run);
    await sleep("1h"); // until it is woken: a run that sleeps for long always leaves memory
    await second(run);
    return "old";
  });
  const newCode = version(name, async (run: string) => {
    await extra(run);
    await first(run);
    await sleep("1h"); // until it is woken: a run that sleeps for long always leaves memory
    await second(run);
    return "new";
  });
  return { calls, oldCode, newCode };
}

/** Less than the minute that a worker waits if no other worker can execute a run. */
const soonMs = 30_000;
const ids = Array.from({ length: 20 }, (_, i) => `r${i}`);

async function startAll(code: Workflow<[string], string>, store: Store): Promise<void> {
  for (const id of ids) await start(code, [id], { id, store });
}

onStores("rolling deploys", everyStore, (test) => {
  const mixes = {
    "3 old workers and 1 new one, runs of new code": { old: 3, new: 1, started: "new" },
    "3 new workers and 1 old one, runs of old code": { old: 1, new: 3, started: "old" },
    "2 old workers and 2 new ones, runs of old code": { old: 2, new: 2, started: "old" },
  } as const;
  for (const [title, mix] of Object.entries(mixes)) {
    test(`${title}: all end within seconds, and each step ran once`, async ({ scene }) => {
      const { calls, oldCode, newCode } = versions(scene);
      const code = mix.started === "new" ? newCode : oldCode;
      // The runs have begun under their own code before the other workers see them.
      const { store, worker } = await scene.work({ workflows: [code] as never });
      await startAll(code, store);
      for (const id of ids) await untilReleased(store, id);
      await worker.stop();
      for (const id of ids) await getRun(id, { store }).wakeUp();
      for (const [definition, count] of [
        [oldCode, mix.old],
        [newCode, mix.new],
      ] as const)
        for (let i = 0; i < count; i++) await scene.work({ workflows: [definition] as never });
      const startedAt = performance.now();
      for (const id of ids) expect(await getRun(id, { store }).returnValue).toBe(mix.started);
      expect(performance.now() - startedAt).toBeLessThan(soonMs);
      expect(new Set(calls).size).toBe(calls.length);
      expect(calls).toHaveLength(ids.length * (mix.started === "new" ? 3 : 2));
    });
  }

  test("if every worker has diverged, the run waits and names those workers; a new worker claims it at once", async ({ scene }) => {
    const { oldCode, newCode } = versions(scene);
    const { store, worker } = await scene.work({ workflows: [newCode] as never });
    await start(newCode, ["r"], { id: "r", store });
    await untilReleased(store, "r");
    await worker.stop();
    await getRun("r", { store }).wakeUp();
    const old = [await scene.work({ workflows: [oldCode] as never }), await scene.work({ workflows: [oldCode] as never })];
    const owners = old.map((each) => each.worker.owner);
    await until("both have diverged", async () => (await store.runs.read("r"))?.avoid.length === 2);
    await untilStatus(store, "r", "diverged");
    for (const owner of owners) expect(await getRun("r", { store }).trouble).toContain(owner);
    const { epoch, avoidUntil } = (await store.runs.read("r")) ?? expect.fail("the run is there");
    expect(avoidUntil).toBeGreaterThan((await timeOf(store)) + 30_000);
    for (let look = 0; look < 5; look++) for (const each of old) expect(await each.worker.tick()).toBe(0);
    expect((await store.runs.read("r"))?.epoch).toBe(epoch);
    await scene.work({ workflows: [newCode] as never });
    expect(await getRun("r", { store }).returnValue).toBe("new");
    expect(await getRun("r", { store }).trouble).toBeUndefined();
  });

  test("a worker whose minute is over leaves the run to a live worker that has not tried it", async ({ scene }) => {
    const { oldCode, newCode } = versions(scene);
    const { store, worker } = await scene.work({ workflows: [newCode] as never });
    await start(newCode, ["r"], { id: "r", store });
    await untilReleased(store, "r");
    await worker.stop();
    await getRun("r", { store }).wakeUp();
    const old = await scene.work({ workflows: [oldCode] as never, auto: false });
    // Sends heartbeats, and polls only when the test calls tick().
    const fresh = await scene.work({ workflows: [newCode] as never, auto: false });
    await until("both are in the list of workers", async () => (await store.runs.workers()).filter(({ live }) => live).length === 2);
    expect(await old.worker.tick()).toBe(1);
    await untilStatus(store, "r", "diverged");
    const claimed = await claimAndAvoid(store, old.worker.owner);
    expect(claimed).toBe(true);
    expect(await old.worker.tick()).toBe(1);
    const left = (await store.runs.read("r")) ?? expect.fail("the run is there");
    expect(left).toMatchObject({ status: "diverged", avoid: [old.worker.owner], owner: null });
    expect(left.trouble).toContain(`it is left to the worker ${fresh.worker.owner}`);
    expect(left.avoidUntil).toBeGreaterThan(await timeOf(store));
    expect(await old.worker.tick()).toBe(0);
    expect(await fresh.worker.tick()).toBe(1);
    expect(await getRun("r", { store }).returnValue).toBe("new");
  });

  test("mail for a diverged run is offered to all workers, and consumed by one that can execute the run", async ({ scene }) => {
    const name = scene.name("mailed");
    const note = step("note", async () => "noted");
    const other = step("other", async () => "other");
    const newCode = version(name, async () => [await note(), await createHook<string>({ token: name })]);
    const oldCode = version(name, async () => [await other()]);
    const { store, worker } = await scene.work({ workflows: [newCode] as never });
    await start(newCode, [], { id: "r", store });
    await untilReleased(store, "r");
    await worker.stop();
    for (let i = 0; i < 3; i++) await scene.work({ workflows: [oldCode] as never });
    await resumeHook(name, "mail", { store });
    await until("all have diverged", async () => (await store.runs.read("r"))?.avoid.length === 3);
    await scene.work({ workflows: [newCode] as never });
    expect(await getRun("r", { store }).returnValue).toEqual(["noted", "mail"]);
    expect((await listRuns({ store })).items).toHaveLength(1);
  });
});

/** The store's clock. */
async function timeOf(store: Store): Promise<number> {
  return (await store.runs.claim({ owner: "clock reader", workflows: [], leaseMs: 1000, limit: 1 })).now;
}

/** Ends the worker's minute: another owner claims the run for a moment and releases it as the worker had. */
async function claimAndAvoid(store: Store, owner: string): Promise<boolean> {
  const { claimed, now } = await store.runs.claim({ owner: "for a moment", workflows: [], run: "r", leaseMs: 10_000, limit: 1 });
  const run = claimed[0]?.run;
  if (run === undefined) return false;
  const avoid = { workers: [owner], until: now };
  const then = { kind: "release", wakeAt: now, status: "diverged", trouble: "it diverged", avoid } as const;
  const entry = { events: null, consumed: null, hooks: [], children: [], then };
  await store.commit({ run: { verb: "append", id: "r", creator: run.creator, epoch: run.epoch, seq: 1, entry } });
  return true;
}
