import { InvalidInputError } from "onceflow";
import { ContextError, now, RunNotFoundError, sleep, step, workflow } from "onceflow/workflow";
import { getRun, type JournalItem, listRuns, readJournal, start } from "onceflow/workflow/api";
import { expect, test as plain } from "vitest";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { story, untilReleased } from "../scene.js";

/** The requested duration of the n-th sleep, and by how much it ended late. */
function nap(items: readonly JournalItem[], n: number): { forMs: number; lateMs: number } {
  const [asked, woke] = ["sleep", "woke"].map((type) => items.find((item) => item.type === type && item.id === `sleep#${n}`));
  const till = Number(asked?.detail[0]);
  return { forMs: till - Number(asked?.at), lateMs: Number(woke?.at) - till };
}

onStores("sleep", everyStore, (test) => {
  test("takes a number, a text or a date, and never ends too early", async ({ scene }) => {
    const naps = workflow(scene.name("naps"), async () => {
      await sleep(10);
      await sleep(20);
      await sleep("50ms");
      await sleep("0.03 s");
      await sleep(new Date(Number(now()) + 40));
      await sleep(new Date(0));
      await sleep(0);
      return "awake";
    });
    const { store } = await scene.work();
    const run = await start(naps, [], { store });
    expect(await run.returnValue).toBe("awake");
    const items = await readJournal(run.id, { store });
    // The time of the first event is the time at which the code began.
    for (const [n, forMs] of [20, 50, 30].entries()) expect(nap(items, n + 1).forMs).toBe(forMs);
    for (let n = 0; n < 7; n++) expect(nap(items, n).lateMs).toBeGreaterThanOrEqual(0);
  });

  test("an invalid time is an error in the workflow", async ({ scene }) => {
    const naps = workflow(scene.name("naps"), async () => {
      const errors: boolean[] = [];
      for (const bad of ["soon", -1, Number.NaN, new Date("never"), undefined, "10 parsecs"]) {
        try {
          await sleep(bad as never);
        } catch (error) {
          errors.push(error instanceof InvalidInputError);
        }
      }
      return errors;
    });
    const { store } = await scene.work();
    expect(await (await start(naps, [], { store })).returnValue).toEqual(Array(6).fill(true));
  });

  test("several sleeps end in the order of their times", async ({ scene }) => {
    const order = workflow(scene.name("order"), async () => {
      const woken: number[] = [];
      await Promise.all([600, 200, 400].map(async (ms) => woken.push(ms) && sleep(ms).then(() => woken.push(-ms))));
      return woken;
    });
    const { store } = await scene.work();
    expect(await (await start(order, [], { store })).returnValue).toEqual([600, 200, 400, -200, -400, -600]);
  });

  test("a run in a long sleep is released, and wakeUp ends the sleep", async ({ scene }) => {
    const after = step("after", async () => "after");
    const long = workflow(scene.name("long"), async () => {
      await sleep("30d");
      return await after();
    });
    const { store, worker } = await scene.work();
    const run = await start(long, [], { store });
    await untilReleased(store, run.id);
    await until("the worker has nothing left", () => worker.running === 0);
    expect(await run.status).toBe("running");
    await run.wakeUp();
    expect(await run.returnValue).toBe("after");
    expect(await story(store, run.id)).toEqual(["sleep sleep#0", "woke sleep#0", "step after#0", "done after#0", "end completed"]);
  });

  test("wakeUp works for a run that sleeps in memory, for one that does not sleep, and for one that has ended", async ({ scene }) => {
    const short = workflow(scene.name("short"), async () => {
      await sleep(900);
      await sleep("1h");
      return "up";
    });
    const { store } = await scene.work();
    const run = await start(short, [], { store });
    await run.wakeUp();
    await until("the first sleep is over", async () => (await story(store, run.id)).includes("sleep sleep#1"));
    await run.wakeUp();
    expect(await run.returnValue).toBe("up");
    await run.wakeUp();
    expect(await run.status).toBe("completed");
  });

  test("wakeUp of some sleeps ends only those, and returns how many", async ({ scene }) => {
    const naps = workflow(scene.name("naps"), async () => {
      const woken: string[] = [];
      const nap = async (name: string, time: string) => {
        await sleep(time);
        woken.push(name);
      };
      await Promise.all([nap("a", "1h"), nap("b", "2 hours"), nap("c", "3h")]);
      return woken;
    });
    const { store, worker } = await scene.work();
    const run = await start(naps, [], { store });
    await untilReleased(store, run.id);
    await until("it has left memory", () => !worker.has(run.id));
    expect((await run.sleeps).map(({ id }) => id)).toEqual(["sleep#0", "sleep#1", "sleep#2"]);
    expect(await run.wakeUp({ correlationIds: ["sleep#1", "sleep#7"] })).toEqual({ stoppedCount: 1 });
    await until("one has ended", async () => (await run.sleeps).length === 2);
    expect(await run.wakeUp({ correlationIds: ["sleep#1"] })).toEqual({ stoppedCount: 0 });
    await expect(run.wakeUp({ correlationIds: [] })).rejects.toThrow(InvalidInputError);
    await expect(run.wakeUp({ correlationIds: "sleep#0" as never })).rejects.toThrow(InvalidInputError);
    expect(await run.wakeUp()).toEqual({ stoppedCount: 2 });
    expect(await run.returnValue).toEqual(["b", "a", "c"]);
    expect(await run.wakeUp()).toEqual({ stoppedCount: 0 });
    expect(await run.sleeps).toEqual([]);
    await expect(getRun("none", { store }).wakeUp()).rejects.toThrow(RunNotFoundError);
  });

  test("a sleep survives its worker: the next worker ends it, and not too early", async ({ scene }) => {
    const long = workflow(scene.name("long"), async () => {
      await sleep(400);
      return "awake";
    });
    const doomed = await scene.workAndDie();
    const run = await start(long, [], { store: doomed.store });
    doomed.die();
    const { store } = await scene.work();
    expect(await getRun(run.id, { store }).returnValue).toBe("awake");
    const items = await readJournal(run.id, { store });
    expect(nap(items, 0).forMs).toBeGreaterThanOrEqual(400);
    expect(nap(items, 0).lateMs).toBeGreaterThanOrEqual(0);
    expect(items.filter((item) => item.type === "sleep")).toHaveLength(1);
  });

  test("a sleep whose time passed while no worker ran ends at once", async ({ scene }) => {
    const long = workflow(scene.name("long"), async () => {
      await sleep(1100);
      return "awake";
    });
    const first = await scene.work();
    const run = await start(long, [], { store: first.store });
    await untilReleased(first.store, run.id);
    await first.worker.stop();
    const wakeAt = Number((await first.store.runs.read(run.id))?.wakeAt);
    await until("its time has come", () => Date.now() > wakeAt);
    const { store } = await scene.work();
    expect(await getRun(run.id, { store }).returnValue).toBe("awake");
  });

  test("1,000 sleeping runs are not in memory", async ({ scene }) => {
    const sleeper = workflow(scene.name("sleeper"), async (i: number) => {
      await sleep("1h");
      return i;
    });
    const { store, worker } = await scene.work();
    const runs = await Promise.all(Array.from({ length: 1000 }, (_, i) => start(sleeper, [i], { id: `sleeper-${i}`, store })));
    await until("all have begun", async () => (await listRuns({ store, status: "pending", limit: 1 })).items.length === 0);
    await until("all are asleep", () => worker.running === 0);
    expect((await listRuns({ store, status: "running", limit: 1000 })).items).toHaveLength(1000);
    await runs[700]?.wakeUp();
    expect(await runs[700]?.returnValue).toBe(700);
  });
});

plain("sleep outside of a workflow is an error", () => {
  expect(() => sleep(1)).toThrow(ContextError);
});
