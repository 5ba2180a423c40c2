import { NotKnownError, type Store, UnreachableError } from "onceflow";
import { EffectLedger } from "onceflow/testing";
import { createHook, getStepMetadata, random, sleep, step, type Workflow, work, workflow } from "onceflow/workflow";
import { getRun, readAttempts, resumeHook, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import type { RunOperation } from "../../../src/core/runs/operation.js";
import { mortal } from "../../../src/testing/mortal-store.js";
import { stepIdOf } from "../../../src/workflow/journal/identity.js";
import { dyingStore } from "../../kit/dying-store.js";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { untilStatus } from "../scene.js";

/** Problems that users of durable execution engines report, each as a test. */

const trials = 100;

onStores("a step that is in progress", everyStore, (test) => {
  test(`is not run again because a second worker starts: ${trials} trials`, async ({ scene }) => {
    const effects = new EffectLedger({ honoursKeys: false });
    const go = gate();
    const charge = step("charge", async () => {
      const { stepId, attempt } = getStepMetadata();
      effects.call(stepId, { attempt, result: 1 });
      await go.opened;
    });
    const order = workflow(scene.name("order"), async () => await charge());
    const { store } = await scene.work({ workflows: [order], concurrency: trials });
    const runs = await Promise.all(Array.from({ length: trials }, (_, i) => start(order, [], { id: `o-${i}`, store })));
    await until("all charges are in progress", () => effects.keys().length === trials);
    // Each worker starts, polls for work and stops; the last two stay.
    for (let i = 0; i < 10; i++) {
      const { worker } = await scene.work({ workflows: [order] });
      expect(await worker.tick()).toBe(0);
      if (i < 8) await worker.stop();
    }
    go.open();
    await Promise.all(runs.map((run) => run.returnValue));
    for (const stepId of effects.keys()) expect(effects.rawCalls(stepId)).toBe(1);
  });

  test(`is not run again because a hook is resumed: ${trials} trials`, async ({ scene }) => {
    const effects = new EffectLedger({ honoursKeys: false });
    const go = gate();
    const charge = step("charge", async () => {
      const { stepId, attempt } = getStepMetadata();
      effects.call(stepId, { attempt, result: 1 });
      await go.opened;
    });
    const order = workflow(scene.name("order"), async (token: string) => {
      const hook = createHook<string>({ token });
      const [approval] = await Promise.all([hook, charge()]);
      return approval;
    });
    const { store } = await scene.work({ workflows: [order], concurrency: trials });
    await scene.work({ workflows: [order], concurrency: trials });
    const prefix = scene.name("approval");
    const runs = await Promise.all(Array.from({ length: trials }, (_, i) => start(order, [`${prefix} ${i}`], { id: `o-${i}`, store })));
    await until("all charges are in progress", () => effects.keys().length === trials);
    const elsewhere = await scene.open();
    await Promise.all(runs.map((_, i) => resumeHook(`${prefix} ${i}`, "yes", { store: elsewhere })));
    go.open();
    expect(await Promise.all(runs.map((run) => run.returnValue))).toEqual(runs.map(() => "yes"));
    for (const stepId of effects.keys()) expect(effects.rawCalls(stepId)).toBe(1);
  });
});

/** Once the effect has happened the store fails for a while: before the write, or after it (so that the reply is lost). */
function failing(store: Store, when: () => boolean, how: "unreachable" | "reply lost"): { readonly store: Store; failures(): number } {
  let failures = 0;
  const commit = async (batch: { run?: RunOperation }) => {
    if (!when() || failures >= 3 || batch.run?.verb !== "append") return await store.commit(batch as never);
    failures += 1;
    if (how === "unreachable") throw new UnreachableError("the test says so");
    await store.commit(batch as never);
    throw new NotKnownError("the test says so");
  };
  return { store: Object.create(store, { commit: { value: commit } }) as Store, failures: () => failures };
}

onStores("when the write of a step's result fails", everyStore, (test) => {
  for (const how of ["unreachable", "reply lost"] as const)
    for (const effect of ["idempotent", "keyed", "reconcile", "atMostOnce"] as const)
      test(`${effect}, ${how}: the save is retried and the effect is not repeated`, async ({ scene }) => {
        const effects = new EffectLedger({ honoursKeys: false });
        let asked = 0;
        const ask = () => {
          asked += 1;
          return "unknown" as const;
        };
        const reconcile = effect === "reconcile" ? { reconcile: ask } : {};
        const charge = step(
          "charge",
          async () => {
            const { stepId, attempt } = getStepMetadata();
            return effects.call(stepId, { attempt, result: "charged" });
          },
          { effect, ...reconcile },
        );
        const order = workflow(scene.name("order"), async () => await charge());
        const bad = failing(await scene.open(), () => effects.keys().length > 0, how);
        await scene.work({ workflows: [order] }, bad.store);
        const run = await start(order, [], { id: "o-1", store: bad.store });
        expect(await run.returnValue).toBe("charged");
        expect(bad.failures()).toBe(3);
        expect(asked).toBe(0);
        const [stepId = ""] = effects.keys();
        expect(effects.rawCalls(stepId)).toBe(1);
        expect(await readAttempts("o-1", stepId, { store: bad.store })).toMatchObject([{ attempt: 1, verdict: "completed" }]);
      });

  test("idempotent, and the process dies before the save succeeds: the journal shows the second attempt", async ({ scene }) => {
    const effects = new EffectLedger({ honoursKeys: true });
    const charge = step("charge", async () => {
      const { stepId, attempt } = getStepMetadata();
      return effects.call(stepId, { attempt, result: "charged" });
    });
    const order = workflow(scene.name("order"), async () => await charge());
    const doomed = mortal(await scene.open());
    const bad = failing(doomed.store, () => effects.keys().length > 0, "unreachable");
    await work(bad.store, { workflows: [order], leaseMs: 300, background: true });
    await start(order, [], { id: "o-1", store: bad.store });
    await until("a save has failed", () => bad.failures() > 0);
    doomed.die();
    const { store } = await scene.work({ workflows: [order], pollMs: 100 });
    expect(await getRun("o-1", { store }).returnValue).toBe("charged");
    const [stepId = ""] = effects.keys();
    expect(effects.applied(stepId)).toBe(1);
    expect(await readAttempts("o-1", stepId, { store })).toMatchObject([
      { attempt: 1, verdict: "lapsed" },
      { attempt: 2, verdict: "completed" },
    ]);
  });
});

onStores("a crash at any write of a run", everyStore, (test) => {
  for (const side of ["before", "after"] as const)
    test(`${side} the write: the next worker finishes the run, and no step has two results`, async ({ scene }) => {
      const effects = new EffectLedger({ honoursKeys: true });
      const effect = step("effect", async (n: number) => {
        const { stepId, attempt } = getStepMetadata();
        return effects.call(stepId, { attempt, result: n });
      });
      const order = workflow(scene.name("order"), async () => {
        const first = await effect(1);
        const [second, third] = await Promise.all([effect(2), effect(3)]);
        await sleep(5);
        return first + second + third + (await effect(4));
      });
      const stores: Store[] = [];
      for (let at = 0; at < 9; at++) stores.push(await scene.open());
      // One run for each commit to die at; a run with fewer commits ends without a crash.
      const deaths = await Promise.all(stores.map((store, at) => dieAt(store, order, `o-${at}`, at, side)));
      expect(deaths.filter(Boolean).length).toBeGreaterThanOrEqual(5);
      const { store } = await scene.work({ workflows: [order], pollMs: 100 });
      for (let at = 0; at < 9; at++) {
        // The client of a process that died before the run was stored starts it again.
        const run = await start(order, [], { id: `o-${at}`, store });
        expect(await run.returnValue).toBe(10);
      }
      for (const stepId of effects.keys()) expect(effects.applied(stepId)).toBe(1);
    });
});

/** Crashes before or after the n-th write of the run; returns whether it crashed. */
async function dieAt(own: Store, run: Workflow<[], number>, id: string, at: number, side: "before" | "after") {
  let commits = 0;
  const { store, died } = dyingStore(own, side, { run: () => commits++ === at });
  await work(store, { workflows: [run], leaseMs: 300, background: true });
  const ended = start(run, [], { id, store }).then((started) => started.returnValue);
  return await Promise.race([died.then(() => true), ended.then(() => false)]);
}

onStores("step identities", ["memory"], (test) => {
  test("are not shifted by an additional random number, hook or sleep", async ({ scene }) => {
    const ids: string[] = [];
    const charge = step("charge", async () => void ids.push(getStepMetadata().stepId));
    const other = step("other", async () => {});
    const name = scene.name("order");
    const { store } = await scene.work();
    const plain = workflow(name, async () => await charge());
    await (await start(plain, [], { id: "o-1", store })).returnValue;
    const richer = workflow(scene.name("order"), async () => {
      random();
      createHook().dispose();
      await sleep(1);
      await other();
      await charge();
    });
    await (await start(richer, [], { id: "o-2", store })).returnValue;
    expect(new Set(ids).size).toBe(2);
    expect(ids).toEqual([stepIdOf("o-1", "charge#0"), stepIdOf("o-2", "charge#0")]);
  });
});

onStores("a long run", ["sqlite"], (test) => {
  test("of 1,000 steps completes, does not get slower towards its end, and is replayed completely", async ({ scene }) => {
    const at: number[] = [];
    let bodies = 0;
    const tick = step("tick", async (n: number) => {
      bodies += 1;
      return n;
    });
    const long = workflow(scene.name("long"), async () => {
      let sum = 0;
      for (let n = 0; n < 1000; n++) {
        sum += await tick(n);
        at.push(performance.now());
      }
      await createHook({ token: "go on" });
      return sum;
    });
    const doomed = await scene.workAndDie({ workflows: [long] });
    await start(long, [], { id: "l-1", store: doomed.store });
    await until("all steps are done", () => at.length >= 1000, 50_000);
    const fastest = (from: number, to: number) => Math.min(...at.slice(from + 1, to + 1).map((time, i) => time - (at[from + i] as number)));
    // Compares the fastest single steps: a busy machine slows most of them down, but not every one of 200.
    expect(fastest(799, 999)).toBeLessThan(5 * fastest(0, 200) + 5);
    const looking = await scene.open();
    await until("it waits for its hook", async () => (await looking.runs.hook("go on")) !== undefined);
    doomed.die();
    const { store } = await scene.work({ workflows: [long] });
    await resumeHook("go on", null, { store });
    expect(await getRun("l-1", { store }).returnValue).toBe(499_500);
    expect(bodies).toBe(1000);
  });
});

onStores("a process that only starts runs", everyStore, (test) => {
  test("never executes them, and a worker in another process finds them without a restart", async ({ scene }) => {
    let here = 0;
    const count = step("count", async () => {
      here += 1;
    });
    const order = workflow(scene.name("order"), async () => await count());
    const client = await scene.open();
    await start(order, [], { id: "o-1", store: client });
    expect(await getRun("o-1", { store: client }).status).toBe("pending");
    expect(here).toBe(0);
    // A worker that is already running finds runs that are started later.
    const { store } = await scene.work({ workflows: [order] });
    await untilStatus(store, "o-1", "completed");
    await start(order, [], { id: "o-2", store: client });
    await untilStatus(store, "o-2", "completed");
    expect(here).toBe(2);
  });
});
