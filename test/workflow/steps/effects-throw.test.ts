import { NotApplied } from "onceflow";
import { EffectLedger } from "onceflow/testing";
import { createHook, FatalError, getStepMetadata, step, workflow } from "onceflow/workflow";
import { getRun, resolveStep, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { quick, untilStatus } from "../scene.js";

onStores("effects when the body throws", everyStore, (test) => {
  test("idempotent and keyed: the step is retried by its policy with the same key", async ({ scene }) => {
    const effects = new EffectLedger({ honoursKeys: true });
    const body = async (name: string) => {
      const { stepId, attempt } = getStepMetadata();
      effects.call(stepId, { attempt, result: name });
      if (attempt === 1) throw new Error("timeout after the effect");
      return stepId;
    };
    const plain = step("plain", body, quick);
    const keyed = step("keyed", body, { effect: "keyed", ...quick });
    const order = workflow(scene.name("order"), async () => [await plain("a"), await keyed("b")]);
    const { store } = await scene.work();
    const ids = (await (await start(order, [], { store })).returnValue) as string[];
    for (const id of ids) expect([effects.rawCalls(id), effects.applied(id)]).toEqual([2, 1]);
  });

  test("reconcile: is called before the next attempt, so that an applied effect is not repeated", async ({ scene }) => {
    const effects = new EffectLedger({ honoursKeys: false });
    const reconcile = ({ stepId }: { stepId: string }) => effects.find(stepId) as { found: string } | "absent";
    const options = { effect: "reconcile", reconcileAfterMs: 0, reconcile, ...quick } as const;
    const after = step(
      "after",
      async () => {
        const { stepId, attempt } = getStepMetadata();
        effects.call(stepId, { attempt, result: "effect" });
        throw new Error("timeout after the effect");
      },
      options,
    );
    const before = step(
      "before",
      async () => {
        const { stepId, attempt } = getStepMetadata();
        if (attempt === 1) throw new Error("refused before the effect");
        return effects.call(stepId, { attempt, result: "effect" });
      },
      options,
    );
    const order = workflow(scene.name("order"), async () => [await after(), await before()]);
    const { store } = await scene.work();
    expect(await (await start(order, [], { store })).returnValue).toEqual(["effect", "effect"]);
    expect(effects.keys().map((key) => effects.rawCalls(key))).toEqual([1, 1]);
  });

  test("reconcile: is also called after the last attempt, before the step counts as failed", async ({ scene }) => {
    const effects = new EffectLedger({ honoursKeys: false });
    const find = ({ stepId }: { stepId: string }) => effects.find(stepId) as { found: string } | "absent";
    const fail = (happens: boolean) => async () => {
      const { stepId, attempt } = getStepMetadata();
      if (happens) effects.call(stepId, { attempt, result: "effect" });
      throw new Error("timeout");
    };
    const options = { effect: "reconcile", reconcileAfterMs: 0, reconcile: find, maxRetries: 0 } as const;
    const happened = step("happened", fail(true), options);
    const didNot = step("did not", fail(false), options);
    const order = workflow(scene.name("order"), async () => [await happened(), await didNot().catch((error: Error) => error.message)]);
    const { store } = await scene.work();
    expect(await (await start(order, [], { store })).returnValue).toEqual([
      "effect",
      expect.stringContaining("failed after its only attempt: timeout"),
    ]);
  });

  test("reconcile: is not called before reconcileAfterMs, also after a throw", async ({ scene }) => {
    const times: number[] = [];
    const charge = step(
      "charge",
      async () => {
        times.push(Number(getStepMetadata().stepStartedAt));
        throw new Error("timeout");
      },
      {
        effect: "reconcile",
        reconcileAfterMs: 200,
        reconcile: () => {
          times.push(Date.now());
          return { found: "found" };
        },
        ...quick,
      },
    );
    const order = workflow(scene.name("order"), async () => await charge());
    const { store } = await scene.work();
    expect(await (await start(order, [], { store })).returnValue).toBe("found");
    expect(Number(times[1]) - Number(times[0])).toBeGreaterThanOrEqual(190);
  });

  test("atMostOnce: any throw leaves the step unknown, without a retry", async ({ scene }) => {
    let calls = 0;
    const charge = step(
      "charge",
      async (error: string) => {
        calls += 1;
        throw error === "fatal" ? new FatalError("fatal") : new TypeError("plain");
      },
      { effect: "atMostOnce", ...quick },
    );
    const order = workflow(scene.name("order"), async (error: string) => await charge(error));
    const { store } = await scene.work();
    for (const error of ["fatal", "plain"]) {
      await start(order, [error], { id: error, store });
      await untilStatus(store, error, "unknown");
    }
    expect(await getRun("plain", { store }).trouble).toContain("it threw TypeError");
    expect(calls).toBe(2);
  });

  test("atMostOnce: a timeout leaves the step unknown, too", async ({ scene }) => {
    const charge = step("charge", () => new Promise<never>(() => {}), { effect: "atMostOnce", timeoutMs: 10, graceMs: 10 });
    const order = workflow(scene.name("order"), async () => await charge());
    const { store } = await scene.work();
    await start(order, [], { id: "o-1", store });
    await untilStatus(store, "o-1", "unknown");
    expect(await getRun("o-1", { store }).trouble).toContain("TimeoutError");
  });

  test("NotApplied says that nothing happened: the step is retried, and fails if that was the last attempt", async ({ scene }) => {
    let calls = 0;
    const body = async (until: number) => {
      calls += 1;
      if (getStepMetadata().attempt < until) throw new NotApplied("refused at the door");
      return "applied";
    };
    const once = step("once", body, { effect: "atMostOnce", ...quick });
    const never = step("never", body, { effect: "atMostOnce", maxRetries: 1, ...quick });
    const order = workflow(scene.name("order"), async () => [
      await once(3),
      await never(99).catch((error: Error) => [FatalError.is(error), (error.cause as Error).name]),
    ]);
    const { store } = await scene.work();
    expect(await (await start(order, [], { store })).returnValue).toEqual(["applied", [true, "NotApplied"]]);
    expect(calls).toBe(5);
  });

  test("a run in doubt that also waits for a hook continues with both", async ({ scene }) => {
    const charge = step("charge", async () => Promise.reject(new Error("no")), { effect: "atMostOnce" });
    const order = workflow(scene.name("order"), async () => {
      const hook = createHook<string>({ token: scene.name("token") });
      return await Promise.all([hook, charge()]);
    });
    const { store } = await scene.work();
    await start(order, [], { id: "o-1", store });
    await untilStatus(store, "o-1", "unknown");
    const { resumeHook } = await import("onceflow/workflow/api");
    const [hook] = (await store.runs.load("o-1"))?.hooks ?? [];
    await resumeHook(hook?.token ?? "", "resumed", { store });
    await until("the payload is taken in", async () => (await store.runs.read("o-1"))?.consumed === 1);
    await untilStatus(store, "o-1", "unknown");
    const stepId = /step_[\w-]+/.exec((await getRun("o-1", { store }).trouble) ?? "")?.[0] ?? "";
    await resolveStep({ reason: "test", runId: "o-1", stepId, attempt: 1, store }, { completed: "charged" });
    expect(await getRun("o-1", { store }).returnValue).toEqual(["resumed", "charged"]);
  });
});
