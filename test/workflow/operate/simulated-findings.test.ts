import type { Store } from "onceflow";
import { createHook, FatalError, getWorkflowMetadata, sleep, step, uuid, workflow } from "onceflow/workflow";
import { deleteRun, forkRun, getRun, readOperatorLog, resumeHook, retryRun, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { heldAt, quick, story, untilStatus } from "../scene.js";

/** What the simulator of operators has found, each as the smallest story. */
onStores("found by simulation: a retry", everyStore, (test) => {
  test("finds the end of a child that ended while its parent had failed", async ({ scene }) => {
    let isDown = true;
    const open = { gate: () => {} };
    const opened = new Promise<void>((resolve) => {
      open.gate = resolve;
    });
    const work = step("work", async () => await opened.then(() => "worked"), quick);
    const charge = step("charge", async () => {
      if (isDown) throw new FatalError("down");
      return "charged";
    });
    const child = workflow(scene.name("child"), async () => await work());
    const order = workflow(scene.name("order"), async () => {
      const helper = await start(child);
      return await Promise.all([charge(), helper.returnValue]);
    });
    const { store } = await scene.work({ workflows: [order, child] });
    await start(order, [], { id: "o-1", store });
    await untilStatus(store, "o-1", "failed");
    const helper = (await store.runs.list({ limit: 10 })).find(({ parent }) => parent === "o-1")?.id ?? "";
    open.gate();
    await untilStatus(store, helper, "completed");
    isDown = false;
    await retryRun("o-1", { store });
    expect(await getRun("o-1", { store }).returnValue).toEqual(["charged", "worked"]);
  });

  test("is answered alike if it is sent twice at the same time with one id", async ({ scene }) => {
    let isDown = true;
    const charge = step("charge", async () => {
      if (isDown) throw new FatalError("down");
      return "charged";
    });
    const order = workflow(scene.name("order"), async () => await charge());
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store });
    await untilStatus(store, "o-1", "failed");
    isDown = false;
    const send = () => retryRun("o-1", { store, actionId: "a-1" });
    const answers = await Promise.all([
      send(),
      send(),
      until("it runs on", async () => (await story(store, "o-1")).some((event) => event.startsWith("retry"))).then(send),
    ]);
    expect(answers.map(({ steps }) => steps)).toEqual([answers[0]?.steps, answers[0]?.steps, answers[0]?.steps]);
    expect(answers.filter(({ repeated }) => !repeated)).toHaveLength(1);
    expect(await readOperatorLog({ store, runId: "o-1" })).toHaveLength(1);
  });

  test("is refused if a hook that it would drop has a payload, and the new hook does not get it", async ({ scene }) => {
    let isDown = true;
    const token = scene.name("token");
    const charge = step("charge", async () => {
      if (isDown) throw new FatalError("down");
      return "charged";
    });
    const order = workflow(scene.name("order"), async () => {
      try {
        await charge();
      } catch (error) {
        await createHook<string>({ token });
        throw error;
      }
      return await createHook<string>({ token });
    });
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store });
    await until("the hook is there", async () => (await story(store, "o-1")).includes("hook hook#0"));
    await resumeHook(token, "for the compensation", { store });
    await untilStatus(store, "o-1", "failed");
    isDown = false;
    await expect(retryRun("o-1", { store })).rejects.toMatchObject({ because: "begunAfter", ids: ["hook#0"] });
    await retryRun("o-1", { store, force: ["hook#0"] });
    await until("the new hook is there", async () => (await story(store, "o-1")).includes("hook hook#0~retry1"));
    await resumeHook(token, "for the order", { store });
    expect(await getRun("o-1", { store }).returnValue).toBe("for the order");
  });
});

onStores("found by simulation: a hook that the code has disposed of after the failure", everyStore, (test) => {
  test("has the payload that was accepted meanwhile, when a retry opens it again", async ({ scene }) => {
    let isDown = true;
    const token = scene.name("token");
    const charge = step("charge", async () => {
      if (isDown) throw new FatalError("down");
    });
    const order = workflow(scene.name("order"), async () => {
      const hook = createHook<string>({ token });
      await hook.getConflict();
      try {
        await charge();
      } catch (error) {
        hook.dispose();
        await sleep(1);
        throw error;
      }
      return await hook;
    });
    const plain = await scene.open();
    const held = heldAt(plain, "fail charge#0");
    await scene.work({ workflows: [order] }, held.store);
    await start(order, [], { id: "o-1", store: plain });
    await held.reached;
    await resumeHook(token, "accepted", { store: plain });
    await held.heard;
    held.free();
    await untilStatus(plain, "o-1", "failed");
    isDown = false;
    await retryRun("o-1", { store: plain });
    expect(await getRun("o-1", { store: plain }).returnValue).toBe("accepted");
  });
});

onStores("found by simulation: a second retry", everyStore, (test) => {
  test("drops what the code has asked for again after the first retry, and the code asks for it once more", async ({ scene }) => {
    let isDown = true;
    const [opened, later, thrown] = [gate(), gate(), gate()];
    const one = step("one", async () => {
      if (isDown) throw new FatalError("down");
    });
    const two = step("two", async () => await opened.opened);
    const after = step("after", async () => await later.opened);
    const three = step("three", async () => {
      await thrown.opened;
      if (isDown) throw new FatalError("down");
      return "three";
    });
    const order = workflow(scene.name("order"), async () => {
      void one().catch(() => {});
      void two().then(() => sleep("1h"));
      void after();
      return await three();
    });
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store });
    const has = (event: string, times = 1) =>
      until(event, async () => (await story(store, "o-1")).filter((each) => each === event).length === times);
    await has("fail one#0");
    opened.open();
    await has("sleep sleep#0");
    later.open();
    await has("done after#0");
    thrown.open();
    await untilStatus(store, "o-1", "failed");
    await retryRun("o-1", { store, steps: ["one#0"] });
    await has("end failed", 2);
    isDown = false;
    await retryRun("o-1", { store, steps: ["three#0"] });
    await until("it has come to an end, or is set aside", async () => (await getRun("o-1", { store }).status) !== "running");
    expect(await getRun("o-1", { store }).status).toBe("completed");
  });
});

onStores("found by simulation: other actions", everyStore, (test) => {
  test("a fork that is sent twice is answered, although its run was deleted meanwhile, and started again", async ({ scene }) => {
    const one = step("one", async () => {});
    const order = workflow(scene.name("order"), async (isLong: boolean) => (isLong ? await one() : undefined));
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [true], { id: "o-1", store });
    await getRun("o-1", { store }).returnValue;
    const fork = (at: Store) => forkRun("o-1", { store: at, from: "one#0", id: "o-2", actionId: "a-1" });
    let isFirst = true;
    const log: Store["runs"]["log"] = async (query) => {
      const read = await store.runs.log(query);
      if (isFirst) {
        isFirst = false;
        await fork(store);
        await deleteRun("o-1", { store, reason: "again" });
        await start(order, [false], { id: "o-1", store });
        await getRun("o-1", { store }).returnValue;
      }
      return read;
    };
    const slow = Object.create(store, { runs: { value: Object.create(store.runs, { log: { value: log } }) as unknown } }) as Store;
    expect(await fork(slow)).toMatchObject({ forkId: "o-2", repeated: true });
  });

  test("a fork of a run that was isolated from its first entry on began when that run began", async ({ scene }) => {
    const given: number[] = [];
    const one = step("one", async (began: number) => void given.push(began), quick);
    const order = workflow(scene.name("order"), async () => {
      const began = getWorkflowMetadata().workflowStartedAt.getTime();
      await sleep(1);
      await one(began);
      await sleep(1);
      return began;
    });
    const store = await scene.open();
    await start(order, [], { id: "o-1", store });
    // Owners that die with the run make it a suspect, and the worker notes that it executes the run alone before it calls the code.
    for (const owner of ["first", "second", "third"])
      await until("its owner has died", async () => {
        const { claimed } = await store.runs.claim({ owner, workflows: [order.workflowId], leaseMs: 1, limit: 1 });
        return claimed.length > 0;
      });
    await scene.work({ workflows: [order] }, store);
    const began = await getRun("o-1", { store }).returnValue;
    expect((await story(store, "o-1"))[0]).toMatch(/^claim/);
    await forkRun("o-1", { store, id: "o-2", from: "sleep#1" });
    await until("it has come to an end, or is set aside", async () => (await getRun("o-2", { store }).status) !== "running");
    expect(await getRun("o-2", { store }).status).toBe("completed");
    expect(await getRun("o-2", { store }).returnValue).toBe(began);
    expect(given).toEqual([began]);
  });

  test("a fork of a fork that is cut within the copied part has what the first run had", async ({ scene }) => {
    const given: string[] = [];
    const one = step("one", async (id: string) => void given.push(id), quick);
    const two = step("two", async () => {}, quick);
    const order = workflow(scene.name("order"), async () => {
      const id = uuid();
      await one(id);
      await sleep(1);
      await two();
      return id;
    });
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store });
    const id = await getRun("o-1", { store }).returnValue;
    await forkRun("o-1", { store, from: "two#0", id: "o-2" });
    await forkRun("o-2", { store, from: "sleep#0", id: "o-3" });
    expect(await getRun("o-3", { store }).returnValue).toBe(id);
    expect(given).toEqual([id]);
  });

  test("a run that was deleted and is started again gets the end of a child that exists", async ({ scene }) => {
    const child = workflow(scene.name("child"), async () => "child");
    const order = workflow(scene.name("order"), async () => {
      const helper = await start(child);
      return await helper.returnValue;
    });
    const { store } = await scene.work({ workflows: [order, child] });
    for (const _ of ["first", "second"]) {
      await start(order, [], { id: "o-1", store });
      expect(await getRun("o-1", { store }).returnValue).toBe("child");
      await deleteRun("o-1", { store, reason: "again" });
    }
  });
});
