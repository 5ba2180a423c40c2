import { testWorkflows } from "onceflow/testing";
import { CancelledError, createHook, RunCancelledError, sleep, step, workflow } from "onceflow/workflow";
import { getRun, readJournal, start } from "onceflow/workflow/api";
import { describe, expect, onTestFinished, test as plainTest } from "vitest";
import { everyStore, onStores, shortMs } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { story, untilReleased, untilStatus } from "../scene.js";

const began = step("deadline: began", async () => 1);

onStores("deadline", everyStore, (test) => {
  test("cancels the run with the reason deadline; its code cleans up; a run that ends before is not affected", async ({ scene }) => {
    const seen: unknown[] = [];
    const note = step(scene.name("note"), async (what: unknown) => void seen.push(what));
    const code = workflow(scene.name("code"), async (ms: number) => {
      await began();
      try {
        await sleep(ms);
        return "in time";
      } catch (error) {
        if (CancelledError.is(error)) await note(error.reason);
        throw error;
      }
    });
    const { store } = await scene.work();
    const [late, inTime, without] = [
      await start(code, [3_600_000], { store, timeoutMs: 1500 }),
      await start(code, [10], { store, timeoutMs: 60_000 }),
      await start(code, [1], { store }),
    ];
    expect(((await late.deadlineAt)?.getTime() ?? 0) - (await late.createdAt).getTime()).toBe(1500);
    expect(await without.deadlineAt).toBeUndefined();
    await untilReleased(store, late.id);
    expect((await store.runs.read(late.id))?.wakeAt).toBe((await late.deadlineAt)?.getTime());
    expect(await inTime.returnValue).toBe("in time");
    await expect(late.returnValue).rejects.toThrow(RunCancelledError);
    expect(seen).toEqual(["deadline"]);
    const stop = (await readJournal(late.id, { store })).find(({ type }) => type === "stop");
    expect(stop?.at.getTime()).toBeGreaterThanOrEqual((await late.deadlineAt)?.getTime() ?? Number.POSITIVE_INFINITY);
    expect(stop?.detail[0]).toBe("deadline");
  });

  test("of a child run that its parent starts, and of a run whose process died", async ({ scene }) => {
    const child = workflow(scene.name("child"), async () => {
      await began();
      await createHook();
    });
    const parent = workflow(scene.name("parent"), async () => {
      const started = await start(child, [], { timeoutMs: 600 });
      return await started.returnValue.catch((error) => (error instanceof RunCancelledError ? "child was cancelled" : String(error)));
    });
    const { store } = await scene.work();
    expect(await (await start(parent, [], { store })).returnValue).toBe("child was cancelled");
    const doomed = await scene.workAndDie();
    const { id } = await start(child, [], { store: doomed.store, timeoutMs: 800 });
    doomed.die();
    const outside = await scene.open();
    await scene.work({ leaseMs: shortMs }, outside);
    await expect(getRun(id, { store: outside }).returnValue).rejects.toThrow(RunCancelledError);
  });

  test("passes while the run is paused: the pause ends, and the code cleans up", async ({ scene }) => {
    const seen: string[] = [];
    const note = step(scene.name("note"), async (what: string) => void seen.push(what));
    const code = workflow(scene.name("code"), async () => {
      await began();
      try {
        await createHook();
      } finally {
        await note("cleaned up");
      }
    });
    const { store } = await scene.work();
    const run = await start(code, [], { store, timeoutMs: 1200 });
    await until("it waits", async () => (await story(store, run.id)).includes("hook hook#0"));
    expect(await run.pause()).toMatchObject({ state: "paused" });
    await untilStatus(store, run.id, "paused");
    expect((await store.runs.read(run.id))?.wakeAt).toBe((await run.deadlineAt)?.getTime());
    expect(seen).toEqual([]);
    await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    expect(seen).toEqual(["cleaned up"]);
    const lines = await story(store, run.id);
    expect(lines.indexOf("resume run")).toBeGreaterThan(lines.indexOf("pause run"));
    expect(lines.indexOf("stop run")).toBeGreaterThan(lines.indexOf("resume run"));
  });

  test("an invalid timeoutMs is refused", async ({ scene }) => {
    const code = workflow(scene.name("code"), async () => 1);
    const { store } = await scene.work();
    for (const timeoutMs of [0, -1, 1.5, "1s"])
      await expect(start(code, [], { store, timeoutMs: timeoutMs as number })).rejects.toThrow("timeoutMs: must be a whole number");
  });
});

describe("in virtual time", () => {
  const code = workflow("deadline: code", async () => {
    await began();
    try {
      await sleep("30d");
    } finally {
      await sleep("5m");
      await began();
    }
  });

  async function runner() {
    const t = await testWorkflows();
    onTestFinished(() => t.close());
    return t;
  }

  plainTest("a deadline cancels the run at its time; the cleanup has 15 minutes", async () => {
    const t = await runner();
    const run = await t.start(code, [], { timeoutMs: 86_400_000 });
    await t.waitForSleep(run);
    await t.advance("23h");
    expect(await run.status).toBe("running");
    await t.advance("1h");
    expect((await t.waitForSleep(run)).id).toBe("sleep#1");
    await t.advance("5m");
    expect(await run.status).toBe("cancelled");
    t.expectCalls(began, 2);
    await t.expectReplay(run);
  });

  plainTest("cancel, pause and resume work in the runner; a cleanup that takes too long is cut off", async () => {
    const t = await runner();
    const run = await t.start(code);
    await t.waitForSleep(run);
    const pausing = run.pause();
    await t.settle();
    expect(await pausing).toMatchObject({ state: "paused" });
    await t.advance("10d");
    expect(await run.status).toBe("paused");
    await run.cancel({ reason: "test", cleanupMs: 60_000 });
    expect((await t.waitForSleep(run)).id).toBe("sleep#1");
    await t.advance("1m");
    expect(await run.status).toBe("cancelled");
    expect(await run.trouble).toContain("the time for cleaning up was over before the code had ended");
    await t.expectReplay(run);
  });
});
