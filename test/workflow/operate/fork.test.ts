import { createHook, getStepMetadata, step, uuid, workflow } from "onceflow/workflow";
import { deleteRun, forkRun, getRun, readAttempts, readJournal, readOperatorLog, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { everyStore, onStores } from "../../kit/scene.js";
import { story, untilReleased, untilStatus } from "../scene.js";

onStores("a run is forked", everyStore, (test) => {
  test("before the cut everything is that of the original, without calls; after it, everything is new", async ({ scene }) => {
    const calls: { readonly what: string; readonly stepId: string; readonly given: string }[] = [];
    const act = (what: string) =>
      step(what, async (given: string): Promise<string> => {
        calls.push({ what, stepId: getStepMetadata().stepId, given });
        return `${what} of call ${calls.length}`;
      });
    const [reserve, charge, ship] = [act("reserve"), act("charge"), act("ship")];
    const child = workflow(scene.name("child"), async () => "child");
    const order = workflow(scene.name("order"), async () => {
      const first = uuid();
      const reserved = await reserve(first);
      const helper = await start(child);
      await helper.returnValue;
      const charged = await charge(uuid());
      const late = await start(child);
      return { reserved, charged, shipped: await ship(uuid()), helper: helper.id, late: late.id };
    });
    const { store } = await scene.work({ workflows: [order, child] });
    await start(order, [], { id: "o-1", store });
    const original = await getRun<{ reserved: string; charged: string; helper: string; late: string }>("o-1", { store }).returnValue;
    const { forkId, copied } = await forkRun("o-1", { store, from: "charge#0", id: "o-2", actor: "ada", reason: "the other bank" });
    expect(forkId).toBe("o-2");
    const fork = await getRun<typeof original>("o-2", { store }).returnValue;
    expect(fork.reserved).toBe(original.reserved);
    expect(fork.helper).toBe(original.helper);
    expect(fork.charged).not.toBe(original.charged);
    expect(fork.late).not.toBe(original.late);
    expect(calls.map(({ what }) => what)).toEqual(["reserve", "charge", "ship", "charge", "ship"]);
    expect(new Set(calls.map(({ stepId }) => stepId)).size).toBe(5);
    expect(new Set(calls.map(({ given }) => given)).size).toBe(5);
    const journal = await readJournal("o-2", { store });
    expect(journal[copied]).toMatchObject({ type: "fork", id: "o-1" });
    // The copied step has the stepId of the original.
    expect(journal.find(({ id }) => id === "reserve#0")?.stepId).toBe(calls[0]?.stepId);
    expect(await readAttempts("o-2", calls[3]?.stepId ?? "", { store })).toMatchObject([{ verdict: "completed" }]);
    expect(await readOperatorLog({ store, runId: "o-1" })).toMatchObject([{ action: "fork", actor: "ada", answer: { forkId: "o-2" } }]);
  });

  test("with the keys of the original, a provider replays its answers; a fork of a fork keeps what it has", async ({ scene }) => {
    const calls: string[] = [];
    const [one, two] = ["one", "two"].map((what) =>
      step(what, async (): Promise<string> => {
        calls.push(getStepMetadata().stepId);
        return what;
      }),
    ) as [() => Promise<string>, () => Promise<string>];
    const both = workflow(scene.name("both"), async () => [await one(), await two(), uuid()]);
    const { store } = await scene.work({ workflows: [both] });
    await start(both, [], { id: "b-1", store });
    await getRun("b-1", { store }).returnValue;
    await forkRun("b-1", { store, from: "two#0", id: "b-2", keys: "same" });
    await getRun("b-2", { store }).returnValue;
    expect(calls[2]).toBe(calls[1]);
    await forkRun("b-2", { store, from: "two#0", id: "b-3" });
    await getRun("b-3", { store }).returnValue;
    expect(new Set(calls).size).toBe(3);
    expect((await story(store, "b-3")).filter((event) => event.startsWith("fork"))).toEqual(["fork b-1", "fork b-2"]);
  });

  test("it is replayed by another worker: the copied part still has the ids of the original", async ({ scene }) => {
    const given: string[] = [];
    const act = step("act", async (id: string) => void given.push(id));
    const order = workflow(scene.name("order"), async () => {
      await act(uuid());
      const hook = createHook<string>({ token: scene.name("never") });
      await Promise.race([hook, act(uuid())]);
      const again = createHook<string>();
      await act(uuid());
      return await again;
    });
    const first = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store: first.store });
    await untilReleased(first.store, "o-1");
    await forkRun("o-1", { store: first.store, from: { seq: 1, index: 0 }, id: "o-2" });
    await untilReleased(first.store, "o-2");
    await first.worker.stop();
    expect(new Set(given).size).toBe(given.length);
    const second = await scene.work({ workflows: [order] });
    await getRun("o-2", { store: second.store }).wakeUp();
    await untilReleased(second.store, "o-2");
    expect(await getRun("o-2", { store: second.store }).trouble).toBeUndefined();
  });

  test("it is refused while a call, child or hook is open at the cut, and for events that do not exist", async ({ scene }) => {
    const act = step("act", async () => {});
    const order = workflow(scene.name("order"), async () => {
      const hook = createHook<string>();
      await act();
      await act();
      return await hook;
    });
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store });
    await untilReleased(store, "o-1");
    await expect(forkRun("o-1", { store, from: "act#1" })).rejects.toMatchObject({ because: "open", ids: ["hook#0"] });
    await expect(forkRun("o-1", { store, from: "act#7" })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(forkRun("o-1", { store, from: { seq: 99 } })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(forkRun("none", { store, from: "act#0" })).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
  });
});

onStores("a dry run of a fork", everyStore, (test) => {
  test("is refused if another run has the id of the fork", async ({ scene }) => {
    const act = step("act", async () => "done");
    const order = workflow(scene.name("order"), async () => await act());
    const { store } = await scene.work({ workflows: [order] });
    for (const id of ["o-1", "o-2"]) await (await start(order, [], { id, store })).returnValue;
    const fork = (id: string) => forkRun("o-1", { store, from: "act#0", id, dryRun: true });
    await expect(fork("o-2")).rejects.toMatchObject({ because: "exists" });
    expect(await fork("o-3")).toMatchObject({ dryRun: true, forkId: "o-3" });
    expect(await getRun("o-3", { store }).exists).toBe(false);
  });
});

onStores("a run is deleted", everyStore, (test) => {
  test("after its end; its id can be used again, and the log keeps the action", async ({ scene }) => {
    const calls: number[] = [];
    const act = step("act", async () => calls.push(1));
    const order = workflow(scene.name("order"), async () => await act());
    const waits = workflow(scene.name("waits"), async () => await createHook());
    const { store } = await scene.work({ workflows: [order, waits] });
    await start(waits, [], { id: "w-1", store });
    await untilReleased(store, "w-1");
    await expect(deleteRun("w-1", { store, reason: "test" })).rejects.toMatchObject({ because: "running" });
    await start(order, [], { id: "o-1", store });
    await untilStatus(store, "o-1", "completed");
    await expect(deleteRun("o-1", { store } as never)).rejects.toMatchObject({ code: "INVALID_INPUT" });
    expect(await deleteRun("o-1", { store, reason: "test", dryRun: true })).toMatchObject({ dryRun: true, status: "completed" });
    expect(await getRun("o-1", { store }).exists).toBe(true);
    await deleteRun("o-1", { store, reason: "a test order", actionId: "a-1" });
    expect(await getRun("o-1", { store }).exists).toBe(false);
    expect(await deleteRun("o-1", { store, reason: "a test order", actionId: "a-1" })).toMatchObject({ repeated: true });
    expect(await readOperatorLog({ store, runId: "o-1" })).toMatchObject([{ action: "delete", reason: "a test order" }]);
    await start(order, [], { id: "o-1", store });
    await untilStatus(store, "o-1", "completed");
    expect(calls).toHaveLength(2);
  });
});
