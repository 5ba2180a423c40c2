import type { Store } from "onceflow";
import { FatalError, sleep, step, workflow } from "onceflow/workflow";
import { deleteRun, getRun, readAttempts, readJournal, readOperatorLog, resolveStep, retryRun, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { wake } from "../../../src/operate/runs.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { heldAt, story, untilReleased, untilStatus } from "../scene.js";

/** A store on which `meanwhile` happens when an operator asks for its time, which it answers with `ms` more. */
function clockOf(store: Store, { ms = 0, meanwhile = async () => {} }: { ms?: number; meanwhile?: () => Promise<void> }): Store {
  const claim: Store["runs"]["claim"] = async (query) => {
    const claims = await store.runs.claim(query);
    if (query.owner !== "operator") return claims;
    await meanwhile();
    return { ...claims, now: claims.now + ms };
  };
  const runs = { value: Object.create(store.runs, { claim: { value: claim } }) as unknown };
  return Object.create(store, { runs }) as Store;
}

/** A bank that is down until the test says otherwise. */
function bankStep() {
  const bank = { isDown: true, calls: 0 };
  const charge = step("charge", async () => {
    bank.calls += 1;
    if (bank.isDown) throw new FatalError("the bank is down");
    return "charged";
  });
  return { bank, charge };
}

onStores("a deadline that a retry renews", everyStore, (test) => {
  test("counts from the entry of the retry, whatever the operator's clock reading was", async ({ scene }) => {
    const { bank, charge } = bankStep();
    const order = workflow(scene.name("order"), async () => await charge());
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store, timeoutMs: 60_000 });
    for (let retries = 0; retries < 3; retries++) {
      await until("it has failed", async () => bank.calls === retries + 1 && (await getRun("o-1", { store }).status) === "failed");
      await retryRun("o-1", { store: clockOf(store, { ms: 5000 }) });
      const { deadlineAt = 0, stopAt = 0 } = (await store.runs.read("o-1")) ?? {};
      const entry = (await store.runs.journal("o-1", 0, 100)).findLast(({ events }) => events.includes('"retry"'));
      expect([(deadlineAt ?? 0) - (entry?.at ?? 0), (stopAt ?? 0) - (deadlineAt ?? 0)]).toEqual([60_000, 900_000]);
    }
  });

  test("leaves the code as long for cleaning up as before, although a cancellation came as the run failed", async ({ scene }) => {
    const { bank, charge } = bankStep();
    const order = workflow(scene.name("order"), async () => await charge());
    const inner = await scene.open();
    const held = heldAt(inner, "fail charge#0");
    await scene.work({ workflows: [order] }, held.store);
    await start(order, [], { id: "o-1", store: held.store, timeoutMs: 60_000 });
    await held.reached;
    await getRun("o-1", { store: inner }).cancel({ cleanupMs: 5 });
    held.free();
    await untilStatus(inner, "o-1", "failed");
    bank.isDown = false;
    await retryRun("o-1", { store: inner });
    const { deadlineAt, stopAt } = (await inner.runs.read("o-1")) ?? {};
    expect((stopAt ?? 0) - (deadlineAt ?? 0)).toBe(900_000);
    expect(await getRun("o-1", { store: inner }).returnValue).toBe("charged");
  });
});

onStores("a request that was sent", everyStore, (test) => {
  test("after a retry cancels the run, also if its time is not later than the operator's clock reading", async ({ scene }) => {
    const { bank, charge } = bankStep();
    const order = workflow(scene.name("order"), async () => await charge());
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store });
    await untilStatus(store, "o-1", "failed");
    // By that clock, the next attempt is due in an hour.
    await retryRun("o-1", { store: clockOf(store, { ms: 3_600_000 }) });
    await getRun("o-1", { store }).cancel();
    await untilStatus(store, "o-1", "cancelled");
    expect(bank.calls).toBe(1);
  });

  test("before a retry, and cancels, does not cancel the run without its code", async ({ scene }) => {
    const { bank, charge } = bankStep();
    const order = workflow(scene.name("order"), async () => await charge());
    const inner = await scene.open();
    const held = heldAt(inner, "fail charge#0");
    const { worker } = await scene.work({ workflows: [order] }, held.store);
    await start(order, [], { id: "o-1", store: held.store });
    await held.reached;
    await getRun("o-1", { store: inner }).terminate();
    held.free();
    await untilStatus(inner, "o-1", "failed");
    await worker.stop();
    bank.isDown = false;
    await retryRun("o-1", { store: inner });
    // No worker has the workflow: this call decides about the run by its mail, and may not count that of before the retry.
    expect(await getRun("o-1", { store: inner }).cancel()).toMatchObject({ state: "requested", noWorker: true });
    await scene.work({ workflows: [order] });
    await untilStatus(inner, "o-1", "cancelled");
    expect(bank.calls).toBe(1);
  });
});

onStores("a wake-up", everyStore, (test) => {
  test("that is sent twice does not end a later sleep", async ({ scene }) => {
    const nap = workflow(scene.name("nap"), async () => {
      await sleep("1h");
      await sleep("2h");
      return "awake";
    });
    const { store, worker } = await scene.work({ workflows: [nap] });
    await start(nap, [], { id: "n-1", store });
    await untilReleased(store, "n-1");
    await worker.stop();
    const run = getRun("n-1", { store });
    expect([await run.wakeUp(), await run.wakeUp()]).toEqual([{ stoppedCount: 1 }, { stoppedCount: 1 }]);
    await scene.work({ workflows: [nap] });
    await until("both were read", async () => {
      const record = await store.runs.read("n-1");
      return record?.owner === null && record.consumed === 2;
    });
    expect((await run.sleeps).map(({ id }) => id)).toEqual(["sleep#1"]);
  });

  test("that is sent again with its action id gets the first answer, and ends nothing", async ({ scene }) => {
    const nap = workflow(scene.name("nap"), async () => {
      await sleep("1h");
      await sleep("2h");
    });
    const { store } = await scene.work({ workflows: [nap] });
    await start(nap, [], { id: "n-1", store });
    await untilReleased(store, "n-1");
    const by = { actor: "ada", actionId: "a-1" };
    const first = await wake(store, "n-1", by);
    expect(first).toMatchObject({ stoppedCount: 1, actionId: "a-1", repeated: false });
    await until("it sleeps again", async () => (await story(store, "n-1")).includes("sleep sleep#1"));
    expect(await wake(store, "n-1", by)).toEqual({ ...first, repeated: true });
    expect((await getRun("n-1", { store }).sleeps).map(({ id }) => id)).toEqual(["sleep#1"]);
    expect((await store.runs.mail("n-1", 0)).map(({ kind }) => kind)).toEqual(["wake"]);
  });

  test("of before a retry does not end a sleep that the code asks for after it", async ({ scene }) => {
    const { bank, charge } = bankStep();
    const order = workflow(scene.name("order"), async () => {
      const [charged] = await Promise.allSettled([charge()]);
      await sleep(charged.status === "rejected" ? 300 : "1h");
      if (charged.status === "rejected") throw charged.reason as Error;
    });
    const inner = await scene.open();
    const held = heldAt(inner, "woke sleep#0");
    await scene.work({ workflows: [order] }, held.store);
    await start(order, [], { id: "o-1", store: held.store });
    await held.reached;
    await getRun("o-1", { store: inner }).wakeUp();
    held.free();
    await untilStatus(inner, "o-1", "failed");
    bank.isDown = false;
    await retryRun("o-1", { store: inner });
    await until("it sleeps again", async () => (await story(inner, "o-1")).filter((event) => event === "sleep sleep#0").length === 2);
    await untilReleased(inner, "o-1");
    expect((await getRun("o-1", { store: inner }).sleeps).map(({ id }) => id)).toEqual(["sleep#0"]);
  });
});

onStores("a resolution of a run that was deleted meanwhile, and started again", everyStore, (test) => {
  test("is refused, and the new run stays as it is", async ({ scene }) => {
    const calls: string[] = [];
    const charge = step(
      "charge",
      async () => {
        calls.push("charge");
        throw new Error("no answer");
      },
      { effect: "atMostOnce" },
    );
    const order = workflow(scene.name("order"), async () => await charge());
    const { store } = await scene.work({ workflows: [order] });
    const startAndEnd = async () => {
      await start(order, [], { id: "o-1", store });
      await untilStatus(store, "o-1", "unknown");
      await getRun("o-1", { store }).terminate();
      await untilStatus(store, "o-1", "cancelled");
    };
    await startAndEnd();
    const stepId = (await readJournal("o-1", { store })).find(({ type }) => type === "step")?.stepId ?? "";
    const resolveOn = (at: Store, actionId: string) =>
      resolveStep({ runId: "o-1", stepId, attempt: 1, store: at, actionId, reason: "asked the bank" }, { completed: "charged" });
    let isNew = false;
    const meanwhile = async () => {
      if (isNew) return;
      isNew = true;
      await resolveOn(store, "a-1");
      await deleteRun("o-1", { store, reason: "test" });
      await startAndEnd();
    };
    await expect(resolveOn(clockOf(store, { meanwhile }), "a-2")).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
    expect((await readAttempts("o-1", stepId, { store })).at(-1)?.verdict).toBe("unknown");
    // The first one is answered by the log.
    expect(await resolveOn(store, "a-1")).toMatchObject({ repeated: true });
    expect((await readAttempts("o-1", stepId, { store })).at(-1)?.verdict).toBe("unknown");
    expect((await readOperatorLog({ store })).filter(({ action }) => action === "resolve")).toHaveLength(1);
  });
});
