import type { Store } from "onceflow";
import { sleep, step, type Workflow, workflow } from "onceflow/workflow";
import { getRun, readAttempts, readJournal, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { letTimePass } from "../../kit/real-time.js";
import { everyStore, onStores, type Scene } from "../../kit/scene.js";
import { settled, until } from "../../kit/until.js";
import { captureWarnings } from "../../kit/warnings.js";
import { story, untilStatus } from "../scene.js";

/** A step that blocks until the test kills its process; after `mend()` it returns. */
function killer(scene: Scene, crashMax: number) {
  let calls = 0;
  let reached = gate();
  let harmless = false;
  const body = async () => {
    calls += 1;
    reached.open();
    if (!harmless) await new Promise(() => {});
    return "done";
  };
  const poison = step(scene.name("poison"), body, { maxRetries: 0, crashMax });
  return {
    poison,
    calls: () => calls,
    mend: () => {
      harmless = true;
    },
    /** A process claims the run and dies in the step. */
    async claimAndDie(order: Workflow): Promise<void> {
      reached = gate();
      const doomed = await scene.workAndDie({ workflows: [order] });
      await reached.opened;
      doomed.die();
    },
    async startAndDie(order: Workflow<[], unknown>, id: string): Promise<void> {
      reached = gate();
      const doomed = await scene.workAndDie({ workflows: [order] });
      await start(order, [], { id, store: doomed.store });
      await reached.opened;
      doomed.die();
    },
  };
}

async function trialOf(store: Store, id: string) {
  const run = await store.runs.read(id);
  return run && { deaths: run.deaths, crashes: run.crashes, alone: run.alone };
}

const innocent = { deaths: 0, crashes: 0, alone: false };

onStores("a run that kills its workers", everyStore, (test) => {
  test("is parked after more than crashMax workers died alone with it; deaths beside other runs do not count", async ({ scene }) => {
    const { poison, calls, claimAndDie, startAndDie } = killer(scene, 2);
    const order = workflow(scene.name("order"), async () => await poison());
    await startAndDie(order, "o-1");
    for (let death = 2; death <= 5; death++) await claimAndDie(order);
    const { store } = await scene.work({ workflows: [order] });
    await untilStatus(store, "o-1", "parked");
    expect(await getRun("o-1", { store }).trouble).toMatch(/died 3 times in step "poison \d+" .* crashMax is 2\..*wakeUp\(\)/);
    expect(await trialOf(store, "o-1")).toEqual({ deaths: 5, crashes: 3, alone: false });
    expect(calls()).toBe(5);
    const attempts = await readAttempts("o-1", (await readJournal("o-1", { store }))[0]?.stepId ?? "", { store });
    expect(attempts.map(({ verdict }) => verdict)).toEqual(["lapsed", "lapsed", "lapsed", "lapsed", "running"]);
  });

  test("wakeUp tries a parked run again, alone on its worker", async ({ scene }) => {
    const { poison, calls, claimAndDie, startAndDie, mend } = killer(scene, 0);
    const order = workflow(scene.name("order"), async () => await poison());
    await startAndDie(order, "o-1");
    for (let death = 2; death <= 3; death++) await claimAndDie(order);
    const { store } = await scene.work({ workflows: [order] });
    await untilStatus(store, "o-1", "parked");
    expect(calls()).toBe(3);
    mend();
    await getRun("o-1", { store }).wakeUp();
    expect(await getRun("o-1", { store }).returnValue).toBe("done");
    expect(calls()).toBe(4);
  });

  test("wakeUp of a parked run does not end its sleeps; the next wakeUp does", async ({ scene }) => {
    const { poison, calls, claimAndDie, startAndDie, mend } = killer(scene, 0);
    const order = workflow(scene.name("order"), async () => {
      await Promise.all([poison(), sleep("1h")]);
      return "done";
    });
    await startAndDie(order, "o-1");
    for (let death = 2; death <= 3; death++) await claimAndDie(order);
    const { store } = await scene.work({ workflows: [order] });
    const run = getRun("o-1", { store });
    await untilStatus(store, "o-1", "parked");
    mend();
    expect(await run.wakeUp()).toEqual({ stoppedCount: 0 });
    await until("the run is asleep again", async () => calls() === 4 && (await store.runs.read("o-1"))?.owner === null);
    expect((await run.sleeps).map(({ id }) => id)).toEqual(["sleep#0"]);
    expect(await run.status).toBe("running");
    expect(await run.wakeUp()).toEqual({ stoppedCount: 1 });
    expect(await run.returnValue).toBe("done");
    expect(calls()).toBe(4);
  });

  test("a parked run that is cancelled waits for an operator until its time is over, and then ends; none of its code runs", async ({
    scene,
  }) => {
    const { poison, calls, claimAndDie, startAndDie } = killer(scene, 0);
    const order = workflow(scene.name("order"), async () => await poison());
    await startAndDie(order, "o-1");
    for (let death = 2; death <= 3; death++) await claimAndDie(order);
    const { store } = await scene.work({ workflows: [order] });
    await untilStatus(store, "o-1", "parked");
    expect(await getRun("o-1", { store }).cancel({ cleanupMs: 1500 })).toMatchObject({ state: "requested" });
    await until("the request was read", async () => {
      const run = await store.runs.read("o-1");
      return run?.status === "parked" && run.wakeAt !== null && run.wakeAt === run.stopAt;
    });
    await untilStatus(store, "o-1", "cancelled");
    expect(await getRun("o-1", { store }).trouble).toContain("no cleanup ran");
    expect(calls()).toBe(3);
  });

  test("a parked run that is cancelled cleans up if an operator wakes it", async ({ scene }) => {
    const { poison, calls, claimAndDie, startAndDie, mend } = killer(scene, 0);
    const undo = step(scene.name("undo"), async () => {});
    const order = workflow(scene.name("order"), async () => {
      try {
        await poison();
      } finally {
        await undo();
      }
    });
    await startAndDie(order, "o-1");
    for (let death = 2; death <= 3; death++) await claimAndDie(order);
    const { store } = await scene.work({ workflows: [order] });
    await untilStatus(store, "o-1", "parked");
    const run = getRun("o-1", { store });
    await run.cancel();
    await until("the request was read", async () => {
      const row = await store.runs.read("o-1");
      return row?.status === "parked" && row.wakeAt !== null && row.wakeAt === row.stopAt;
    });
    mend();
    await run.wakeUp();
    await untilStatus(store, "o-1", "cancelled");
    expect((await story(store, "o-1")).some((line) => line.startsWith("done undo"))).toBe(true);
    expect(await run.trouble).toBeUndefined();
    expect(calls()).toBe(3);
  });

  test("a parked run that is terminated ends, and none of its code runs", async ({ scene }) => {
    const { poison, calls, claimAndDie, startAndDie } = killer(scene, 0);
    const order = workflow(scene.name("order"), async () => await poison());
    await startAndDie(order, "o-1");
    for (let death = 2; death <= 3; death++) await claimAndDie(order);
    const { store } = await scene.work({ workflows: [order] });
    await untilStatus(store, "o-1", "parked");
    await getRun("o-1", { store }).terminate();
    await untilStatus(store, "o-1", "cancelled");
    expect(calls()).toBe(3);
  });

  test("a worker claims no other run beside a suspect, and claims runs again when the suspect has ended", async ({ scene }) => {
    const { poison, claimAndDie, startAndDie, mend, calls } = killer(scene, 10);
    const [inPoison, leavePoison] = [gate(), gate()];
    const held = step("held", async () => {
      inPoison.open();
      await leavePoison.opened;
    });
    const order = workflow(scene.name("order"), async () => {
      // No progress before this: only the first attempt of `poison` is journaled when the process dies.
      await Promise.all([poison(), held()]);
    });
    let others = 0;
    const count = step("count", async () => {
      others += 1;
    });
    const other = workflow(scene.name("other"), async () => await count());
    await startAndDie(order, "o-1");
    await claimAndDie(order);
    mend();
    const { store, worker } = await scene.work({ workflows: [order, other], leaseMs: 60_000 });
    await until("the suspect is executed", () => calls() === 3);
    await inPoison.opened;
    expect(worker.running).toBe(1);
    leavePoison.open();
    const second = await start(other, [], { id: "other-1", store });
    await second.returnValue;
    await getRun("o-1", { store }).returnValue;
    expect(others).toBe(1);
  });

  test("is cleared when it makes progress: a result is journaled, and earlier deaths are no longer counted", async ({ scene }) => {
    const { poison, claimAndDie, startAndDie, mend } = killer(scene, 10);
    const leave = gate();
    const order = workflow(scene.name("order"), async () => {
      await poison();
      await step("hold", async () => await leave.opened)();
    });
    await startAndDie(order, "o-1");
    await claimAndDie(order);
    mend();
    const { store } = await scene.work({ workflows: [order], leaseMs: 60_000 });
    await until("it is cleared", async () => (await trialOf(store, "o-1"))?.deaths === 0);
    expect(await trialOf(store, "o-1")).toEqual(innocent);
    leave.open();
    await getRun("o-1", { store }).returnValue;
  });

  test("is cleared when it goes to sleep", async ({ scene }) => {
    const { poison, claimAndDie, startAndDie, mend } = killer(scene, 10);
    const order = workflow(scene.name("order"), async () => {
      await poison();
      await sleep("1h");
    });
    await startAndDie(order, "o-1");
    await claimAndDie(order);
    mend();
    const { store } = await scene.work({ workflows: [order] });
    await until("it sleeps", async () => (await store.runs.read("o-1"))?.owner === null);
    expect(await trialOf(store, "o-1")).toEqual(innocent);
  });

  test("is cleared after it has been alone for its time, and keeps its crash count: the next time is twice as long", async ({ scene }) => {
    const { poison, claimAndDie, startAndDie, calls } = killer(scene, 10);
    const order = workflow(scene.name("order"), async () => await poison());
    await startAndDie(order, "o-1");
    for (let death = 2; death <= 3; death++) await claimAndDie(order);
    // It is cleared after two leases, which is long enough to see it alone before.
    const { store, worker } = await scene.work({ workflows: [order], leaseMs: 1000, pollMs: 100 });
    await until("it is executed", () => calls() === 4);
    expect(await trialOf(store, "o-1")).toEqual({ deaths: 3, crashes: 1, alone: true });
    await until("it is cleared", async () => (await trialOf(store, "o-1"))?.alone === false);
    expect(await trialOf(store, "o-1")).toEqual({ deaths: 0, crashes: 1, alone: false });
    const journal = await readJournal("o-1", { store });
    const [claimed, cleared] = [journal.findLast(({ type }) => type === "claim"), journal.findLast(({ type }) => type === "cleared")];
    expect((cleared?.at.getTime() ?? 0) - (claimed?.at.getTime() ?? 0)).toBeGreaterThanOrEqual(1990);
    await worker.stop({ graceMs: 0 });
  });

  test("that was cleared and becomes a suspect again without progress is alone twice as long", async ({ scene }) => {
    const { poison, claimAndDie, startAndDie, calls } = killer(scene, 10);
    const order = workflow(scene.name("order"), async () => await poison());
    await startAndDie(order, "o-1");
    await claimAndDie(order);
    const { store, worker } = await scene.work({ workflows: [order], leaseMs: 300 });
    await until("it is cleared", async () => (await readJournal("o-1", { store })).some(({ type }) => type === "cleared"));
    expect(await trialOf(store, "o-1")).toEqual(innocent);
    await worker.stop({ graceMs: 0 });
    for (let death = 3; death <= 4; death++) await claimAndDie(order);
    const before = calls();
    const second = await scene.work({ workflows: [order], leaseMs: 300 });
    await until("it is executed again", () => calls() > before);
    const clearings = async () => (await readJournal("o-1", { store: second.store })).filter(({ type }) => type === "cleared");
    await until("it is cleared again", async () => (await clearings()).length === 2);
    const claim = (await readJournal("o-1", { store: second.store })).findLast(({ type }) => type === "claim");
    const cleared = (await clearings()).at(-1);
    expect((cleared?.at.getTime() ?? 0) - (claim?.at.getTime() ?? 0)).toBeGreaterThanOrEqual(590);
    await second.worker.stop({ graceMs: 0 });
  });

  test("a worker that has other runs releases them first; none of their steps fails or runs twice", async ({ scene }) => {
    const { poison, claimAndDie, startAndDie, mend, calls } = killer(scene, 10);
    const order = workflow(scene.name("order"), async () => await poison());
    const busy = workflow(scene.name("busy"), async () => {
      const done: number[] = [];
      for (let i = 0; i < 40; i++) done.push(await work(i));
      return done.length;
    });
    const started = new Map<number, number>();
    const work = step("work", async (i: number) => {
      started.set(i, (started.get(i) ?? 0) + 1);
      await letTimePass(20, "the run lasts longer than its worker needs to find the suspect");
      return i;
    });
    await startAndDie(order, "o-1");
    await claimAndDie(order);
    const { store } = await scene.work({ workflows: [order, busy], leaseMs: 5000, pollMs: 100 });
    const run = await start(busy, [], { id: "busy-1", store });
    mend();
    await until("the suspect is executed", () => calls() === 3);
    expect(await getRun("o-1", { store }).returnValue).toBe("done");
    expect(await run.returnValue).toBe(40);
    expect([...started.values()].every((times) => times === 1)).toBe(true);
  });

  test("the first death changes nothing: the run is taken over beside other runs, and the death does not count as a retry", async ({
    scene,
  }) => {
    const { poison, startAndDie, mend, calls } = killer(scene, 0);
    const order = workflow(scene.name("order"), async () => await poison());
    await startAndDie(order, "o-1");
    mend();
    const leave = gate();
    const other = workflow(scene.name("other"), async () => await step("hold", async () => await leave.opened)());
    const { store, worker } = await scene.work({ workflows: [order, other] });
    await start(other, [], { id: "other-1", store });
    expect(await getRun("o-1", { store }).returnValue).toBe("done");
    expect([calls(), worker.running]).toEqual([2, 1]);
    leave.open();
    await getRun("other-1", { store }).returnValue;
  });
});

onStores("a promise of a run that rejects before it is awaited", ["memory"], (test) => {
  test("has no effect on the run: the code awaits it later and catches the error", async ({ scene }) => {
    const fails = step("fails", async () => Promise.reject(new Error("card declined")), { maxRetries: 0 });
    const note = step("note", async () => {});
    const helper = async () => await fails();
    const order = workflow(scene.name("order"), async () => {
      const early = helper();
      await note();
      await sleep(300);
      return await early.catch((error: Error) => `caught: ${error.message}`);
    });
    const { store } = await scene.work({ workflows: [order] });
    const run = await start(order, [], { store });
    expect(await run.returnValue).toMatch(/caught: .*card declined/);
  });

  test("may also be in reconcile: the worker continues, and the value that reconcile returns counts", async ({ scene }) => {
    const charge = step(scene.name("charge"), async () => Promise.reject(new Error("timed out")), {
      effect: "reconcile",
      reconcileAfterMs: 0,
      maxRetries: 0,
      async reconcile() {
        void Promise.reject(new Error("in reconcile"));
        await settled();
        return { found: "charged" };
      },
    });
    const order = workflow(scene.name("order"), async () => await charge());
    const { store } = await scene.work({ workflows: [order] });
    expect(await (await start(order, [], { store })).returnValue).toBe("charged");
  });

  test("may also be in a step's body; if the run ends first, a warning names run and line", async ({ scene }) => {
    const warnings = captureWarnings(undefined, (end) => scene.onEnd(end));
    const careless = step("careless", async () => {
      void Promise.reject(new Error("in the body"));
      await settled();
      return "done";
    });
    const order = workflow(scene.name("order"), async () => {
      void (async () => {
        await careless();
        throw new Error("in the code");
      })();
      await careless();
      await sleep(10);
      return "ended";
    });
    const { store } = await scene.work({ workflows: [order] });
    const run = await start(order, [], { id: "o-1", store });
    expect(await run.returnValue).toBe("ended");
    await until("it is warned of", () => warnings.some(({ message }) => message.includes("in the code")));
    for (const text of ["in the body", "in the code"])
      expect(warnings.find(({ message }) => message.includes(text))?.message).toMatch(/^run "o-1" ended .* at .*poison\.test\.ts:\d+:\d+/);
  });

  test("is not reported to the application's listener, which gets rejections of other code only", async ({ scene }) => {
    const heard: unknown[] = [];
    // Vitest's listener would fail the test run.
    const listeners = process.listeners("unhandledRejection");
    process.removeAllListeners("unhandledRejection");
    process.on("unhandledRejection", (reason: Error) => void heard.push(reason.message));
    scene.onEnd(() => {
      process.removeAllListeners("unhandledRejection");
      for (const listener of listeners) process.on("unhandledRejection", listener);
    });
    const order = workflow(scene.name("order"), async () => {
      void Promise.reject(new Error("of the run"));
      await sleep(10);
    });
    const { store } = await scene.work({ workflows: [order] });
    await (await start(order, [], { store })).returnValue;
    void Promise.reject(new Error("of other code"));
    await until("it is heard", () => heard.length > 0);
    expect(heard).toEqual(["of other code"]);
  });
});
