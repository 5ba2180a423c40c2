import type { Store } from "onceflow";
import { EffectLedger, replayJournal } from "onceflow/testing";
import {
  CancelledError,
  createHook,
  getStepMetadata,
  RunCancelledError,
  sleep,
  step,
  type WorkflowFunction,
  work,
  workflow,
} from "onceflow/workflow";
import { getRun, listRuns, readJournal, resumeHook, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { dyingStore } from "../../kit/dying-store.js";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores, shortMs } from "../../kit/scene.js";
import { settled, until } from "../../kit/until.js";
import { story, untilReleased, untilStatus } from "../scene.js";

/** Replays the code on the journal as it was after each of its entries: it never diverges. */
async function replaysAtEveryPoint(store: Store, id: string, code: WorkflowFunction): Promise<void> {
  const run = await store.runs.read(id);
  const journal = await store.runs.journal(id, 0, 1000);
  if (run === undefined) throw new Error("the run exists");
  for (let n = 0; n <= journal.length; n++) {
    const { kind } = await replayJournal({ workflow: code, run, journal: journal.slice(0, n), store });
    expect([n, kind]).toEqual([n, n === journal.length ? "ended" : expect.stringMatching(/^open$|^ended$/)]);
  }
}

onStores("pause", everyStore, (test) => {
  test("the code gets nothing: results of bodies that run are journaled, and given in order after the resume", async ({ scene }) => {
    const [called, release] = [gate(), gate()];
    const seen: string[] = [];
    let running = 0;
    const slow = step(scene.name("slow"), async (what: string) => {
      running += 1;
      if (running === 2) called.open();
      await release.opened;
      return what;
    });
    const next = step(scene.name("next"), async (what: string) => void seen.push(what));
    const code = workflow(scene.name("code"), async () => {
      const branch = async (what: string) => {
        await slow(what);
        await next(`first ${what}`);
        await next(`second ${what}`);
      };
      await Promise.all([branch("a"), branch("b")]);
      return "done";
    });
    const { store, worker } = await scene.work();
    const run = await start(code, [], { store });
    await called.opened;
    expect(await run.pause()).toMatchObject({ state: "paused" });
    expect(await run.status).toBe("running");
    release.open();
    await untilStatus(store, run.id, "paused");
    expect(worker.running).toBe(0);
    const lines = await story(store, run.id);
    const pausedAt = lines.indexOf("pause run");
    expect(lines.slice(pausedAt + 1).map((line) => line.split(" ")[0])).toEqual(["done", "done"]);
    expect(seen).toEqual([]);
    expect((await listRuns({ store, status: "paused" })).items.map(({ id }) => id)).toContain(run.id);
    await run.resume();
    expect(await run.returnValue).toBe("done");
    expect(seen.sort()).toEqual(["first a", "first b", "second a", "second b"]);
    await replaysAtEveryPoint(store, run.id, code);
  });

  test("hook payloads and wake-ups stay in the mailbox, sleeps do not end, and none of them makes the run due", async ({ scene }) => {
    const token = scene.name("token");
    const code = workflow(scene.name("code"), async () => {
      const hook = createHook<string>({ token });
      const got = await Promise.all([hook, hook, sleep(300)]);
      return got.slice(0, 2);
    });
    const { store, worker } = await scene.work();
    const run = await start(code, [], { store });
    await until("it waits", async () => (await run.sleeps).length > 0);
    expect(await run.pause()).toMatchObject({ state: "paused" });
    await untilStatus(store, run.id, "paused");
    for (const payload of ["one", "two"]) await resumeHook(token, payload, { store });
    const epoch = (await store.runs.read(run.id))?.epoch;
    // A run that the worker claims after the sleep would have ended, and after the mail, shows that it had time to claim the paused one.
    const clock = workflow(scene.name("clock"), async () => await sleep(400));
    await (await start(clock, [], { store })).returnValue;
    await settled();
    expect(await store.runs.read(run.id)).toMatchObject({ status: "paused", owner: null, wakeAt: null, epoch });
    expect(worker.running).toBe(0);
    await run.resume();
    expect(await run.returnValue).toEqual(["one", "two"]);
    const lines = await story(store, run.id);
    expect(lines.slice(lines.indexOf("resume run") + 1).filter((line) => line.startsWith("got"))).toHaveLength(2);
    await replaysAtEveryPoint(store, run.id, code);
  });

  test("begins no step: neither one that is about to begin, nor a retry", async ({ scene }) => {
    const calls: string[] = [];
    const [called, release] = [gate(), gate()];
    const failing = step(
      scene.name("failing"),
      async () => {
        calls.push("failing");
        if (calls.length > 1) return;
        called.open();
        await release.opened;
        throw new Error("once");
      },
      { backoff: { minMs: 200, maxMs: 200 } },
    );
    const code = workflow(scene.name("code"), async () => await failing());
    const fresh = workflow(scene.name("fresh"), async () => await failing());
    const { store } = await scene.work();
    const run = await start(code, [], { store });
    await called.opened;
    expect(await run.pause()).toMatchObject({ state: "paused" });
    // The failure is recorded during the pause, so the retry is due during the pause, however busy the machine is.
    release.open();
    await until("it has failed", async () => (await story(store, run.id)).some((line) => line.startsWith("fail")));
    await untilStatus(store, run.id, "paused");
    const outside = await scene.open();
    const clock = workflow(scene.name("clock"), async () => await sleep(300));
    await (await start(clock, [], { store })).returnValue;
    expect(calls).toEqual(["failing"]);
    await run.resume();
    await run.returnValue;
    expect(calls).toEqual(["failing", "failing"]);
    // A run that no worker has: paused before its first step begins.
    const name = scene.name("later");
    const pending = await start({ workflowId: name }, [], { store: outside });
    expect(await pending.pause({ waitMs: 0 })).toMatchObject({ state: "requested" });
    workflow(name, fresh as () => Promise<void>);
    await untilStatus(store, pending.id, "paused");
    expect(calls).toHaveLength(2);
    await pending.resume();
    await pending.returnValue;
    expect(calls).toHaveLength(3);
  });

  test("a worker stops with a paused run while a body runs: the run stays paused", async ({ scene }) => {
    const [called, release] = [gate(), gate()];
    const slow = step(scene.name("slow"), async () => {
      called.open();
      await release.opened;
      return 1;
    });
    const code = workflow(scene.name("code"), async () => await slow());
    const { store, worker } = await scene.work();
    const run = await start(code, [], { store });
    await called.opened;
    await run.pause();
    const stopped = worker.stop();
    release.open();
    await stopped;
    expect(await run.status).toBe("paused");
    const { store: other } = await scene.work({}, await scene.open());
    await getRun(run.id, { store: other }).resume();
    expect(await run.returnValue).toBe(1);
    await replaysAtEveryPoint(store, run.id, code);
  });

  test("the process dies while a body runs in the pause: the run stays paused, and the step is repeated after the resume", async ({
    scene,
  }) => {
    const called = gate();
    let calls = 0;
    const slow = step(scene.name("slow"), async () => {
      calls += 1;
      called.open();
      if (calls === 1) await new Promise(() => {});
      return calls;
    });
    const code = workflow(scene.name("code"), async () => await slow());
    const doomed = await scene.workAndDie();
    const { id } = await start(code, [], { store: doomed.store });
    await called.opened;
    const outside = await scene.open();
    const run = getRun(id, { store: outside });
    expect(await run.pause()).toMatchObject({ state: "paused" });
    doomed.die();
    await scene.work({ leaseMs: shortMs }, outside);
    await untilStatus(outside, id, "paused");
    expect(calls).toBe(1);
    await run.resume();
    expect(await run.returnValue).toBe(2);
    await replaysAtEveryPoint(outside, id, code);
  });

  test("a cancel ends the pause, and so does terminate", async ({ scene }) => {
    const first = step(scene.name("first"), async () => 1);
    const seen: unknown[] = [];
    const undo = step(scene.name("undo"), async () => void seen.push("undone"));
    const token = scene.name("token");
    const code = workflow(scene.name("code"), async (key: string) => {
      await first();
      try {
        return await createHook({ token: key });
      } catch (error) {
        if (CancelledError.is(error)) await undo();
        throw error;
      }
    });
    const { store } = await scene.work();
    const runs = [await start(code, [`${token} 1`], { store }), await start(code, [`${token} 2`], { store })] as const;
    for (const run of runs) {
      await until("it waits", async () => (await story(store, run.id)).includes("hook hook#0"));
      await run.pause();
      await untilStatus(store, run.id, "paused");
    }
    await runs[0].cancel();
    await runs[1].terminate();
    for (const run of runs) await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    expect(seen).toEqual(["undone"]);
    await replaysAtEveryPoint(store, runs[0].id, code);
  });

  test("pause and resume that arrive together leave the run as it is; both are refused for a run that has ended", async ({ scene }) => {
    const token = scene.name("token");
    const code = workflow(scene.name("code"), async () => await createHook({ token }));
    const { store, worker } = await scene.work();
    const run = await start(code, [], { store });
    await untilReleased(store, run.id);
    await worker.stop();
    const outside = await scene.open();
    const same = getRun(run.id, { store: outside });
    expect(await same.pause({ waitMs: 0 })).toMatchObject({ state: "requested" });
    await same.resume();
    await scene.work({}, outside);
    await resumeHook(token, "payload", { store: outside });
    expect(await same.returnValue).toBe("payload");
    await expect(same.pause()).rejects.toThrow("has ended");
    await expect(same.resume()).rejects.toThrow("has ended");
    await expect(getRun("absent", { store: outside }).pause()).rejects.toThrow("not found");
  });
});

onStores("a paused run whose process dies at every commit", ["memory", "sqlite"], (test) => {
  for (const side of ["before", "after"] as const)
    test(`${side} it: each effect is applied once, in the order of the code`, async ({ scene }) => {
      for (let at = 0, isOver = false; !isOver; at++) {
        const provider = new EffectLedger({ honoursKeys: true });
        const release = gate();
        const effect = step(
          scene.name("effect"),
          async (what: string, isHeld: boolean) => {
            if (isHeld) await release.opened;
            provider.call(`${what} ${getStepMetadata().stepId}`, { result: what });
          },
          { effect: "keyed" },
        );
        const code = workflow(scene.name("code"), async () => {
          const branch = async (what: string) => {
            await effect(what, true);
            await effect(`after ${what}`, false);
          };
          await Promise.all([branch("a"), branch("b")]);
        });
        let commits = 0;
        const { store: own, died, hasDied } = dyingStore(await scene.open(), side, { run: () => commits++ === at });
        const outside = await scene.open();
        const { id } = await start(code, [], { store: outside });
        const first = await work(own, { leaseMs: shortMs, background: true, workflows: [code] });
        void died.then(async () => void (await scene.work({ leaseMs: shortMs, workflows: [code] }, outside)));
        const run = getRun(id, { store: outside });
        await until("its steps have begun", async () => (await readJournal(id, { store: outside })).some(({ type }) => type === "step"));
        expect(await run.pause()).toMatchObject({ state: "paused" });
        release.open();
        await untilStatus(outside, id, "paused");
        expect(provider.keys().filter((key) => key.startsWith("after"))).toEqual([]);
        await run.resume();
        await run.returnValue;
        expect([at, provider.keys().map((key) => provider.applied(key))]).toEqual([at, [1, 1, 1, 1]]);
        await replaysAtEveryPoint(outside, id, code);
        isOver = !hasDied();
        if (isOver) {
          expect(at).toBeGreaterThan(3);
          await first.stop();
        }
      }
    });
});

onStores("a step that is reconciled while the run is paused", everyStore, (test) => {
  test("does not begin its next attempt before the resume, although the provider has not got the call", async ({ scene }) => {
    const [asked, answer] = [gate(), gate()];
    const attempts: number[] = [];
    const charge = step(
      scene.name("charge"),
      async () => {
        const { attempt } = getStepMetadata();
        attempts.push(attempt);
        if (attempt === 1) throw new Error("no answer");
        return "charged";
      },
      {
        effect: "reconcile",
        reconcileAfterMs: 0,
        backoff: { minMs: 1, maxMs: 1 },
        reconcile: async () => {
          asked.open();
          await answer.opened;
          return "absent" as const;
        },
      },
    );
    const code = workflow(scene.name("code"), async () => await charge());
    const { store } = await scene.work();
    const run = await start(code, [], { store });
    await asked.opened;
    expect(await run.pause()).toMatchObject({ state: "paused" });
    answer.open();
    await untilStatus(store, run.id, "paused");
    expect(attempts).toEqual([1]);
    await run.resume();
    expect(await run.returnValue).toBe("charged");
    expect(attempts).toEqual([1, 2]);
    await replaysAtEveryPoint(store, run.id, code);
  });
});
