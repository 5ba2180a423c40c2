import { NotApplied, type Store } from "onceflow";
import { EffectLedger, replayJournal } from "onceflow/testing";
import {
  CancelledError,
  createHook,
  FatalError,
  getStepMetadata,
  RunCancelledError,
  sleep,
  step,
  type WorkflowFunction,
  workflow,
} from "onceflow/workflow";
import { listRuns, readAttempts, readJournal, resolveStep, resumeHook, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { quick, story, untilReleased, untilStatus } from "../scene.js";
import { notes } from "./cleanup.js";

/** The error as the code sees it. */
function factsOf(error: unknown) {
  return CancelledError.is(error) ? [error.code, error.reason ?? null, error.mayHaveHappened] : String(error);
}

/** Replays the code on the journal as it was after each of its entries. */
async function replaysAtEveryPoint(store: Store, id: string, code: WorkflowFunction): Promise<void> {
  const run = await store.runs.read(id);
  const journal = await store.runs.journal(id, 0, 1000);
  if (run === undefined) throw new Error("the run exists");
  for (let n = 0; n <= journal.length; n++) {
    const { kind } = await replayJournal({ workflow: code, run, journal: journal.slice(0, n), store });
    expect([n, kind]).toEqual([n, n === journal.length ? "ended" : expect.stringMatching(/^open$|^ended$/)]);
  }
}

const forever = (): Promise<never> => new Promise(() => {});
const untilAborted = (signal: AbortSignal) => new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));

onStores("cancel", everyStore, (test) => {
  test("rejects a sleep, a hook, a child and a retry that the code waits for; the cleanup runs; then the run is cancelled", async ({
    scene,
  }) => {
    const { seen, note } = notes(scene);
    const first = step(scene.name("first"), async () => 1);
    const failing = step(
      scene.name("failing"),
      async () => {
        throw new Error("no");
      },
      { backoff: { minMs: 60_000, maxMs: 60_000 } },
    );
    const child = workflow(scene.name("child"), async () => await sleep("1h"));
    const code = workflow(scene.name("code"), async () => {
      await first();
      const started = await start(child);
      const waits = [sleep("1h"), createHook(), failing(), started.returnValue].map((each) => Promise.resolve(each));
      const settled = await Promise.all(waits.map((each) => each.then(String, factsOf)));
      await note(settled);
      return "cleaned up";
    });
    const { store } = await scene.work();
    const run = await start(code, [], { store });
    await until("it waits for all of them", async () => (await story(store, run.id)).some((line) => line.startsWith("fail failing")));
    expect(await run.cancel({ reason: "changed my mind" })).toMatchObject({ state: "requested", noWorker: false });
    await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    const plain = ["CANCELLED", "changed my mind", false];
    expect(seen).toEqual([[plain, plain, ["CANCELLED", "changed my mind", true], plain]]);
    expect(await run.status).toBe("cancelled");
    expect(await run.trouble).toBeUndefined();
    const lines = await story(store, run.id);
    expect(lines.filter((line) => line.startsWith("stop") || line.startsWith("cancelled"))[0]).toBe("stop run");
    expect(lines.at(-1)).toBe("end cancelled");
    expect(lines).not.toContain("cancel run");
    await replaysAtEveryPoint(store, run.id, code);
  });

  test("gives the code the result of a step that succeeds within its grace, so that it can be undone", async ({ scene }) => {
    const provider = new EffectLedger({ honoursKeys: true });
    const called = gate<AbortSignal>();
    const charge = step(scene.name("charge"), async () => {
      const { signal, stepId } = getStepMetadata();
      provider.call(`charge ${stepId}`, { result: 1 });
      called.open(signal);
      await untilAborted(signal);
      return "ch_1";
    });
    const refund = step(scene.name("refund"), async (id: string) => provider.call(`refund ${id}`, { result: 1 }));
    const code = workflow(scene.name("code"), async () => {
      let id: string | undefined;
      try {
        id = await charge();
        await sleep("1h");
      } finally {
        if (id !== undefined) await refund(id);
      }
    });
    const { store } = await scene.work();
    const run = await start(code, [], { store });
    const signal = await called.opened;
    await run.cancel();
    // The sleep was requested after the cancellation, so it works as usual: end it.
    await until("it sleeps", async () => (await run.sleeps).length > 0);
    expect(CancelledError.is(signal.reason)).toBe(true);
    await run.wakeUp();
    await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    expect(provider.keys().filter((key) => key.startsWith("refund"))).toEqual(["refund ch_1"]);
    expect(provider.applied("refund ch_1")).toBe(1);
    await replaysAtEveryPoint(store, run.id, code);
  });

  test("a step that stops because of its signal rejects with CancelledError; whether its effect may have happened is known", async ({
    scene,
  }) => {
    const { seen, note } = notes(scene);
    const started: unknown[] = [];
    const aborted = (name: string, error: (signal: AbortSignal) => unknown, options = {}) =>
      step(
        scene.name(name),
        async () => {
          const { signal } = getStepMetadata();
          started.push(name);
          await untilAborted(signal);
          throw error(signal);
        },
        options,
      );
    const steps = [
      aborted("rethrows", ({ reason }) => reason),
      aborted("without retries", ({ reason }) => reason, { maxRetries: 0 }),
      aborted("not applied", () => new NotApplied("nothing happened")),
      aborted("fatal", () => new FatalError("declined")),
      aborted("at most once", ({ reason }) => reason, { effect: "atMostOnce" }),
    ];
    const code = workflow(scene.name("code"), async () => {
      await note(await Promise.all(steps.map((each) => each().then(String, factsOf))));
    });
    const { store } = await scene.work();
    const run = await start(code, [], { store });
    await until("all have started", () => started.length === steps.length);
    await run.cancel();
    await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    const [yes, no] = [true, false].map((may) => ["CANCELLED", null, may]);
    expect(seen).toEqual([[yes, yes, no, "FatalError: declined", yes]]);
    expect(started).toHaveLength(steps.length);
    // The outcome of the step that must not run twice is unknown.
    expect((await store.runs.read(run.id))?.unsettled).toBe(1);
    await replaysAtEveryPoint(store, run.id, code);
  });

  test("a step that does not stop within its grace rejects; its outcome is recorded when it ends", async ({ scene }) => {
    const { seen, note } = notes(scene);
    const release = gate();
    const ids: string[] = [];
    const deaf = (name: string, options = {}) =>
      step(
        scene.name(name),
        async () => {
          ids.push(getStepMetadata().stepId);
          await release.opened;
          return name;
        },
        { graceMs: 20, ...options },
      );
    const [idempotent, once] = [deaf("idempotent"), deaf("at most once", { effect: "atMostOnce" })];
    const code = workflow(scene.name("code"), async () => {
      await note(await Promise.all([idempotent(), once()].map((each) => each.then(String, factsOf))));
    });
    const { store } = await scene.work();
    const run = await start(code, [], { store });
    await until("both have started", () => ids.length === 2);
    await run.cancel();
    await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    const yes = ["CANCELLED", null, true];
    expect(seen).toEqual([[yes, yes]]);
    const verdicts = async () => await Promise.all(ids.map(async (id) => (await readAttempts(run.id, id, { store })).at(-1)));
    expect(await verdicts()).toMatchObject([{ verdict: "failed", how: "abandoned" }, { verdict: "unknown" }]);
    expect((await store.runs.read(run.id))?.unsettled).toBe(1);
    expect((await listRuns({ store })).items.find(({ id }) => id === run.id)?.needsPerson).toBe(true);
    release.open();
    await until("the late outcomes are recorded", async () => {
      const late = (await readJournal(run.id, { store })).filter(({ type, detail }) => type === "done" && detail.includes("late"));
      return late.length === 2;
    });
    expect((await store.runs.read(run.id))?.unsettled).toBe(0);
  });

  test("a step with an unknown outcome rejects, stays unknown, and can be resolved during the cleanup", async ({ scene }) => {
    const { seen, note } = notes(scene);
    const doubtful = step(scene.name("doubtful"), async () => Promise.reject(new Error("no answer")), { effect: "atMostOnce" });
    const token = scene.name("cleanup");
    const code = workflow(scene.name("code"), async () => {
      await note(await doubtful().then(String, factsOf));
      await note(await createHook<string>({ token }));
    });
    const { store } = await scene.work();
    const run = await start(code, [], { store });
    await untilStatus(store, run.id, "unknown");
    await run.cancel();
    await until("the cleanup waits", async () => seen.length === 1 && (await store.runs.hook(token)) !== undefined);
    const [doubt] = (await readJournal(run.id, { store })).filter(({ type }) => type === "doubt");
    await resolveStep({ reason: "test", runId: run.id, stepId: doubt?.stepId ?? "", attempt: 1, store }, { completed: "it was sent" });
    await resumeHook(token, "go on", { store });
    await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    expect(seen).toEqual([["CANCELLED", null, true], "go on"]);
    expect((await store.runs.read(run.id))?.unsettled).toBe(0);
    await replaysAtEveryPoint(store, run.id, code);
  });

  test("what the cleanup requests works as usual: steps with retries, sleeps, hooks, children, and a hook that was rejected before", async ({
    scene,
  }) => {
    const { seen, note } = notes(scene);
    let calls = 0;
    const flaky = step(
      scene.name("flaky"),
      async () => {
        calls += 1;
        if (calls < 3) throw new Error("not yet");
        return calls;
      },
      quick,
    );
    const first = step(scene.name("first"), async () => 1);
    const child = workflow(scene.name("child"), async (what: string) => what);
    const token = scene.name("hook");
    const code = workflow(scene.name("code"), async () => {
      const hook = createHook<string>({ token });
      await first();
      try {
        await hook;
      } finally {
        await note(await flaky());
        await sleep(5);
        await note(await (await start(child, ["child"])).returnValue);
        await note(await hook);
      }
    });
    const { store } = await scene.work();
    const run = await start(code, [], { store });
    await until("it waits", async () => (await story(store, run.id)).some((line) => line.startsWith("done first")));
    await run.cancel();
    await until("the child has ended", () => seen.length === 2);
    await resumeHook(token, "late payload", { store });
    await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    expect(seen).toEqual([3, "child", "late payload"]);
    await replaysAtEveryPoint(store, run.id, code);
  });

  test("ends a run at once in which no step has begun; the journal has the reason", async ({ scene }) => {
    let cleanups = 0;
    const code = workflow(scene.name("code"), async () => {
      try {
        await sleep("1h");
      } finally {
        cleanups += 1;
      }
    });
    const { store, worker } = await scene.work();
    const run = await start(code, [], { store });
    await untilReleased(store, run.id);
    await run.cancel({ reason: "why not" });
    await untilStatus(store, run.id, "cancelled");
    expect(await story(store, run.id)).toEqual(["sleep sleep#0", "stop run", "cancel run", "end cancelled"]);
    await worker.stop();
    const pending = await start(code, [], { store: await scene.open() });
    expect(await pending.cancel()).toMatchObject({ state: "ended", noWorker: true });
    expect(await pending.status).toBe("cancelled");
    expect(await pending.cancel()).toMatchObject({ state: "ended", noWorker: false });
    expect(cleanups).toBe(0);
  });

  test("ends the run when the time for cleaning up is over, and says which step it has cut off", async ({ scene }) => {
    const first = step(scene.name("first"), async () => 1);
    const endless = step(scene.name("endless"), forever, { graceMs: 10 });
    const code = workflow(scene.name("code"), async () => {
      await first();
      await sleep("1h").catch(() => {});
      await endless();
    });
    const { store } = await scene.work();
    const run = await start(code, [], { store });
    await until("it sleeps", async () => (await run.sleeps).length > 0);
    await run.cancel({ cleanupMs: 300 });
    await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    expect(await run.trouble).toContain('was cut off in step "endless');
    expect((await listRuns({ store })).items.find(({ id }) => id === run.id)?.needsPerson).toBe(true);
    const lines = await story(store, run.id);
    expect(lines.indexOf("cancel run")).toBeGreaterThan(lines.indexOf("stop run"));
    await replaysAtEveryPoint(store, run.id, code);
  });

  test("a second cancel changes nothing, except that it can shorten the time for cleaning up; terminate ends the cleanup", async ({
    scene,
  }) => {
    const first = step(scene.name("first"), async () => 1);
    const code = workflow(scene.name("code"), async () => {
      await first();
      await sleep("1h").catch(() => {});
      await sleep("1h");
    });
    const { store } = await scene.work();
    const [run, other] = [await start(code, [], { store }), await start(code, [], { store })];
    for (const each of [run, other]) {
      await until("it sleeps", async () => (await each.sleeps).length > 0);
      await each.cancel({ reason: "first" });
      await until("the cleanup sleeps", async () => (await each.sleeps).some(({ id }) => id === "sleep#1"));
      await each.cancel({ reason: "second", cleanupMs: 3_600_000 });
    }
    await run.cancel({ cleanupMs: 50 });
    await other.terminate();
    for (const each of [run, other]) await expect(each.returnValue).rejects.toThrow(RunCancelledError);
    expect((await story(store, run.id)).filter((line) => line === "stop run")).toHaveLength(2);
    expect((await story(store, other.id)).filter((line) => line === "stop run")).toHaveLength(1);
    expect(await run.trouble).toContain("while the code was waiting");
    expect(await other.trouble).toBeUndefined();
    await replaysAtEveryPoint(store, run.id, code);
  });

  test("an error of the cleanup is reported as trouble; an error about the cancellation is not", async ({ scene }) => {
    const first = step(scene.name("first"), async () => 1);
    const undo = step(scene.name("undo"), async () => Promise.reject(new FatalError("cannot undo")));
    const code = workflow(scene.name("code"), async (breaks: boolean) => {
      await first();
      try {
        await sleep("1h");
      } catch (error) {
        if (breaks) await undo();
        throw new Error("the order was cancelled", { cause: error });
      }
    });
    const { store } = await scene.work();
    for (const breaks of [true, false]) {
      const run = await start(code, [breaks], { store });
      await until("it sleeps", async () => (await run.sleeps).length > 0);
      await run.cancel();
      await expect(run.returnValue).rejects.toThrow(RunCancelledError);
      expect(await run.trouble).toEqual(breaks ? expect.stringContaining("FatalError: cannot undo") : undefined);
    }
  });
});
