import { createHook, sleep, step, workflow } from "onceflow/workflow";
import { getRun, resumeHook, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { durableStores, everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { Process } from "../process.js";
import { story, untilReleased } from "../scene.js";

/** Polls every ten minutes, long after a test would time out: such a worker acts only because it is notified. */
const patient = { leaseMs: 600_000, pollMs: 600_000 } as const;

/** Workflows that other processes execute; this process only starts them and reads their results. */
const foreign = <Args extends unknown[]>(name: string) =>
  workflow(`process ${name}`, async (..._args: Args): Promise<string> => Promise.reject(new Error("this process must not execute it")));
const waiting = foreign<[string]>("waiting");
const either = foreign<[string, number]>("either");
const held = foreign<[]>("held");

onStores("wake-ups in one process", everyStore, (test) => {
  test("a start, a resume, a wakeUp and a cancel reach the worker at once", async ({ scene }) => {
    const run = workflow(scene.name("run"), async () => {
      const payload = await createHook({ token: "t" });
      await sleep("1h");
      return payload;
    });
    const { store } = await scene.work(patient);
    const started = await start(run, [], { store });
    await untilReleased(store, started.id);
    await resumeHook("t", "payload", { store });
    await until("it sleeps", async () => (await story(store, started.id)).includes("sleep sleep#0"));
    await untilReleased(store, started.id);
    await started.wakeUp();
    expect(await started.returnValue).toBe("payload");
    const second = await start(run, [], { store });
    await untilReleased(store, second.id);
    await second.cancel();
    await expect(second.returnValue).rejects.toThrow("cancelled");
  });

  test("a write on one handle wakes the worker of another, and the run's end wakes the waiting callers", async ({ scene }) => {
    const run = workflow(scene.name("run"), async () => await createHook({ token: "t" }));
    await scene.work(patient);
    const client = await scene.open();
    const started = await start(run, [], { store: client });
    await until("it was claimed", async () => (await started.status) === "running");
    await untilReleased(client, started.id);
    await resumeHook("t", "across", { store: client });
    expect(await started.returnValue).toBe("across");
  });

  test("a worker without free capacity polls again when it has capacity", async ({ scene }) => {
    const free = gate();
    const slow = step("slow", async (n: number) => {
      await free.opened;
      return n;
    });
    const run = workflow(scene.name("run"), async (n: number) => await slow(n));
    const { store, worker } = await scene.work({ ...patient, concurrency: 2 });
    const runs = await Promise.all([1, 2, 3, 4, 5, 6].map((n) => start(run, [n], { store })));
    await until("it is full", () => worker.running === 2);
    free.open();
    expect(await Promise.all(runs.map((each) => each.returnValue))).toEqual([1, 2, 3, 4, 5, 6]);
  });

  test("timers of released runs are not late", async ({ scene }) => {
    const run = workflow(scene.name("run"), async () => {
      await sleep(1200);
      return "awake";
    });
    const { store } = await scene.work(patient);
    const started = await start(run, [], { store });
    expect(await started.returnValue).toBe("awake");
  });
});

onStores("wake-ups across processes", durableStores, (test) => {
  test("a start, a resume of a waiting and of a released run, and a cancel reach the worker long before its next poll", async ({
    scene,
  }) => {
    await Process.of(scene, { worker: patient });
    const store = await scene.open();
    const first = await start(waiting, ["first"], { store });
    await until("it has begun", async () => (await story(store, first.id)).includes("hook hook#0"));
    await resumeHook("first", "at once", { store });
    expect(await first.returnValue).toBe("at once");
    const second = await start(waiting, ["second"], { store });
    await until("it has begun", async () => (await story(store, second.id)).includes("hook hook#0"));
    await untilReleased(store, second.id);
    await resumeHook("second", "later", { store });
    expect(await second.returnValue).toBe("later");
    const third = await start(waiting, ["third"], { store });
    await until("it has begun", async () => (await story(store, third.id)).includes("hook hook#0"));
    await third.cancel();
    await expect(third.returnValue).rejects.toThrow("cancelled");
  });

  test("mail reaches a run whose step is in progress in another process", async ({ scene }) => {
    const worker = await Process.of(scene, { worker: patient });
    const store = await scene.open();
    const run = await start(held, [], { store });
    await worker.next("called");
    await run.cancel();
    await worker.next("aborted");
    worker.send({ kind: "free" });
    await expect(getRun(run.id, { store }).returnValue).rejects.toThrow("cancelled");
  });

  test("an idle worker uses next to no CPU time while its runs wait", async ({ scene }) => {
    const worker = await Process.of(scene, { worker: {} });
    const store = await scene.open();
    for (let i = 0; i < 20; i++) await start(waiting, [`w${i}`], { store });
    const last = await start(waiting, ["last"], { store });
    await until("all have begun", async () => (await story(store, last.id)).includes("hook hook#0"));
    await untilReleased(store, last.id);
    expect(await quietest(worker, { windows: 12, ms: 1000, enough: 50 })).toBeLessThan(50);
  });

  test("a run that waits in memory for a hook or a timer uses next to no CPU time", async ({ scene }) => {
    const worker = await Process.of(scene, { worker: {} });
    const store = await scene.open();
    // Leaves out the cost of starting the process.
    worker.send({ kind: "measure", ms: 700 });
    await worker.next("cpu");
    // Longer than a run waits for a hook in memory, and short enough to stay there for its timer.
    const run = await start(either, ["t", 1200], { store });
    await until("it has begun", async () => (await story(store, run.id)).includes("sleep sleep#0"));
    // Three windows: after that the run no longer waits.
    expect(await quietest(worker, { windows: 3, ms: 300, enough: 25 })).toBeLessThan(100);
    expect(await run.returnValue).toBe("too late");
  });
});

interface Windows {
  readonly windows: number;
  readonly ms: number;
  /** The measurement stops once a window used less CPU time than this. */
  readonly enough: number;
}

/**
 * CPU time of the least busy of several windows: what is compiled and collected after a start falls into some of them, and
 * on a busy machine all of that takes longer. A worker that polls has none that is quiet.
 */
async function quietest(worker: Process, { windows, ms, enough }: Windows): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < windows && least >= enough; i++) {
    worker.send({ kind: "measure", ms });
    least = Math.min(least, (await worker.next("cpu")).ms);
  }
  return least;
}
