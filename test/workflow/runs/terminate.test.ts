import type { Store } from "onceflow";
import { ContextError, createHook, getStepMetadata, RunCancelledError, sleep, step, workflow } from "onceflow/workflow";
import { getRun, readAttempts, readJournal, resolveStep, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import type { RunOperation } from "../../../src/core/runs/operation.js";
import { mortal } from "../../../src/testing/mortal-store.js";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { settled, until } from "../../kit/until.js";
import { heldAt, story, untilReleased, untilStatus } from "../scene.js";

onStores("terminate", everyStore, (test) => {
  test("aborts running steps, journals their verdicts and ends the run as cancelled; returnValue rejects", async ({ scene }) => {
    const called = gate<AbortSignal>();
    const slow = step("slow", async () => {
      const { signal } = getStepMetadata();
      called.open(signal);
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    const after = step("after", async () => 1);
    const run = workflow(scene.name("run"), async () => {
      await slow();
      return await after();
    });
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    const signal = await called.opened;
    await started.terminate();
    await expect(started.returnValue).rejects.toThrow(RunCancelledError);
    expect(signal.aborted).toBe(true);
    expect(String(signal.reason)).toContain("cancelled");
    expect(await started.status).toBe("cancelled");
    const lines = await story(store, started.id);
    expect(lines[0]).toBe("step slow#0");
    expect(lines).toContain("fail slow#0");
    expect(lines.at(-1)).toBe("end cancelled");
    expect(lines).not.toContain("step after#0");
  });

  test("journals a step as done that succeeds within its grace", async ({ scene }) => {
    const called = gate();
    const slow = step("slow", async () => {
      const { signal } = getStepMetadata();
      called.open();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return "done all the same";
    });
    const run = workflow(scene.name("run"), async () => await slow());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    await called.opened;
    await started.terminate();
    await expect(started.returnValue).rejects.toThrow(RunCancelledError);
    expect(await story(store, started.id)).toEqual(["step slow#0", "cancel run", "done slow#0", "end cancelled"]);
  });

  test("leaves a body behind that does not stop within its grace, and the journal says so", async ({ scene }) => {
    const called = gate<string>();
    const deaf = step(
      "deaf",
      async () => {
        called.open(getStepMetadata().stepId);
        await new Promise(() => {});
      },
      { graceMs: 20 },
    );
    const run = workflow(scene.name("run"), async () => await deaf());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    const stepId = await called.opened;
    await started.terminate();
    await expect(started.returnValue).rejects.toThrow(RunCancelledError);
    expect(await readAttempts(started.id, stepId, { store })).toMatchObject([{ attempt: 1, verdict: "failed", how: "abandoned" }]);
  });

  test("does not show an attempt as running that was open when its process died", async ({ scene }) => {
    const called = gate<string>();
    const held = step("held", async () => {
      called.open(getStepMetadata().stepId);
      await new Promise(() => {});
    });
    const run = workflow(scene.name("run"), async () => await held());
    const dead = await scene.workAndDie();
    const { id } = await start(run, [], { store: dead.store });
    const stepId = await called.opened;
    dead.die();
    const store = await scene.open();
    await getRun(id, { store }).terminate();
    await scene.work({}, store);
    await untilStatus(store, id, "cancelled");
    for (const attempt of await readAttempts(id, stepId, { store })) expect(attempt.verdict).not.toBe("running");
    expect((await readAttempts(id, stepId, { store })).map(({ attempt }) => attempt)).toEqual([1]);
  });

  test("ends a sleeping run, in memory and released", async ({ scene }) => {
    const asleep = workflow(scene.name("asleep"), async (ms: number) => await sleep(ms));
    const { store, worker } = await scene.work();
    const short = await start(asleep, [900], { store });
    await short.terminate();
    await expect(short.returnValue).rejects.toThrow(RunCancelledError);
    const long = await start(asleep, [3_600_000], { store });
    await untilReleased(store, long.id);
    await long.terminate();
    await expect(long.returnValue).rejects.toThrow(RunCancelledError);
    expect(worker.running).toBe(0);
  });

  test("ends a run that waits for a hook, and one that waits for a retry", async ({ scene }) => {
    const waiting = workflow(scene.name("waiting"), async () => await createHook());
    let calls = 0;
    const broken = step(
      "broken",
      async () => {
        calls += 1;
        throw new Error("no");
      },
      { backoff: { minMs: 30_000, maxMs: 30_000 } },
    );
    const retrying = workflow(scene.name("retrying"), async () => await broken());
    const { store } = await scene.work();
    const runs = [await start(waiting, [], { store }), await start(retrying, [], { store })];
    await until("it has failed once", () => calls === 1);
    for (const run of runs) {
      await run.terminate();
      await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    }
    expect(calls).toBe(1);
  });

  test("ends a pending run, and none of its code is ever executed", async ({ scene }) => {
    let calls = 0;
    const count = step("count", async () => ++calls);
    const run = workflow(scene.name("run"), async () => await count());
    const outside = await scene.open();
    const started = await start(run, [], { store: outside });
    await started.terminate();
    expect(await started.status).toBe("cancelled");
    const { store } = await scene.work();
    await expect(getRun(started.id, { store }).returnValue).rejects.toThrow(RunCancelledError);
    expect(calls).toBe(0);
  });

  test("ends runs whose workflow no worker has: pending, asleep, and with a hook, a parent and a step in doubt", async ({ scene }) => {
    const asleep = workflow(scene.name("asleep"), async () => await sleep("1h"));
    const doubtful = step("doubtful", () => Promise.reject(new Error("no answer")), { effect: "atMostOnce" });
    const child = workflow(scene.name("child"), async () => {
      const hook = createHook({ token: "t" });
      return await Promise.all([hook, doubtful()]);
    });
    const parent = workflow(scene.name("parent"), async () => await (await start(child, [], { id: "child" })).returnValue);
    const { store, worker } = await scene.work();
    const [sleeper, waiter] = [await start(asleep, [], { store }), await start(parent, [], { store })];
    for (const id of [sleeper.id, waiter.id, "child"])
      await until(`run "${id}" has left memory`, async () => (await store.runs.read(id))?.owner === null && !worker.has(id));
    await worker.stop();
    const other = await scene.open();
    const pending = await start(asleep, [], { store: other });
    for (const run of [pending, sleeper, getRun("child", { store: other })]) {
      await getRun(run.id, { store: other }).terminate();
      expect(await run.status).toBe("cancelled");
      await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    }
    expect(await story(other, sleeper.id)).toEqual(["sleep sleep#0", "cancel run", "end cancelled"]);
    expect(await other.runs.hook("t")).toBeUndefined();
    await scene.work({ workflows: [parent] });
    const error = await thrownBy(getRun(waiter.id, { store: other }).returnValue);
    expect(error.message).toContain('run "child" was cancelled');
  });

  test("of a run without a worker records the resolution that a person has given for its step", async ({ scene }) => {
    const charge = step(scene.name("charge"), async (): Promise<string> => Promise.reject(new Error("socket hang up")), {
      effect: "atMostOnce",
    });
    const run = workflow(scene.name("run"), async () => await charge());
    const { store, worker } = await scene.work({ workflows: [run] });
    const { id } = await start(run, [], { store });
    await untilStatus(store, id, "unknown");
    await worker.stop();
    const stepId = (await readJournal(id, { store })).find(({ type }) => type === "doubt")?.stepId ?? "";
    await resolveStep({ reason: "test", runId: id, stepId, attempt: 1, store }, { completed: "charged by hand" });
    await getRun(id, { store }).terminate();
    expect(await getRun(id, { store }).status).toBe("cancelled");
    expect((await store.runs.read(id))?.unsettled).toBe(0);
    expect((await readJournal(id, { store })).filter(({ type }) => type === "done")).toHaveLength(1);
  });

  test("of a run whose last worker died in a step leaves the step in doubt, and a person can resolve it", async ({ scene }) => {
    const reached = gate();
    const hang = step(
      "hang",
      async () => {
        reached.open();
        await new Promise(() => {});
      },
      { effect: "atMostOnce" },
    );
    const run = workflow(scene.name("run"), async () => await hang());
    const doomed = await scene.workAndDie();
    const { id } = await start(run, [], { store: doomed.store });
    await reached.opened;
    doomed.die();
    const store = await scene.open();
    await until("its lease is over and a terminate ends it", async () => {
      await getRun(id, { store }).terminate();
      return (await getRun(id, { store }).status) === "cancelled";
    });
    const [item] = (await readJournal(id, { store })).filter(({ type }) => type === "doubt");
    expect((await store.runs.read(id))?.unsettled).toBe(1);
    await resolveStep({ reason: "test", runId: id, stepId: item?.stepId ?? "", attempt: 1, store }, "notApplied");
    expect((await store.runs.read(id))?.unsettled).toBe(0);
  });

  test("without a worker, by a process that dies after it has claimed the run: the next terminate ends the run", async ({ scene }) => {
    const asleep = workflow(scene.name("asleep"), async () => await sleep("1h"));
    const doomed = mortal(await scene.open());
    const commit = async (batch: { run?: RunOperation }) => {
      if (batch.run?.verb === "append") doomed.die();
      return await doomed.store.commit(batch as never);
    };
    const dying = Object.create(doomed.store, { commit: { value: commit } }) as Store;
    const run = await start(asleep, [], { store: dying });
    void run.terminate();
    const store = await scene.open();
    await until("it has claimed the run", async () => (await store.runs.read(run.id))?.owner !== null);
    await until("another terminate ends it", async () => {
      await getRun(run.id, { store }).terminate();
      return (await getRun(run.id, { store }).status) === "cancelled";
    });
    expect(await story(store, run.id)).toEqual([expect.stringMatching(/^claim /), "cancel run", "end cancelled"]);
  });

  test("has no further effect when it is repeated, sent from two processes at once, or sent to an ended run", async ({ scene }) => {
    const asleep = workflow(scene.name("asleep"), async () => await sleep("1h"));
    const quick = workflow(scene.name("quick"), async () => "done");
    const { store } = await scene.work();
    const other = await scene.open();
    const run = await start(asleep, [], { store });
    await Promise.all([run.terminate(), run.terminate(), getRun(run.id, { store: other }).terminate()]);
    await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    const journal = await readJournal(run.id, { store });
    await run.terminate();
    expect(await readJournal(run.id, { store })).toEqual(journal);
    const ended = await start(quick, [], { store });
    expect(await ended.returnValue).toBe("done");
    await ended.terminate();
    expect(await ended.status).toBe("completed");
  });

  test("works from another process while a step runs", async ({ scene }) => {
    const called = gate();
    const slow = step("slow", async () => {
      const { signal } = getStepMetadata();
      called.open();
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    const run = workflow(scene.name("run"), async () => await slow());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    await called.opened;
    const outside = getRun(started.id, { store: await scene.open() });
    await outside.terminate();
    await expect(outside.returnValue).rejects.toThrow(RunCancelledError);
  });

  test("prevents a step from starting that is about to begin", async ({ scene }) => {
    const calls: string[] = [];
    const first = step("first", async () => void calls.push("first"));
    const second = step("second", async () => void calls.push("second"));
    const run = workflow(scene.name("run"), async () => {
      await first();
      await second();
    });
    const held = heldAt(await scene.open(), "done first#0");
    const { store } = await scene.work({}, held.store);
    const started = await start(run, [], { store });
    await held.reached;
    await started.terminate();
    await held.heard;
    await settled();
    held.free();
    await expect(started.returnValue).rejects.toThrow(RunCancelledError);
    expect(calls).toEqual(["first"]);
    const lines = await story(store, started.id);
    expect(lines.at(-1)).toBe("end cancelled");
    // The entry of the call was written, so its verdict has to be written, too.
    if (lines.includes("step second#0")) expect(lines).toContain("fail second#0");
  });

  test("survives a takeover: the run ends cancelled, and no step is run again", async ({ scene }) => {
    const called = gate();
    let calls = 0;
    const deaf = step("deaf", async () => {
      calls += 1;
      called.open();
      await new Promise(() => {});
    });
    const run = workflow(scene.name("run"), async () => await deaf());
    const doomed = await scene.workAndDie();
    const started = await start(run, [], { store: doomed.store });
    await called.opened;
    doomed.die();
    const outside = await scene.open();
    await getRun(started.id, { store: outside }).terminate();
    const { store } = await scene.work();
    await expect(getRun(started.id, { store }).returnValue).rejects.toThrow(RunCancelledError);
    expect(calls).toBe(1);
  });

  test("cannot be called directly in a workflow, and neither can wakeUp", async ({ scene }) => {
    const run = workflow(scene.name("run"), async () => {
      const other = getRun("other");
      const asked = await Promise.allSettled([other.terminate(), other.wakeUp()]);
      return asked.map((result) => result.status === "rejected" && result.reason instanceof ContextError);
    });
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toEqual([true, true]);
  });
});
