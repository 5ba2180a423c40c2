import { createHook, getStepMetadata, now, random, sleep, step, uuid, type Workflow, workflow } from "onceflow/workflow";
import { getRun, listRuns, readJournal, resumeHook, start } from "onceflow/workflow/api";
import { describe, expect, test as plain } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores, type Scene } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { story, untilStatus } from "../scene.js";

/** Versions of one workflow: the same name at the same place, as after a deployment. */
function version<Result>(name: string, fn: () => Promise<Result>): Workflow<[], Result> {
  return workflow(name, fn);
}

const note = step("note", async (text: string) => text);
const other = step("other", async (text: string) => text);

/** Runs `before` until it waits for the hook "go" and is released, and lets a worker with `after` resume it. */
async function deploy(scene: Scene, before: () => Promise<unknown>, after: () => Promise<unknown>) {
  const name = scene.name("deployed");
  const old = await scene.work({ workflows: [version(name, before)] });
  const run = await start(version(name, before), [], { id: "r", store: old.store });
  await until("it waits for its hook", async () => (await story(old.store, run.id)).includes("hook hook#0"));
  await old.worker.stop();
  await resumeHook("go", "go", { store: old.store });
  const next = await scene.work({ workflows: [version(name, after)] });
  return { name, store: next.store, worker: next.worker, run: getRun("r", { store: next.store }) };
}

onStores("determinism", everyStore, (test) => {
  test("now, random and uuid return the same values after a replay, and differ between runs and calls", async ({ scene }) => {
    const seen: unknown[][] = [];
    const reached = gate();
    const hold = step("hold", async () => {
      reached.open();
      if (seen.length === 1) await new Promise(() => {});
    });
    const draw = workflow(scene.name("draw"), async () => {
      const drawn: unknown[] = [now(), random(), uuid(), random(), uuid()];
      await note("time passes");
      drawn.push(now(), random());
      await sleep(15);
      drawn.push(now());
      seen.push(drawn);
      await hold();
      return drawn;
    });
    const doomed = await scene.workAndDie();
    const run = await start(draw, [], { id: "a", store: doomed.store });
    await reached.opened;
    doomed.die();
    const { store } = await scene.work();
    const result = await getRun(run.id, { store }).returnValue;
    expect(seen).toHaveLength(2);
    expect(seen[1]).toEqual(seen[0]);
    expect(result).toEqual(seen[0]);
    const [start0, a, id, b, id2, later, , latest] = seen[0] as [Date, number, string, number, string, Date, number, Date];
    expect(Number(later)).toBeGreaterThanOrEqual(Number(start0));
    expect(Number(latest) - Number(later)).toBeGreaterThanOrEqual(15);
    expect(a).not.toBe(b);
    expect(id).not.toBe(id2);
    expect(id).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
    for (const n of [a, b]) expect(n >= 0 && n < 1).toBe(true);
    const second = (await (await start(draw, [], { id: "b", store })).returnValue) as unknown[];
    expect(second[1]).not.toBe(a);
    expect(second[2]).not.toBe(id);
  });

  test("in a step, now, random and uuid return real values", async ({ scene }) => {
    const draw = step("draw", async () => [random(), uuid(), Math.abs(Number(now()) - Date.now()) < 1000]);
    const run = workflow(scene.name("run"), async () => [await draw(), await draw()]);
    const { store } = await scene.work();
    const [one, two] = (await (await start(run, [], { store })).returnValue) as unknown[][];
    expect(one?.[0]).not.toBe(two?.[0]);
    expect(one?.[1]).not.toBe(two?.[1]);
    expect(one?.[2]).toBe(true);
  });

  test("a replay makes the same requests and executes nothing again", async ({ scene }) => {
    let calls = 0;
    const count = step("count", async (n: number) => {
      calls += 1;
      return n;
    });
    const reached = gate();
    const hold = step("hold", async () => {
      reached.open();
      if (getStepMetadata().attempt === 1) await new Promise(() => {});
    });
    const run = workflow(scene.name("run"), async () => {
      const results = [await count(1), ...(await Promise.all([count(2), count(3)]))];
      await sleep(1);
      await hold();
      return results;
    });
    const doomed = await scene.workAndDie();
    const started = await start(run, [], { store: doomed.store });
    await reached.opened;
    doomed.die();
    const { store } = await scene.work();
    expect(await getRun(started.id, { store }).returnValue).toEqual([1, 2, 3]);
    expect(calls).toBe(3);
  });
});

onStores("divergence", everyStore, (test) => {
  const waiting = async () => {
    const first = await note("one");
    const hook = createHook<string>({ token: "go" });
    await hook;
    return [first, await note("two")];
  };

  test("another step: the run is parked with expected, found and the line in the user's file; nothing is executed", async ({ scene }) => {
    let calls = 0;
    const counted = step("counted", async () => ++calls);
    const { store, worker, run } = await deploy(scene, waiting, async () => await counted());
    await untilStatus(store, "r", "diverged");
    const trouble = (await run.trouble) ?? "";
    expect(trouble).toContain("Expected: the result of step note#0");
    expect(trouble).toContain("Found: the code asks for step counted#0");
    expect(trouble).toMatch(/at \S*determinism\.test\.ts:\d+/);
    expect(calls).toBe(0);
    expect(worker.running).toBe(0);
    expect((await listRuns({ store, status: "diverged" })).items.map(({ id }) => id)).toEqual(["r"]);
    expect(await story(store, "r")).toEqual(["step note#0", "done note#0", "hook hook#0", "park mail"]);
  });

  test("a diverged run continues under matching code when it is woken", async ({ scene }) => {
    const { name, store, worker, run } = await deploy(scene, waiting, async () => await other("new"));
    await untilStatus(store, "r", "diverged");
    await worker.stop();
    await scene.work({ workflows: [version(name, waiting)] });
    await run.wakeUp();
    expect(await run.returnValue).toEqual(["one", "two"]);
    expect(await run.trouble).toBeUndefined();
  });

  test("wakeUp of a diverged run tries it again and does not end its sleeps", async ({ scene }) => {
    const asleep = async () => {
      const hook = createHook<string>({ token: "go" });
      await Promise.all([note("one"), hook, sleep("1h")]);
    };
    const { name, store, worker, run } = await deploy(scene, asleep, async () => await other("new"));
    await untilStatus(store, "r", "diverged");
    await worker.stop();
    expect(await run.wakeUp()).toEqual({ stoppedCount: 0 });
    const { worker: matching } = await scene.work({ workflows: [version(name, asleep)] });
    await until("the run was tried, and is asleep", async () => (await run.status) === "running" && !matching.has("r"));
    expect((await run.sleeps).map(({ id }) => id)).toEqual(["sleep#0"]);
  });

  const changes: Record<string, readonly [after: () => Promise<unknown>, expected: string, found: string]> = {
    "other arguments": [
      async () => {
        await note("another one");
        return await createHook({ token: "go" });
      },
      "step note#0 with the arguments it had",
      "the same call with other arguments",
    ],
    "a step that is gone": [async () => await createHook({ token: "go" }), "the result of step note#0", "the code did not ask for it"],
    "an end that comes too early": [
      async () => {
        await note("one");
        return "ended";
      },
      "hook#0",
      "the code has ended",
    ],
    "a step in between": [
      async () => {
        await other("before");
        await note("one");
        return await createHook({ token: "go" });
      },
      "the result of step note#0",
      "the code asks for step other#0",
    ],
    "a sleep instead of a hook": [
      async () => {
        await note("one");
        await sleep("1h");
      },
      "hook#0",
      "the code waits for something else",
    ],
    "two new steps at once": [
      async () => await Promise.all([other("a"), other("b"), note("one")]),
      "the result of step note#0",
      "the code asks for step other#0",
    ],
    "a failure before the first step": [async () => Promise.reject(new Error("broken deployment")), "step note#0", "the code has ended"],
  };
  for (const [what, [after, expected, found]] of Object.entries(changes)) {
    test(`${what}: the run is parked, and nothing is lost`, async ({ scene }) => {
      const { name, store, worker, run } = await deploy(scene, waiting, after);
      await untilStatus(store, "r", "diverged");
      const trouble = (await run.trouble) ?? "";
      expect(trouble).toContain(`Expected: ${expected}`);
      expect(trouble).toContain(`Found: ${found}`);
      expect(trouble).toMatch(/at \S*determinism\.test\.ts:\d+/);
      await worker.stop();
      await scene.work({ workflows: [version(name, waiting)] });
      await run.wakeUp();
      expect(await run.returnValue).toEqual(["one", "two"]);
    });
  }

  test("requests that come after everything in the journal are new, and allowed", async ({ scene }) => {
    const { run } = await deploy(scene, waiting, async () => {
      await note("one");
      const hook = createHook<string>({ token: "go" });
      await hook;
      return [await other("new step"), random() >= 0, await note("two")];
    });
    expect(await run.returnValue).toEqual(["new step", true, "two"]);
  });

  test("a diverged run can be terminated, also under code that does not match", async ({ scene }) => {
    const { store, run } = await deploy(scene, waiting, async () => await other("new"));
    await untilStatus(store, "r", "diverged");
    await run.terminate();
    await expect(run.returnValue).rejects.toThrow("cancelled");
    expect((await story(store, "r")).at(-1)).toBe("end cancelled");
  });

  test("a parked run stays parked: waiting mail does not make a worker try it again and again", async ({ scene }) => {
    const { name, store, worker, run } = await deploy(scene, waiting, async () => await other("new"));
    await untilStatus(store, "r", "diverged");
    for (let i = 0; i < 3; i++) {
      const epoch = (await store.runs.read("r"))?.epoch;
      for (let look = 0; look < 5; look++) expect(await worker.tick()).toBe(0);
      expect((await store.runs.read("r"))?.epoch).toBe(epoch);
      await resumeHook("go", `more ${i}`, { store });
      await until("it was tried once more", async () => Number((await store.runs.read("r"))?.epoch) > Number(epoch));
      await untilStatus(store, "r", "diverged");
    }
    await worker.stop();
    await scene.work({ workflows: [version(name, waiting)] });
    await run.wakeUp();
    expect(await run.returnValue).toEqual(["one", "two"]);
  });

  test("mail that arrived while the run was parked is delivered in order, each once", async ({ scene }) => {
    const listening = async () => {
      const first = await note("one");
      const hook = createHook<string>({ token: "go" });
      return [first, await hook, await hook, await hook, await hook];
    };
    const { name, store, worker, run } = await deploy(scene, listening, async () => await other("new"));
    await untilStatus(store, "r", "diverged");
    await resumeHook("go", "second", { store, key: "second" });
    await until("it was tried again", async () => (await store.runs.read("r"))?.consumed === 2);
    await untilStatus(store, "r", "diverged");
    await worker.stop();
    await resumeHook("go", "third", { store });
    await resumeHook("go", "second", { store, key: "second" });
    await resumeHook("go", "fourth", { store });
    await scene.work({ workflows: [version(name, listening)] });
    expect(await run.returnValue).toEqual(["one", "go", "second", "third", "fourth"]);
  });

  test("other runs continue while one is parked", async ({ scene }) => {
    const { store } = await deploy(scene, waiting, async () => await other("new"));
    await untilStatus(store, "r", "diverged");
    const fine = workflow(scene.name("fine"), async () => await note("fine"));
    const { store: beside } = await scene.work({ workflows: [fine] });
    expect(await (await start(fine, [], { store: beside })).returnValue).toBe("fine");
  });

  test("an unrelated hook, sleep, draw or step does not shift the stepIds", async ({ scene }) => {
    const ids: string[] = [];
    const charge = step("charge", async () => void ids.push(getStepMetadata().stepId));
    const lean = workflow(scene.name("lean"), async () => {
      await charge();
      await charge();
    });
    const busy = workflow(scene.name("busy"), async () => {
      random();
      await other("before");
      await sleep(1);
      await charge();
      uuid();
      void createHook();
      await Promise.race([other("between"), sleep(1)]);
      await charge();
    });
    // The same run id in two databases; the code of the second has more requests.
    const { store } = await scene.work();
    const { store: memory } = await elsewhere(scene);
    await (await start(lean, [], { id: "same", store })).returnValue;
    await (await start(busy, [], { id: "same", store: memory })).returnValue;
    expect(ids).toHaveLength(4);
    expect(ids.slice(2)).toEqual(ids.slice(0, 2));
    expect((await readJournal("same", { store: memory })).filter((item) => item.id === "charge#1")).toHaveLength(2);
  });
});

async function elsewhere(scene: Scene) {
  const { open } = await import("onceflow");
  const store = await open("memory:");
  return await scene.work({}, store);
}

describe("definitions", () => {
  plain("two different workflows of one name are refused, and the error names both places; the same one may be loaded again", () => {
    const define = () => workflow("twice", async () => 1);
    define();
    expect(define).not.toThrow();
    expect(() => workflow("twice", async () => 2)).toThrow(
      /two different workflows are named "twice": at \S*determinism.test.ts:\d+.* and at \S*determinism.test.ts:\d+/,
    );
  });
});

describe("outside of a workflow", () => {
  plain("now, random and uuid return real values", () => {
    expect(Math.abs(Number(now()) - Date.now())).toBeLessThan(60_000);
    expect(random()).not.toBe(random());
    expect(uuid()).not.toBe(uuid());
  });
});
