import { InvalidInputError, NotUnknownError, type Store } from "onceflow";
import { EffectLedger } from "onceflow/testing";
import { getStepMetadata, RunCancelledError, RunNotFoundError, sleep, step, type Workflow, workflow } from "onceflow/workflow";
import { getRun, listRuns, readAttempts, resolveStep, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores, type Scene } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { story, untilReleased, untilStatus } from "../scene.js";

/** A step that calls the provider and can be held there: the process dies during its first attempt. */
class Deed {
  readonly effects: EffectLedger;
  readonly reached = gate<string>();
  holds = true;

  constructor(honoursKeys = false) {
    this.effects = new EffectLedger({ honoursKeys });
  }

  readonly body = async (amount: number): Promise<string> => {
    const { stepId, attempt } = getStepMetadata();
    const result = this.effects.call(stepId, { attempt, result: `deed ${attempt} of ${amount}` });
    this.reached.open(stepId);
    if (this.holds && attempt === 1) await new Promise(() => {});
    return result;
  };
}

/** Starts the run and lets its process die during the step; returns the stepId. */
async function dieIn(scene: Scene, deed: Deed, run: Workflow<[], unknown>, id: string): Promise<string> {
  const doomed = await scene.workAndDie({ workflows: [run] });
  await start(run, [], { id, store: doomed.store });
  const stepId = await deed.reached.opened;
  doomed.die();
  return stepId;
}

async function verdicts(store: Store, run: string, stepId: string): Promise<string[]> {
  const attempts = await readAttempts(run, stepId, { store });
  return attempts.map(({ attempt, verdict, how }) => [attempt, verdict, how].filter((part) => part !== undefined).join(" "));
}

onStores("effects when the process died during the step", everyStore, (test) => {
  test("idempotent: the step runs again, with the same key and the next attempt number", async ({ scene }) => {
    const deed = new Deed();
    const charge = step("charge", deed.body);
    const order = workflow(scene.name("order"), async () => await charge(5));
    const stepId = await dieIn(scene, deed, order, "o-1");
    const { store } = await scene.work();
    expect(await getRun("o-1", { store }).returnValue).toBe("deed 2 of 5");
    expect(deed.effects.calls(stepId).map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(deed.effects.keys()).toEqual([stepId]);
    expect(await verdicts(store, "o-1", stepId)).toEqual(["1 lapsed", "2 completed"]);
  });

  test("keyed: the step runs again, and the provider deduplicates", async ({ scene }) => {
    const deed = new Deed(true);
    const charge = step("charge", deed.body, { effect: "keyed" });
    const order = workflow(scene.name("order"), async () => await charge(5));
    const stepId = await dieIn(scene, deed, order, "o-1");
    const { store } = await scene.work();
    expect(await getRun("o-1", { store }).returnValue).toBe("deed 1 of 5");
    expect([deed.effects.rawCalls(stepId), deed.effects.applied(stepId)]).toEqual([2, 1]);
  });

  test("reconcile, found: the result is recorded and the step not called again; reconcile gets stepId, attempt and input", async ({
    scene,
  }) => {
    const deed = new Deed();
    const asked: unknown[] = [];
    const charge = step("charge", deed.body, {
      effect: "reconcile",
      reconcileAfterMs: 0,
      reconcile: (request) => {
        asked.push(request);
        return deed.effects.find(request.stepId) as { found: string };
      },
    });
    const order = workflow(scene.name("order"), async () => await charge(5));
    const stepId = await dieIn(scene, deed, order, "o-1");
    const { store } = await scene.work();
    expect(await getRun("o-1", { store }).returnValue).toBe("deed 1 of 5");
    expect(deed.effects.rawCalls(stepId)).toBe(1);
    expect(asked).toEqual([{ stepId, attempt: 1, input: [5] }]);
    expect(await verdicts(store, "o-1", stepId)).toEqual(["1 completed reconciled"]);
  });

  test("reconcile, absent: the step runs again", async ({ scene }) => {
    const deed = new Deed();
    const charge = step("charge", deed.body, { effect: "reconcile", reconcileAfterMs: 0, reconcile: () => "absent" });
    const order = workflow(scene.name("order"), async () => await charge(5));
    const stepId = await dieIn(scene, deed, order, "o-1");
    const { store } = await scene.work();
    expect(await getRun("o-1", { store }).returnValue).toBe("deed 2 of 5");
    expect(await verdicts(store, "o-1", stepId)).toEqual(["1 lapsed", "2 completed"]);
  });

  const noAnswers: Record<string, () => unknown> = {
    'returns "unknown"': () => "unknown",
    throws: () => Promise.reject(new Error("provider down")),
    "returns undefined": () => undefined,
    "returns an invalid value": () => ({}),
  };
  for (const [what, reconcile] of Object.entries(noAnswers)) {
    test(`reconcile ${what}: the step is unknown, and is not called again`, async ({ scene }) => {
      const deed = new Deed();
      const charge = step("charge", deed.body, { effect: "reconcile", reconcileAfterMs: 0, reconcile: reconcile as () => "unknown" });
      const order = workflow(scene.name("order"), async () => await charge(5));
      const stepId = await dieIn(scene, deed, order, "o-1");
      const { store } = await scene.work();
      await untilStatus(store, "o-1", "unknown");
      expect(deed.effects.rawCalls(stepId)).toBe(1);
      expect(await getRun("o-1", { store }).trouble).toContain(stepId);
      await resolveStep({ reason: "test", runId: "o-1", stepId, attempt: 1, store }, { completed: "a person looked" });
      expect(await getRun("o-1", { store }).returnValue).toBe("a person looked");
    });
  }

  test("reconcile is not called before reconcileAfterMs", async ({ scene }) => {
    const deed = new Deed();
    const times: number[] = [];
    const charge = step(
      "charge",
      async (amount: number) => {
        times.push(Number(getStepMetadata().stepStartedAt));
        return await deed.body(amount);
      },
      {
        effect: "reconcile",
        reconcileAfterMs: 300,
        reconcile: () => {
          times.push(Date.now());
          return { found: "found" };
        },
      },
    );
    const order = workflow(scene.name("order"), async () => await charge(5));
    await dieIn(scene, deed, order, "o-1");
    const { store } = await scene.work();
    expect(await getRun("o-1", { store }).returnValue).toBe("found");
    expect(Number(times[1]) - Number(times[0])).toBeGreaterThanOrEqual(290);
  });

  test("in reconcile a step is a plain function, and the run is not its context", async ({ scene }) => {
    const deed = new Deed();
    const look = step("look", async () => "looked");
    const charge = step("charge", deed.body, {
      effect: "reconcile",
      reconcileAfterMs: 0,
      reconcile: async () => ({ found: await look() }),
    });
    const order = workflow(scene.name("order"), async () => await charge(5));
    await dieIn(scene, deed, order, "o-1");
    const { store } = await scene.work();
    expect(await getRun("o-1", { store }).returnValue).toBe("looked");
    expect(await story(store, "o-1")).not.toContain("step look#0");
  });

  test("a value that reconcile found and that cannot be journaled fails the step, and does not end the process", async ({ scene }) => {
    const deed = new Deed();
    const charge = step("charge", deed.body, {
      effect: "reconcile",
      reconcileAfterMs: 0,
      reconcile: () => ({ found: (() => 1) as never }),
    });
    const order = workflow(scene.name("order"), async () => await charge(5));
    const stepId = await dieIn(scene, deed, order, "o-1");
    const { store } = await scene.work();
    await expect(getRun("o-1", { store }).returnValue).rejects.toThrow(/cannot be journaled/);
    expect(deed.effects.rawCalls(stepId)).toBe(1);
  });

  test("atMostOnce: the step never runs again; the run is unknown and listed with its trouble; other runs continue", async ({ scene }) => {
    const deed = new Deed();
    const charge = step("charge", deed.body, { effect: "atMostOnce" });
    const order = workflow(scene.name("order"), async () => await charge(5));
    const stepId = await dieIn(scene, deed, order, "o-1");
    const { store, worker } = await scene.work();
    await untilStatus(store, "o-1", "unknown");
    deed.holds = false;
    expect(await (await start(order, [], { id: "o-2", store })).returnValue).toBe("deed 1 of 5");
    const { items } = await listRuns({ store, status: "unknown" });
    expect(items.map(({ id }) => id)).toEqual(["o-1"]);
    expect(items[0]?.trouble).toContain(`step "charge" (${stepId}), attempt 1`);
    expect(items[0]?.trouble).toContain("died or lost the run");
    expect(worker.running).toBe(0);
    expect(deed.effects.rawCalls(stepId)).toBe(1);
    expect(await verdicts(store, "o-1", stepId)).toEqual([expect.stringMatching(/^1 unknown/)]);
  });

  test("a person resolves the step as completed, failed or not applied, and the run continues", async ({ scene }) => {
    const outcomes = workflow(scene.name("order"), async () => {
      const deeds = ["a", "b", "c"].map((id) => charge(id));
      return (await Promise.allSettled(deeds)).map((result) =>
        result.status === "fulfilled" ? result.value : (result.reason as Error).message,
      );
    });
    const called = new Map<string, number>();
    const ids = new Map<string, string>();
    const charge = step(
      "charge",
      async (id: string) => {
        called.set(id, (called.get(id) ?? 0) + 1);
        ids.set(id, getStepMetadata().stepId);
        if (getStepMetadata().attempt === 1) await new Promise(() => {});
        return `charged ${id}`;
      },
      { effect: "atMostOnce" },
    );
    const doomed = await scene.workAndDie();
    await start(outcomes, [], { id: "o-1", store: doomed.store });
    await until("all three were called", () => called.size === 3);
    doomed.die();
    const { store } = await scene.work();
    await untilStatus(store, "o-1", "unknown");
    const at = (id: string) => ({ runId: "o-1", stepId: ids.get(id) ?? "", attempt: 1, reason: "test", store });
    await resolveStep(at("a"), { completed: { by: "hand" } });
    await untilReleased(store, "o-1");
    await resolveStep(at("b"), { failed: new Error("never arrived") });
    await resolveStep(at("c"), "notApplied");
    expect(await getRun("o-1", { store }).returnValue).toEqual([{ by: "hand" }, "never arrived", "charged c"]);
    expect([...called]).toEqual([
      ["a", 1],
      ["b", 1],
      ["c", 2],
    ]);
    expect(await verdicts(store, "o-1", ids.get("a") ?? "")).toEqual(["1 completed resolved"]);
    expect(await verdicts(store, "o-1", ids.get("b") ?? "")).toEqual(["1 failed resolved"]);
  });

  test("a resolution for another attempt changes nothing; invalid resolutions are refused", async ({ scene }) => {
    const deed = new Deed();
    const charge = step("charge", deed.body, { effect: "atMostOnce" });
    const order = workflow(scene.name("order"), async () => await charge(5));
    const stepId = await dieIn(scene, deed, order, "o-1");
    const { store } = await scene.work();
    await untilStatus(store, "o-1", "unknown");
    const at = { runId: "o-1", stepId, attempt: 1, reason: "test", store };
    await expect(resolveStep({ ...at, attempt: 2 }, { completed: "wrong attempt" })).rejects.toThrow(NotUnknownError);
    await expect(resolveStep({ ...at, stepId: "step_other" }, { completed: "wrong step" })).rejects.toThrow(NotUnknownError);
    await expect(resolveStep({ ...at, runId: "missing" }, "notApplied")).rejects.toThrow(RunNotFoundError);
    await expect(resolveStep(at, "maybe" as never)).rejects.toThrow(InvalidInputError);
    await expect(resolveStep(at, { completed: () => 1 })).rejects.toThrow(InvalidInputError);
    await resolveStep(at, { completed: "right" });
    expect(await getRun("o-1", { store }).returnValue).toBe("right");
  });

  test("an unknown run stays unknown when it is woken, and can be cancelled", async ({ scene }) => {
    const deed = new Deed();
    const charge = step("charge", deed.body, { effect: "atMostOnce" });
    const order = workflow(scene.name("order"), async () => await charge(5));
    const stepId = await dieIn(scene, deed, order, "o-1");
    const { store } = await scene.work();
    await untilStatus(store, "o-1", "unknown");
    const run = getRun("o-1", { store });
    await run.wakeUp();
    await until("it was looked at", async () => (await store.runs.read("o-1"))?.consumed === 1);
    await untilStatus(store, "o-1", "unknown");
    await run.cancel();
    await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    expect(deed.effects.rawCalls(stepId)).toBe(1);
    expect(await run.trouble).toBeUndefined();
  });

  test("while one step is in doubt, the other steps of its run are finished", async ({ scene }) => {
    const deed = new Deed();
    const charge = step("charge", deed.body, { effect: "atMostOnce" });
    const notify = step("notify", async () => "notified");
    const order = workflow(scene.name("order"), async () => {
      const charged = charge(5);
      await sleep(1);
      const notified = await notify();
      await sleep(1);
      return [await notify(), notified, await charged];
    });
    const stepId = await dieIn(scene, deed, order, "o-1");
    const { store } = await scene.work();
    await untilStatus(store, "o-1", "unknown");
    expect(await story(store, "o-1")).toContain("done notify#1");
    await resolveStep({ reason: "test", runId: "o-1", stepId, attempt: 1, store }, { completed: "charged" });
    expect(await getRun("o-1", { store }).returnValue).toEqual(["notified", "notified", "charged"]);
  });
});
