import { AssertionError } from "node:assert";
import { configure, InvalidInputError, key, once, open } from "onceflow";
import { testWorkflows, type WorkflowTest } from "onceflow/testing";
import { createHook, FatalError, getStepMetadata, now, RunNotFoundError, sleep, step, workflow } from "onceflow/workflow";
import { getRun, listRuns, readJournal, resumeHook, start } from "onceflow/workflow/api";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { gate } from "../../kit/gate.js";
import { letTimePass } from "../../kit/real-time.js";

async function runner(options: Parameters<typeof testWorkflows>[0] = {}): Promise<WorkflowTest> {
  const t = await testWorkflows(options);
  onTestFinished(() => t.close());
  return t;
}

const begin = "2030-01-01T00:00:00.000Z";
const failing = step(
  "time: failing",
  async (times: number) => {
    const { attempt } = getStepMetadata();
    if (attempt <= times) throw new Error(`attempt ${attempt}`);
    return attempt;
  },
  { backoff: { minMs: 500 } },
);
const tell = step("time: tell", async (what: string) => what);
const naps = workflow("time: naps", async (...ms: number[]) => {
  const woken: string[] = [];
  await Promise.all(ms.map((each) => sleep(each).then(() => woken.push(`${each} at ${now().toISOString()}`))));
  return woken;
});
const approval = workflow("time: approval", async (token: string) => {
  using hook = createHook<string>({ token, metadata: { for: token } });
  return await hook;
});

describe("virtual time", () => {
  test("begins at the given date, is the time that workflows see, and does not pass by itself", async () => {
    const t = await runner({ now: new Date("2031-05-05T12:00:00Z") });
    const run = await t.start(
      workflow("time: clock", async () => {
        const before = now();
        await tell("x");
        return [before, now()];
      }),
    );
    expect(await t.result(run)).toEqual([new Date("2031-05-05T12:00:00Z"), new Date("2031-05-05T12:00:00Z")]);
    expect(t.now).toEqual(new Date("2031-05-05T12:00:00Z"));
  });

  test("advance ends sleeps in order, each at its time", async () => {
    const t = await runner();
    const run = await t.start(naps, [86_400_000, 10, 3_600_000, 999]);
    expect(await t.waitForSleep(run)).toEqual({ id: "sleep#1", until: new Date("2030-01-01T00:00:00.010Z") });
    await t.advance("1d");
    const at = ["2030-01-01T00:00:00.010Z", "2030-01-01T00:00:00.999Z", "2030-01-01T01:00:00.000Z", "2030-01-02T00:00:00.000Z"];
    const ms = [10, 999, 3_600_000, 86_400_000];
    expect(await t.result(run)).toEqual(ms.map((each, i) => `${each} at ${at[i]}`));
  });

  test("sleeps of several runs end in one common order; an advance that is too short ends none", async () => {
    const t = await runner();
    const late = await t.start(naps, [5000]);
    const early = await t.start(naps, [4999]);
    await t.advance(4998);
    await t.waitForSleep(early);
    await t.advance(1);
    expect(await early.status).toBe("completed");
    expect((await t.waitForSleep(late)).until).toEqual(new Date("2030-01-01T00:00:05.000Z"));
    await t.advance("1ms");
    expect(await late.status).toBe("completed");
  });

  test("a year passes at once, even while a caller waits for the run's end", async () => {
    const t = await runner();
    const run = await t.start(naps, [365 * 86_400_000]);
    const other = await t.start(approval, ["never"]);
    const value = run.returnValue;
    void other.returnValue.catch(() => {});
    await t.settle();
    await t.advance("365d");
    expect(await value).toHaveLength(1);
    expect(t.now).toEqual(new Date("2031-01-01T00:00:00.000Z"));
  });

  test("passes by itself until the next attempt of a step, so that tests do not wait for a backoff", async () => {
    const t = await runner();
    const run = await t.start(workflow("time: again", async () => await failing(2)));
    expect(await run.returnValue).toBe(3);
    // 500 ms and 1 s, without jitter.
    expect(t.calls(failing).map(({ at }) => at.toISOString().slice(17))).toEqual(["00.000Z", "00.500Z", "01.500Z"]);
  });

  test("ends sleeps that come due while it passes by itself", async () => {
    const t = await runner();
    const run = await t.start(
      workflow("time: both", async () => {
        const [, attempt] = await Promise.all([sleep(700).then(() => tell("woke")), failing(2)]);
        return [attempt, now().getTime() - Date.parse(begin)];
      }),
    );
    expect(await t.result(run)).toEqual([3, 1500]);
    expect(t.calls(tell).map(({ at }) => at.getTime() - Date.parse(begin))).toEqual([700]);
  });

  test("wakeUp ends a sleep without advancing time", async () => {
    const t = await runner();
    const run = await t.start(naps, [86_400_000]);
    await t.wakeUp(run);
    expect(await run.status).toBe("completed");
    expect(t.now.toISOString()).toBe(begin);
    await expect(t.wakeUp(run)).rejects.toThrow(/waited for a sleep, but run "run-1" has ended: completed with/);
  });

  test("a step times out when time is advanced; its grace passes by itself", async () => {
    const t = await runner({ patienceMs: 50 });
    const hanging = step("time: hanging", () => new Promise<string>(() => {}), { timeoutMs: 5000, maxRetries: 0 });
    const run = await t.start(workflow("time: timeout", async () => await hanging()));
    await expect(t.settle()).rejects.toThrow(
      'still running after 50 ms of real time: step "time: hanging" of run "run-1" (attempt 1). Make the step end, call advance(…) if it waits for its timeout, or raise patienceMs',
    );
    await t.advance("5s");
    await expect(t.result(run)).rejects.toThrow(/took longer than 5000 ms, and was still running 1000 ms after/);
    expect(t.now).toEqual(new Date("2030-01-01T00:00:06.000Z"));
  });

  test("stands still while a body runs, and settle waits for the body", async () => {
    const t = await runner();
    const order: string[] = [];
    const slow = step("time: slow", async () => {
      await letTimePass(30, "a runner that does not wait for a body moves its clock meanwhile");
      order.push(`slow ended at ${t.now.toISOString()}`);
    });
    t.mockStep(failing, async () => {
      order.push(`attempt ${getStepMetadata().attempt}`);
      if (getStepMetadata().attempt === 1) throw new Error("again");
      return 2;
    });
    const run = await t.start(workflow("time: waits", async () => await Promise.all([slow(), failing(1)])));
    await t.settle();
    expect(await run.status).toBe("completed");
    expect(order).toEqual(["attempt 1", `slow ended at ${begin}`, "attempt 2"]);
  });

  test("other runs can be waited for, resumed and woken while a body is held back", async () => {
    const t = await runner({ patienceMs: 30 });
    const held = gate();
    const holding = step("time: held", () => held.opened);
    const holder = workflow("time: holder", async (token: string) => {
      using hook = createHook({ token });
      await hook;
      await sleep("1d");
      await holding();
      return "free";
    });
    const run = await t.start(holder, ["held"]);
    await (await t.waitForHook(run)).resume();
    await t.wakeUp(run);
    expect(t.calls(holding)).toHaveLength(1);
    const other = await t.start(approval, ["other"]);
    await (await t.waitForHook(other)).resume("heard");
    expect(await t.result(other)).toBe("heard");
    await expect(t.result(run)).rejects.toThrow(/still running after 30 ms of real time: step "time: held" of run "run-1"/);
    await t.restart();
    expect(t.calls(holding)).toHaveLength(2);
    held.open();
    expect(await t.result(run)).toBe("free");
  });

  test("the loser of a race gets its grace, and the run ends without it", async () => {
    const t = await runner({ patienceMs: 20 });
    const deaf = step("time: deaf", () => new Promise<string>(() => {}));
    const run = await t.start(workflow("time: race", async () => await Promise.race([deaf(), sleep("1h").then(() => "slept")])));
    await t.advance("1h");
    expect(await t.result(run)).toBe("slept");
  });

  test("cancel, children and hooks need no real time", async () => {
    const t = await runner();
    const parent = workflow("time: parent", async () => {
      const child = await start(approval, ["child"]);
      return `child: ${await child.returnValue}`;
    });
    const run = await t.start(parent);
    await expect(t.waitForSleep(run)).rejects.toThrow(/but run "run-1" has the child run "run_/);
    const [child] = (await listRuns({ workflow: "time: approval" })).items;
    const hook = await t.waitForHook(child?.id ?? "");
    expect(hook).toMatchObject({ token: "child", metadata: { for: "child" } });
    await hook.resume("yes");
    expect(await t.result(run)).toBe("child: yes");
    const doomed = await t.start(approval, ["doomed"]);
    await t.waitForHook(doomed, { token: "doomed" });
    await doomed.cancel();
    await t.settle();
    expect(await doomed.status).toBe("cancelled");
    await expect(t.result(doomed)).rejects.toThrow("was cancelled");
  });

  test("many runs at once advance together", async () => {
    const t = await runner();
    const runs = await Promise.all(Array.from({ length: 150 }, (_, i) => t.start(naps, [1000 + i], { id: `many-${i}` })));
    await t.advance("1149ms");
    expect(await Promise.all(runs.map((run) => run.status))).toEqual(Array(150).fill("completed"));
  });
});

describe("waiting that cannot succeed", () => {
  test("throws an error that says what the run waits for instead", async () => {
    const t = await runner();
    const run = await t.start(approval, ["door"]);
    const advice = "The run does not continue by itself: advance the time, wake the run up, or resume its hook";
    const waits = `but run "run-1" has a hook with the token "door". ${advice}`;
    await expect(t.waitForSleep(run)).rejects.toThrow(`waited for a sleep, ${waits}`);
    await expect(t.waitForSleep(run)).rejects.toBeInstanceOf(AssertionError);
    await expect(t.waitForHook(run, { token: "window" })).rejects.toThrow(`waited for a hook with the token "window", ${waits}`);
    await expect(t.result(run)).rejects.toThrow(`waited for the end of the run, ${waits}`);
    await (await t.waitForHook(run)).resume("in");
    await expect(t.waitForHook(run)).rejects.toThrow('waited for a hook, but run "run-1" has ended: completed with "in"');
    const failed = await t.start(workflow("time: fails", async () => Promise.reject(new FatalError("broken"))));
    await expect(t.waitForHook(failed)).rejects.toThrow('run "run-2" has ended: failed with broken');
  });

  test("throws for a promise that the code made itself", async () => {
    const t = await runner();
    const run = await t.start(workflow("time: stuck", () => new Promise(() => {})));
    await expect(t.result(run)).rejects.toThrow(/waits for something that is not in its journal: a promise that its code made/);
  });

  test("throws for a run that no worker claims", async () => {
    const t = await runner({ worker: { workflows: [naps] } });
    const run = await t.start(approval, ["x"]);
    await expect(t.waitForHook(run)).rejects.toThrow(
      /run "run-1" is pending: no worker has claimed it, or the worker does not run its workflow/,
    );
  });

  test("throws for a step in doubt and for a run that does not exist", async () => {
    const t = await runner();
    const doubtful = step("time: doubtful", async () => Promise.reject(new Error("lost")), { effect: "atMostOnce" });
    const run = await t.start(workflow("time: doubt", async () => await doubtful()));
    await expect(t.result(run)).rejects.toThrow(/run "run-1" is unknown, and does not know the outcome of time: doubtful#0 \(attempt 1\)/);
    await expect(t.waitForSleep("nowhere")).rejects.toBeInstanceOf(RunNotFoundError);
    await expect(t.expectReplay("nowhere")).rejects.toBeInstanceOf(RunNotFoundError);
  });

  test("throws for arguments that are not valid times or stores", async () => {
    const t = await runner();
    for (const bad of ["soon", -1, Number.NaN, undefined, new Date()])
      await expect(t.advance(bad as never)).rejects.toBeInstanceOf(InvalidInputError);
    await expect(testWorkflows({ now: new Date("never") })).rejects.toBeInstanceOf(InvalidInputError);
    await expect(testWorkflows({ store: {} as never })).rejects.toBeInstanceOf(InvalidInputError);
    await expect(testWorkflows({ patienceMs: 0 })).rejects.toBeInstanceOf(InvalidInputError);
  });
});

describe("code that does not name a store", () => {
  test("uses the runner's store while the runner is open, and its own store again afterwards", async () => {
    const own = await open("memory:");
    onTestFinished(() => own.close());
    configure({ store: own, worker: false });
    const t = await testWorkflows();
    const run = await start(approval, ["ambient"], { id: "same" });
    await t.waitForHook(run);
    await resumeHook("ambient", "here");
    expect(await getRun("same").returnValue).toBe("here");
    expect((await once({ key: key.of("k") }, () => 1)).status).toBe("executed");
    await t.close();
    await t.close();
    expect(await getRun("same").exists).toBe(false);
    expect((await once({ key: key.of("k") }, () => 2)).value).toBe(2);
  });

  test("a second runner is refused while one is open, because each would get the other's runs", async () => {
    const t = await testWorkflows();
    await expect(testWorkflows()).rejects.toThrow(/another testWorkflows\(\) is still open \(opened at .*time\.test\.ts:\d+:\d+\)/);
    const quiet = await testWorkflows({ ambient: false });
    const [one, two] = await Promise.all([t.start(approval, ["x"]), quiet.start(approval, ["x"])]);
    await (await quiet.waitForHook(two)).resume("two");
    expect([await one.status, await two.status]).toEqual(["running", "completed"]);
    await Promise.all([t.close(), quiet.close()]);
    await (await testWorkflows()).close();
  });

  test("keyed operations use virtual time: duplicates wait for the first, and leases do not expire", async () => {
    const t = await runner();
    const free = gate();
    const all = Array.from({ length: 20 }, () =>
      once(t.store, { key: key.of("slow"), waitMs: 60_000 }, async () => {
        await free.opened;
        return 7;
      }),
    );
    await t.advance("30s");
    free.open();
    const statuses = (await Promise.all(all)).map(({ status }) => status);
    expect(statuses.filter((status) => status === "executed")).toHaveLength(1);
    expect(statuses.filter((status) => status === "replayed")).toHaveLength(19);
  });
});

test("fake timers of the test framework have no effect on the runner", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const t = await runner();
  const run = await t.start(naps, [5000]);
  await t.advance("5s");
  expect(await run.status).toBe("completed");
});

test("the same test gives the same trace fifty times in a row", async () => {
  const everything = workflow("time: everything", async (id: string) => {
    const [a] = await Promise.all([failing(2), tell(id), sleep("1h")]);
    using hook = createHook<string>({ token: id });
    const payload = await hook;
    await sleep("2d");
    return [a, payload, now().toISOString()];
  });
  const play = async () => {
    const t = await testWorkflows();
    t.crash({ step: tell, when: "after" });
    t.deliverTwice();
    const runs = [await t.start(everything, ["a"]), await t.start(everything, ["b"])];
    await t.advance("1h");
    for (const run of runs) await (await t.waitForHook(run)).resume(run.id, { key: "once" });
    await t.advance("2d");
    const ends = await Promise.all(runs.map((run) => t.result(run)));
    const journals = await Promise.all(runs.map((run) => readJournal(run.id, { store: t.store })));
    const calls = [failing, tell].flatMap((each) => t.calls(each as typeof tell));
    const trace = journals.flat().map(({ seq, type, id, at, attempt }) => [seq, type, type === "claim" ? "" : id, at, attempt]);
    await t.close();
    return JSON.stringify([ends, trace, calls, t.now]);
  };
  const first = await play();
  expect(first).toContain("claim");
  for (let again = 0; again < 49; again++) expect(await play()).toBe(first);
});
