import { getStepMetadata, getWorkflowMetadata, step, workflow } from "onceflow/workflow";
import { getRun, readJournal, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { everyStore, onStores } from "../../kit/scene.js";
import { quick, story } from "../scene.js";

onStores("the identity of a step", everyStore, (test) => {
  test("getStepMetadata: the stepId is the same over retries and different for every call", async ({ scene }) => {
    const seen: { stepId: string; attempt: number }[] = [];
    const look = step(
      "look",
      async (fail: boolean) => {
        const { stepId, stepName, stepStartedAt, attempt, signal } = getStepMetadata();
        expect(stepName).toBe("look");
        expect(Math.abs(Number(stepStartedAt) - Date.now())).toBeLessThan(60_000);
        expect(signal.aborted).toBe(false);
        seen.push({ stepId, attempt });
        if (fail && attempt === 1) throw new Error("again");
      },
      quick,
    );
    const run = workflow(scene.name("run"), async () => {
      await look(true);
      await look(false);
    });
    const { store } = await scene.work();
    await (await start(run, [], { id: "one", store })).returnValue;
    await (await start(run, [], { id: "two", store })).returnValue;
    const ids = seen.map(({ stepId }) => stepId);
    expect(seen.map(({ attempt }) => attempt)).toEqual([1, 2, 1, 1, 2, 1]);
    expect(ids[0]).toBe(ids[1]);
    expect(ids[3]).toBe(ids[4]);
    expect(new Set(ids).size).toBe(4);
    for (const id of ids) expect(id).toMatch(/^[\w-]{32}$/);
    expect(() => new Headers({ "idempotency-key": ids[0] ?? "" })).not.toThrow();
  });

  test("long and unusual run ids and step names give stepIds of the same length", async ({ scene }) => {
    const ids: string[] = [];
    const name = "снять деньги / \u{1F4B0} ".repeat(10);
    const long = step(name, async () => void ids.push(getStepMetadata().stepId));
    const run = workflow(scene.name("run"), async () => await long());
    const { store } = await scene.work();
    const started = await start(run, [], { id: `order/ünï/${"x".repeat(400)}`, store });
    await started.returnValue;
    expect(ids[0]).toMatch(/^[\w-]{32}$/);
    expect(await getRun(started.id, { store }).status).toBe("completed");
  });

  test("getWorkflowMetadata works in the workflow and in its steps", async ({ scene }) => {
    const name = scene.name("run");
    const inside = step("inside", async () => getWorkflowMetadata());
    const run = workflow(name, async () => [getWorkflowMetadata(), await inside()]);
    const { store } = await scene.work();
    const started = await start(run, [], { id: "meta", store });
    const [own, steps] = (await started.returnValue) as unknown[];
    expect(own).toMatchObject({ workflowRunId: "meta", workflowName: name });
    expect(steps).toEqual(own);
  });

  test("key: names calls by their arguments, and one key is one call", async ({ scene }) => {
    const seen: [string, string][] = [];
    const charge = step(
      "charge",
      async (order: string) => {
        seen.push([order, getStepMetadata().stepId]);
        return `charged ${order}`;
      },
      { key: (order) => order },
    );
    const both = workflow(scene.name("run"), async (orders: string[]) => await Promise.all(orders.map((order) => charge(order))));
    const { store } = await scene.work();
    expect(await (await start(both, [["a", "b", "a"]], { id: "x", store })).returnValue).toEqual(["charged a", "charged b", "charged a"]);
    expect(seen.map(([order]) => order).sort()).toEqual(["a", "b"]);
    const items = await readJournal("x", { store });
    expect(items.filter((item) => item.type === "step").map((item) => item.id)).toEqual(["charge:a", "charge:b"]);
  });

  test("key: the stepId does not depend on the order of the calls", async ({ scene }) => {
    const seen = new Map<string, Set<string>>();
    const charge = step(
      "charge",
      async (order: string) => void seen.set(order, (seen.get(order) ?? new Set()).add(getStepMetadata().stepId)),
      { key: (order) => order },
    );
    const run = workflow(scene.name("run"), async (orders: string[]) => {
      for (const order of orders) await charge(order);
    });
    // The same run id in two databases, with the calls in another order.
    const [one, two] = [await scene.work(), await scene.work()];
    await (await start(run, [["a", "b"]], { id: "x", store: one.store })).returnValue;
    await (await start(run, [["b", "a"]], { id: "y", store: two.store })).returnValue;
    expect([...(seen.get("a") ?? [])]).toHaveLength(2);
    expect(new Set([...(seen.get("a") ?? []), ...(seen.get("b") ?? [])]).size).toBe(4);
  });

  test("key: an invalid key fails the call, not the process", async ({ scene }) => {
    const charge = step("charge", async (order: string) => order, { key: (order) => order });
    const thrower = step("thrower", async (order: string) => order, {
      key: () => {
        throw new Error("no");
      },
    });
    const run = workflow(scene.name("run"), async () => {
      const results = await Promise.allSettled([(async () => await charge(""))(), (async () => await thrower("x"))()]);
      return results.map(({ status }) => status);
    });
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toEqual(["rejected", "rejected"]);
  });

  test("a step that is called in a step is a plain function", async ({ scene }) => {
    const inner = step("inner", async (n: number) => n + 1);
    const outer = step("outer", async () => (await inner(1)) + (await inner(10)));
    const run = workflow(scene.name("run"), async () => await outer());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    expect(await started.returnValue).toBe(13);
    expect(await story(store, started.id)).toEqual(["step outer#0", "done outer#0", "end completed"]);
  });
});
