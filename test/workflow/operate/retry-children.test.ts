import type { Store } from "onceflow";
import { createHook, FatalError, step, workflow } from "onceflow/workflow";
import { forkRun, getRun, readJournal, readOperatorLog, retryRun, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import type { RunOperation } from "../../../src/core/runs/operation.js";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores, type Scene } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { untilReleased, untilStatus } from "../scene.js";

/** A parent that awaits a child whose step fails as long as the bank is down. */
function family(scene: Scene) {
  const bank = { isDown: true, calls: 0, charges: 0 };
  const charge = step("charge", async () => {
    bank.calls += 1;
    if (bank.isDown) throw new FatalError("the bank is down");
    bank.charges += 1;
    return "charged";
  });
  const child = workflow(scene.name("child"), async () => await charge());
  const name = scene.name("parent");
  // Both versions of the code are made in one place.
  const version = (code: () => Promise<string>) => workflow(name, code);
  const parent = version(async () => {
    const run = await start(child);
    return `the child has ${await run.returnValue}`;
  });
  const note = step("note", async () => "noted");
  const otherParent = () => version(async () => await note());
  return { bank, child, parent, otherParent };
}

onStores("a child run that has failed", everyStore, (test) => {
  test("is retried together with its parent, which had received the failure", async ({ scene }) => {
    const { bank, child, parent } = family(scene);
    const { store } = await scene.work({ workflows: [child, parent] });
    await start(parent, [], { id: "p-1", store });
    await untilStatus(store, "p-1", "failed");
    const [childId = ""] = (await retryRun("p-1", { store, dryRun: true })).children;
    await expect(retryRun(childId, { store })).rejects.toMatchObject({
      because: "parentTook",
      message: expect.stringContaining("retry the parent"),
    });
    bank.isDown = false;
    expect(await retryRun("p-1", { store, actor: "ada" })).toMatchObject({ steps: [], children: [childId] });
    expect(await getRun("p-1", { store }).returnValue).toBe("the child has charged");
    expect(bank).toMatchObject({ calls: 2, charges: 1 });
    expect(await readOperatorLog({ store, runId: childId })).toMatchObject([{ action: "retry", actor: "ada" }]);
  });

  test("is retried by the same call again, if the caller died between the two retries", async ({ scene }) => {
    const { bank, child, parent } = family(scene);
    const { store } = await scene.work({ workflows: [child, parent] });
    await start(parent, [], { id: "p-1", store });
    await untilStatus(store, "p-1", "failed");
    bank.isDown = false;
    let acts = 0;
    const commit = async (batch: { run?: { verb: string } }) => {
      if (batch.run?.verb === "act" && ++acts === 2) throw new Error("the process dies");
      return await store.commit(batch as never);
    };
    const dying = Object.create(store, { commit: { value: commit } }) as typeof store;
    await expect(retryRun("p-1", { store: dying, actionId: "a-1" })).rejects.toThrow("the process dies");
    await untilReleased(store, "p-1");
    expect(await getRun("p-1", { store }).status).toBe("running");
    expect(await retryRun("p-1", { store, actionId: "a-1" })).toMatchObject({ repeated: true });
    expect(await getRun("p-1", { store }).returnValue).toBe("the child has charged");
    expect(bank.charges).toBe(1);
  });

  test("is retried alone as long as its parent has not read the failure: the parent gets one end", async ({ scene }) => {
    const { bank, child, parent } = family(scene);
    const first = await scene.work({ workflows: [parent] });
    await start(parent, [], { id: "p-1", store: first.store });
    await untilReleased(first.store, "p-1");
    await first.worker.stop();
    const second = await scene.work({ workflows: [child] });
    let childId = "";
    await until("the child has failed", async () => {
      const runs = await second.store.runs.list({ status: "failed", limit: 10 });
      childId = runs[0]?.id ?? "";
      return runs.length === 1;
    });
    bank.isDown = false;
    await retryRun(childId, { store: second.store });
    expect(await getRun(childId, { store: second.store }).returnValue).toBe("charged");
    const third = await scene.work({ workflows: [parent] });
    expect(await getRun("p-1", { store: third.store }).returnValue).toBe("the child has charged");
    expect(bank).toMatchObject({ calls: 2, charges: 1 });
  });
});

onStores("a child run whose parent has diverged", everyStore, (test) => {
  test("is not retried alone, because the parent may have its failure set aside; the refusal says what to do", async ({ scene }) => {
    const { bank, child, parent, otherParent } = family(scene);
    const first = await scene.work({ workflows: [parent] });
    const { store } = first;
    await start(parent, [], { id: "p-1", store });
    await untilReleased(store, "p-1");
    await first.worker.stop();
    const second = await scene.work({ workflows: [child, otherParent()] });
    await until("the parent has read the failure under other code", async () => {
      const run = await store.runs.read("p-1");
      return run?.status === "diverged" && run.consumed === 1;
    });
    const childId = (await store.runs.list({ status: "failed", limit: 10 }))[0]?.id ?? "";
    const refusal = { because: "parentSetAside", message: expect.stringMatching(/parent "p-1" is parked or diverged.*deploy code/) };
    await expect(retryRun(childId, { store })).rejects.toMatchObject(refusal);
    await expect(retryRun(childId, { store, dryRun: true })).rejects.toMatchObject(refusal);
    await second.worker.stop();
    // What the refusal advises.
    bank.isDown = false;
    await scene.work({ workflows: [parent, child] });
    await untilStatus(store, "p-1", "failed");
    expect(await retryRun("p-1", { store })).toMatchObject({ children: [childId] });
    expect(await getRun("p-1", { store }).returnValue).toBe("the child has charged");
    expect(bank.charges).toBe(1);
  });
});

onStores("a dry run of a child's retry", everyStore, (test) => {
  test("is refused as the retry would be", async ({ scene }) => {
    const { child, parent } = family(scene);
    const { store } = await scene.work({ workflows: [child, parent] });
    await start(parent, [], { id: "p-1", store });
    await untilStatus(store, "p-1", "failed");
    const [childId = ""] = (await retryRun("p-1", { store, dryRun: true })).children;
    await expect(retryRun(childId, { store, dryRun: true })).rejects.toMatchObject({ because: "parentTook" });
  });
});

onStores("a child run that ends while its parent has ended", everyStore, (test) => {
  test("is found by the parent when that is retried", async ({ scene }) => {
    const bank = { isDown: true };
    const opened = gate();
    const charge = step("charge", async () => {
      if (bank.isDown) throw new FatalError("the bank is down");
      return "charged";
    });
    const slow = step("slow", async () => {
      await opened.opened;
      return "packed";
    });
    const child = workflow(scene.name("child"), async () => await slow());
    const parent = workflow(scene.name("parent"), async () => {
      const run = await start(child);
      const charged = await charge();
      return [charged, await run.returnValue];
    });
    const { store } = await scene.work({ workflows: [child, parent] });
    await start(parent, [], { id: "p-1", store });
    await untilStatus(store, "p-1", "failed");
    opened.open();
    await until("the child has completed", async () => (await store.runs.list({ status: "completed", limit: 1 })).length === 1);
    bank.isDown = false;
    await retryRun("p-1", { store });
    expect(await getRun("p-1", { store }).returnValue).toEqual(["charged", "packed"]);
  });

  test("may be retried by another call at the same time: the retry of the parent keeps its answer", async ({ scene }) => {
    const { bank, child, parent } = family(scene);
    const { store } = await scene.work({ workflows: [child, parent] });
    await start(parent, [], { id: "p-1", store });
    await untilStatus(store, "p-1", "failed");
    bank.isDown = false;
    let isFirst = true;
    const commit = async (batch: { readonly run?: RunOperation }) => {
      // The parent is retried now, and its child is not yet.
      if (isFirst && batch.run?.verb === "act" && batch.run.id !== "p-1") {
        isFirst = false;
        await retryRun(batch.run.id, { store });
      }
      return await store.commit(batch as never);
    };
    const slow = Object.create(store, { commit: { value: commit } }) as Store;
    expect(await retryRun("p-1", { store: slow })).toMatchObject({ repeated: false, steps: [] });
    expect(isFirst).toBe(false);
    expect(await getRun("p-1", { store }).returnValue).toBe("the child has charged");
    expect(bank.calls).toBe(2);
  });

  test("may be retried by another call at the same time, and fail again", async ({ scene }) => {
    const { bank, child, parent } = family(scene);
    const { store } = await scene.work({ workflows: [child, parent] });
    await start(parent, [], { id: "p-1", store });
    await untilStatus(store, "p-1", "failed");
    let isFirst = true;
    const commit = async (batch: { readonly run?: RunOperation }) => {
      if (isFirst && batch.run?.verb === "act" && batch.run.id !== "p-1") {
        isFirst = false;
        await retryRun(batch.run.id, { store });
        await untilStatus(store, "p-1", "failed");
      }
      return await store.commit(batch as never);
    };
    const slow = Object.create(store, { commit: { value: commit } }) as Store;
    expect(await retryRun("p-1", { store: slow })).toMatchObject({ repeated: false, steps: [] });
    expect(isFirst).toBe(false);
    expect(await getRun("p-1", { store }).status).toBe("failed");
    expect(bank.calls).toBe(2);
  });

  test("keeps its parent from being retried if the token of its hook is in use", async ({ scene }) => {
    const token = scene.name("token");
    const charge = step("charge", async () => {
      throw new FatalError("the bank is down");
    });
    const child = workflow(scene.name("child"), async () => {
      const hook = createHook<string>({ token });
      await hook.getConflict();
      await charge();
      return await hook;
    });
    const parent = workflow(scene.name("parent"), async () => await (await start(child)).returnValue);
    const other = workflow(scene.name("other"), async () => await createHook<string>({ token }));
    const { store } = await scene.work({ workflows: [child, parent, other] });
    await start(parent, [], { id: "p-1", store });
    await untilStatus(store, "p-1", "failed");
    await start(other, [], { id: "x-1", store });
    await untilReleased(store, "x-1");
    await expect(retryRun("p-1", { store })).rejects.toMatchObject({ because: "token" });
    expect(await getRun("p-1", { store }).status).toBe("failed");
    expect(await readOperatorLog({ store, runId: "p-1" })).toEqual([]);
  });

  test("and that a fork has copied: the fork gets its end when both are retried", async ({ scene }) => {
    const { bank, child, parent } = family(scene);
    const { store } = await scene.work({ workflows: [child, parent] });
    await start(parent, [], { id: "p-1", store });
    await untilStatus(store, "p-1", "failed");
    // Without its end a run can be forked although it has failed.
    await retryRun("p-1", { store, steps: [] });
    const ends = async () => (await readJournal("p-1", { store })).filter(({ type }) => type === "end");
    await until("it has failed again", async () => (await ends()).length === 2);
    const [, last] = await ends();
    await forkRun("p-1", { store, id: "p-2", from: { seq: last?.seq ?? 0 } });
    await untilStatus(store, "p-2", "failed");
    bank.isDown = false;
    await retryRun("p-1", { store });
    expect(await getRun("p-1", { store }).returnValue).toBe("the child has charged");
    await retryRun("p-2", { store });
    expect(await getRun("p-2", { store }).returnValue).toBe("the child has charged");
    expect(bank.charges).toBe(1);
  });
});
