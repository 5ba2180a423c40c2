import { createHook, FatalError, sleep, step, uuid, workflow } from "onceflow/workflow";
import { deleteRun, forkRun, getRun, readOperatorLog, resumeHook, retryRun, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { quick, story, untilStatus } from "../scene.js";

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

onStores("found by simulation: other actions", everyStore, (test) => {
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
