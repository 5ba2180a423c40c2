import { InvalidInputError, type Store } from "onceflow";
import { createHook, FatalError, RunMismatchError, RunScopeError, setAttributes, sleep, step, work, workflow } from "onceflow/workflow";
import { forkRun, getRun, listRuns, resumeHook, retryRun, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import type { RunOperation } from "../../../src/core/runs/operation.js";
import { dyingStore } from "../../kit/dying-store.js";
import { everyStore, fullStores, onStores, shortMs } from "../../kit/scene.js";
import { story, untilReleased, untilStatus } from "../scene.js";

const attributesOf = async (store: Store, id: string) => (await listRuns({ store, idPrefix: id })).items[0]?.attributes;

/** Ids of the runs with this attribute. */
const having = async (store: Store, name: string, value: string | number | boolean) =>
  (await listRuns({ store, attribute: { name, value } })).items.map(({ id }) => id);

onStores("attributes", fullStores, (test) => {
  test("start and setAttributes set them; null removes one; a search finds the run by the present ones", async ({ scene }) => {
    const order = workflow(scene.name("order"), async () => {
      setAttributes({ stage: "paid", priority: 2 });
      const hook = createHook({ token: "t" });
      await hook;
      setAttributes({ priority: null, done: true, customer: "c-18" });
    });
    const { store } = await scene.work({ workflows: [order] });
    const run = await start(order, [], { id: "o-1", store, attributes: { customer: "c-17", stage: "new" } });
    await untilReleased(store, "o-1");
    expect(await attributesOf(store, "o-1")).toEqual({ customer: "c-17", stage: "paid", priority: 2 });
    expect([await having(store, "stage", "new"), await having(store, "stage", "paid")]).toEqual([[], ["o-1"]]);
    expect([await having(store, "priority", 2), await having(store, "priority", "2")]).toEqual([["o-1"], []]);
    await resumeHook("t", null, { store });
    await run.returnValue;
    expect(await attributesOf(store, "o-1")).toEqual({ customer: "c-18", stage: "paid", done: true });
    expect([await having(store, "priority", 2), await having(store, "done", true)]).toEqual([[], ["o-1"]]);
    const events = ["attributes attributes#0", "hook hook#0", "got hook#0", "attributes attributes#1", "end completed"];
    expect(await story(store, "o-1")).toEqual(events);
  });

  for (const when of ["before", "after"] as const)
    test(`a process that dies ${when} the commit of a change: it is made once, and a replay makes none`, async ({ scene }) => {
      const writes: (string | null)[] = [];
      const act = step("act", async () => "done");
      const order = workflow(scene.name("order"), async () => {
        await act();
        setAttributes({ stage: "acted", n: 1 });
        await sleep(1);
        setAttributes({ n: null });
      });
      const isChange = (operation: RunOperation) => operation.verb === "append" && operation.entry.attributes !== undefined;
      const dying = dyingStore(await scene.open(), when, { run: isChange });
      // Not stopped at the end: its store does not answer any more.
      await work(dying.store, { workflows: [order], leaseMs: shortMs, background: true });
      void start(order, [], { id: "o-1", store: dying.store, attributes: { kept: "yes" } }).catch(() => {});
      await dying.died;
      const store = await scene.open();
      expect(await attributesOf(store, "o-1")).toEqual(when === "after" ? { kept: "yes", stage: "acted", n: 1 } : { kept: "yes" });
      const counting = Object.create(store, {
        commit: {
          value: async (batch: { run?: RunOperation }) => {
            if (batch.run?.verb === "append" && batch.run.entry.attributes !== undefined) writes.push(batch.run.entry.attributes);
            return await store.commit(batch as never);
          },
        },
      }) as Store;
      await scene.work({ workflows: [order] }, counting);
      await untilStatus(store, "o-1", "completed");
      expect(await attributesOf(store, "o-1")).toEqual({ kept: "yes", stage: "acted" });
      expect(writes).toHaveLength(when === "after" ? 1 : 2);
      expect((await story(store, "o-1")).filter((each) => each.startsWith("attributes"))).toHaveLength(2);
    });

  test("a retry and a fork keep what was set before the cut, and drop what was set after it", async ({ scene }) => {
    let isDown = true;
    const charge = step("charge", async () => {
      if (isDown) throw new FatalError("the bank is down");
      return "charged";
    });
    const order = workflow(scene.name("order"), async () => {
      setAttributes({ stage: "new" });
      try {
        await charge();
      } catch (error) {
        setAttributes({ stage: "failing", reason: "bank" });
        throw error;
      }
      setAttributes({ paid: true });
    });
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store, attributes: { customer: "c" }, scope: "acme" });
    await untilStatus(store, "o-1", "failed");
    expect(await attributesOf(store, "o-1")).toEqual({ customer: "c", stage: "failing", reason: "bank" });
    isDown = false;
    const before = await forkRun("o-1", { store, from: "attributes#0", id: "f-1", reason: "test" });
    await getRun(before.forkId, { store }).returnValue;
    const { forkId } = await forkRun("o-1", { store, from: "charge#0", id: "f-2", reason: "test" });
    await getRun(forkId, { store }).returnValue;
    await retryRun("o-1", { store });
    await getRun("o-1", { store }).returnValue;
    for (const id of ["o-1", "f-1", "f-2"]) expect(await attributesOf(store, id), id).toEqual({ customer: "c", stage: "new", paid: true });
    expect((await listRuns({ store, scope: "acme" })).items.map(({ id }) => id).sort()).toEqual(["f-1", "f-2", "o-1"]);
  });
});

onStores("attributes and scopes", everyStore, (test) => {
  test("what a change may be: names, values, at most 16; a refused change is refused again by a replay", async ({ scene }) => {
    const errors: string[] = [];
    const many = Object.fromEntries(Array.from({ length: 15 }, (_, i) => [`a${i}`, i]));
    const refused = (set: unknown) => {
      try {
        setAttributes(set as Parameters<typeof setAttributes>[0]);
      } catch (error) {
        if (!InvalidInputError.is(error)) throw error;
        errors.push(error.message);
      }
    };
    const order = workflow(scene.name("order"), async () => {
      for (const wrong of [null, [], { "": 1 }, { "1a": 1 }, { a: {} }, { a: Number.NaN }, { a: "x".repeat(257) }, { a: "\0" }])
        refused(wrong);
      setAttributes(many);
      refused({ b: 1, c: 2 });
      setAttributes({ a0: null, a1: null });
      await sleep(1);
      setAttributes({ b: 1 });
    });
    const { store, worker } = await scene.work({ workflows: [order] });
    const run = await start(order, [], { id: "o-1", store, attributes: { first: true } });
    await run.returnValue;
    await worker.stop();
    expect(errors.length % 9).toBe(0);
    expect(new Set(errors.slice(0, 9)).size).toBeGreaterThan(5);
    expect(errors[8]).toContain("would be 18; 16 are allowed");
    const { a0: _, a1: __, ...rest } = many;
    expect(await attributesOf(store, "o-1")).toEqual({ first: true, b: 1, ...rest });
    expect(() => setAttributes({ a: 1 })).toThrow(/setAttributes\(\).*workflow/);
    for (const attributes of [{ "a b": 1 }, { a: undefined }, 1, Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`a${i}`, i]))])
      await expect(start(order, [], { store, attributes: attributes as never })).rejects.toThrow(InvalidInputError);
    for (const scope of [1, "a\nb", "x".repeat(2000)])
      await expect(start(order, [], { store, scope: scope as never })).rejects.toThrow(InvalidInputError);
  });

  test("children, and runs that a step starts, have the scope of the run; a run of another scope is refused", async ({ scene }) => {
    const child = workflow(scene.name("child"), async () => "a secret");
    const launch = step("launch", async () => (await start(child, [], { id: "from step" })).id);
    const seen: string[] = [];
    const parent = workflow(scene.name("parent"), async () => {
      await (await start(child, [], { attributes: { kind: "own" } })).returnValue;
      await (await start(child, [], { id: "named", scope: "acme" })).returnValue;
      await launch();
      await start(child, [], { scope: "other" }).catch((error: unknown) => seen.push((error as Error).name));
      await start(child, [], { id: "taken" }).catch((error: unknown) => seen.push((error as Error).name));
    });
    const { store } = await scene.work({ workflows: [parent, child] });
    await (await start(child, [], { id: "taken", scope: "other", store })).returnValue;
    await (await start(parent, [], { id: "p", scope: "acme", store })).returnValue;
    expect(seen).toEqual(["InvalidInputError", "RunMismatchError"]);
    await getRun("from step", { store }).returnValue;
    const acme = (await listRuns({ store, scope: "acme" })).items;
    expect(acme.map(({ scope }) => scope)).toEqual(["acme", "acme", "acme", "acme"]);
    expect((await listRuns({ store, parentId: "p", scope: "acme" })).items).toHaveLength(2);
    expect((await listRuns({ store, scope: "other" })).items.map(({ id }) => id)).toEqual(["taken"]);
    for (const scope of [undefined, "acme"])
      await expect(start(child, [], { id: "taken", store, ...(scope === undefined ? {} : { scope }) })).rejects.toThrow(RunScopeError);
    expect((await start(child, [], { id: "taken", store, scope: "other" })).mismatch).toBe(false);
    expect(new RunMismatchError("x").code).toBe("RUN_MISMATCH");
  });
});
