import type { Store } from "onceflow";
import { createHook, FatalError, getStepMetadata, sleep, step, type Workflow, workflow } from "onceflow/workflow";
import { getHookByToken, getRun, readAttempts, readOperatorLog, resolveStep, resumeHook, retryRun, start } from "onceflow/workflow/api";
import { describe, expect } from "vitest";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { quick, story, untilReleased, untilStatus } from "../scene.js";

/** A provider that counts calls by idempotency key, and fails as long as it is down. */
class Provider {
  isDown = false;
  readonly calls: string[] = [];
  readonly applied = new Map<string, number>();

  readonly call = (what: string): string => {
    const { stepId } = getStepMetadata();
    this.calls.push(what);
    if (this.isDown) throw new Error(`${what}: connection refused`);
    if (!this.applied.has(stepId)) this.applied.set(stepId, this.applied.size + 1);
    return `${what} ${this.applied.get(stepId)}`;
  };

  /** Steps that call the provider, with one retry. */
  step(name: string) {
    return step(name, async (): Promise<string> => this.call(name), { ...quick, maxRetries: 1 });
  }
}

async function failed(run: Workflow<[], unknown>, id: string, store: Store): Promise<void> {
  await start(run, [], { id, store });
  await untilStatus(store, id, "failed");
}

onStores("a failed run is retried", everyStore, (test) => {
  test("its failed step runs again with the same stepId, its next attempts and all its retries; earlier steps do not", async ({
    scene,
  }) => {
    const { store } = await scene.work({});
    const provider = new Provider();
    const [reserve, charge, ship] = [provider.step("reserve"), provider.step("charge"), provider.step("ship")];
    const order = workflow(scene.name("order"), async () => {
      const reserved = await reserve();
      provider.isDown = provider.calls.length < 3;
      return [reserved, await charge(), await ship()];
    });
    await failed(order, "o-1", store);
    expect(provider.calls).toEqual(["reserve", "charge", "charge"]);
    provider.isDown = false;
    const { steps, repeated } = await retryRun("o-1", { store, actor: "ada", reason: "the bank is back", actionId: "a-1" });
    expect(steps).toMatchObject([{ callId: "charge#0", attempt: 2 }]);
    expect(await getRun("o-1", { store }).returnValue).toEqual(["reserve 1", "charge 2", "ship 3"]);
    expect(provider.calls).toEqual(["reserve", "charge", "charge", "charge", "ship"]);
    const attempts = await readAttempts("o-1", steps[0]?.stepId ?? "", { store });
    expect(attempts.map(({ attempt, verdict }) => `${attempt} ${verdict}`)).toEqual(["1 failed", "2 failed", "3 completed"]);
    expect(repeated).toBe(false);
    // The reply was lost, and the action is sent again when the run has long ended.
    const again = await retryRun("o-1", { store, actor: "ada", reason: "the bank is back", actionId: "a-1" });
    expect(again).toMatchObject({ repeated: true, steps });
    expect(await readOperatorLog({ store, runId: "o-1" })).toMatchObject([{ actor: "ada", action: "retry", reason: "the bank is back" }]);
  });

  test("it fails again and is retried again, on a worker that replays the journal", async ({ scene }) => {
    const provider = new Provider();
    const charge = provider.step("charge");
    const order = workflow(scene.name("order"), async () => {
      await sleep(1);
      return await charge();
    });
    provider.isDown = true;
    const first = await scene.work({ workflows: [order] });
    await failed(order, "o-1", first.store);
    await retryRun("o-1", { store: first.store });
    await until(
      "it has failed again",
      async () => provider.calls.length === 4 && (await getRun("o-1", { store: first.store }).status) === "failed",
    );
    await first.worker.stop();
    provider.isDown = false;
    const second = await scene.work({ workflows: [order] });
    await retryRun("o-1", { store: second.store });
    expect(await getRun("o-1", { store: second.store }).returnValue).toBe("charge 1");
    expect(provider.calls).toHaveLength(5);
  });

  test("an error of the code itself: only the end is dropped, and corrected code goes on", async ({ scene }) => {
    const provider = new Provider();
    const charge = provider.step("charge");
    let isBroken = true;
    const order = workflow(scene.name("order"), async () => {
      const charged = await charge();
      if (isBroken) throw new TypeError("cannot read properties of undefined");
      return charged;
    });
    const { store } = await scene.work({ workflows: [order] });
    await failed(order, "o-1", store);
    isBroken = false;
    expect(await retryRun("o-1", { store })).toMatchObject({ steps: [] });
    expect(await getRun("o-1", { store }).returnValue).toBe("charge 1");
    expect(provider.calls).toEqual(["charge"]);
  });

  test("what was recorded after the failure for earlier requests has happened: a result, a payload", async ({ scene }) => {
    const [bank, warehouse] = [new Provider(), new Provider()];
    const [charge, pack] = [bank.step("charge"), warehouse.step("pack")];
    const token = scene.name("approval");
    const order = workflow(scene.name("order"), async () => {
      const hook = createHook<string>({ token });
      const approved = hook.then((payload) => payload);
      const packed = pack();
      // The code knows of the failure, and waits for the others before it fails.
      const charged = charge().catch(async (error: unknown) => {
        await Promise.all([approved, packed]);
        throw error;
      });
      return await Promise.all([charged, packed, approved]);
    });
    bank.isDown = true;
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store });
    await until(
      "the charge has failed for good",
      async () => (await story(store, "o-1")).filter((event) => event === "fail charge#0").length === 2,
    );
    await resumeHook(token, "approved", { store });
    await untilStatus(store, "o-1", "failed");
    expect((await story(store, "o-1")).slice(-2)).toEqual(["got hook#0", "end failed"]);
    bank.isDown = false;
    await retryRun("o-1", { store });
    expect(await getRun("o-1", { store }).returnValue).toEqual(["charge 1", "pack 1", "approved"]);
    expect(warehouse.calls).toEqual(["pack"]);
  });

  test("of several failed steps the caller names those to retry; the failures of the others stay", async ({ scene }) => {
    const provider = new Provider();
    const [one, two] = [provider.step("one"), provider.step("two")];
    const both = workflow(
      scene.name("both"),
      async () =>
        await Promise.allSettled([one(), two()]).then(([a, b]) => {
          if (a.status === "rejected") throw a.reason as Error;
          return [a.value, b.status];
        }),
    );
    provider.isDown = true;
    const { store } = await scene.work({ workflows: [both] });
    await failed(both, "b-1", store);
    provider.isDown = false;
    const refused = retryRun("b-1", { store });
    await expect(refused).rejects.toMatchObject({ because: "ambiguous", ids: expect.arrayContaining(["one#0", "two#0"]) });
    await expect(retryRun("b-1", { store, steps: ["three#0"] })).rejects.toMatchObject({ because: "notFailed", ids: ["three#0"] });
    await retryRun("b-1", { store, steps: ["one#0"] });
    expect(await getRun("b-1", { store }).returnValue).toEqual(["one 1", "rejected"]);
    expect(provider.applied.size).toBe(1);
  });
});

describe("a retry is refused, and nothing changes", () => {
  onStores("if a compensation began after the failure", everyStore, (test) => {
    test("unless it is forced: then the compensation gets a new stepId", async ({ scene }) => {
      const provider = new Provider();
      const [charge, ship, refund] = [provider.step("charge"), provider.step("ship"), provider.step("refund")];
      let isShippable = false;
      const tryShip = step("tryShip", async () => {
        if (!isShippable) throw new FatalError("no stock");
        return provider.call("ship");
      });
      const order = workflow(scene.name("order"), async () => {
        await charge();
        try {
          await tryShip();
          await ship();
        } catch (error) {
          await refund();
          throw error;
        }
        return await refund();
      });
      const { store } = await scene.work({ workflows: [order] });
      await failed(order, "o-1", store);
      const refusal = { code: "ACTION_REFUSED", because: "begunAfter", ids: ["refund#0"] };
      await expect(retryRun("o-1", { store })).rejects.toMatchObject(refusal);
      await expect(retryRun("o-1", { store, dryRun: true })).rejects.toMatchObject(refusal);
      expect(await readOperatorLog({ store, runId: "o-1" })).toEqual([]);
      isShippable = true;
      const options = { store, force: ["refund#0"] };
      expect(await retryRun("o-1", { ...options, dryRun: true })).toMatchObject({ dryRun: true, renewed: ["refund#0"] });
      expect(await getRun("o-1", { store }).status).toBe("failed");
      await retryRun("o-1", options);
      // charge 1, refund 2 (before the retry), ship 3 and 4, and the new refund is another effect.
      expect(await getRun("o-1", { store }).returnValue).toBe("refund 5");
    });
  });

  onStores("if the run is not failed", everyStore, (test) => {
    test("because it runs, or does not exist", async ({ scene }) => {
      const nap = workflow(scene.name("nap"), async () => await sleep("1h"));
      const { store } = await scene.work({ workflows: [nap] });
      await start(nap, [], { id: "n-1", store });
      await expect(retryRun("n-1", { store })).rejects.toMatchObject({ because: "notFailed" });
      await expect(retryRun("none", { store })).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
      await expect(retryRun("n-1", { store, setps: [] } as never)).rejects.toMatchObject({ code: "INVALID_INPUT" });
    });
  });
});

onStores("hooks of a retried run", everyStore, (test) => {
  test("are open again with their metadata", async ({ scene }) => {
    const token = `approval ${scene.name("h")}`;
    let isBroken = true;
    const charge = step("charge", async () => {
      if (isBroken) throw new FatalError("down");
      return "charged";
    });
    const order = workflow(scene.name("order"), async () => {
      const approval = createHook<string>({ token, metadata: { order: 1 } });
      return [await charge(), await approval];
    });
    const { store } = await scene.work({ workflows: [order] });
    await failed(order, "o-1", store);
    await expect(getHookByToken(token, { store })).rejects.toMatchObject({ code: "HOOK_NOT_FOUND" });
    isBroken = false;
    expect(await retryRun("o-1", { store })).toMatchObject({ hooks: [token] });
    expect(await getHookByToken(token, { store })).toMatchObject({ metadata: { order: 1 } });
    await untilReleased(store, "o-1");
    await resumeHook(token, "approved", { store });
    expect(await getRun("o-1", { store }).returnValue).toEqual(["charged", "approved"]);
  });

  test("refuse the retry if another run has the token now", async ({ scene }) => {
    const token = `approval ${scene.name("h")}`;
    const charge = step("charge", async () => {
      throw new FatalError("down");
    });
    const order = workflow(scene.name("order"), async () => {
      const approval = createHook<string>({ token });
      await charge();
      return await approval;
    });
    const other = workflow(scene.name("other"), async () => await createHook<string>({ token }));
    const { store } = await scene.work({ workflows: [order, other] });
    await failed(order, "o-1", store);
    await start(other, [], { id: "other", store });
    await untilReleased(store, "other");
    await expect(retryRun("o-1", { store })).rejects.toMatchObject({ because: "token" });
    expect(await getRun("o-1", { store }).status).toBe("failed");
  });
});

onStores("a failed step is resolved by a person", everyStore, (test) => {
  test("with a result: the run goes on with it, and the provider is not called", async ({ scene }) => {
    const provider = new Provider();
    const [charge, ship] = [provider.step("charge"), provider.step("ship")];
    const order = workflow(scene.name("order"), async () => [await charge(), await ship()]);
    const { store } = await scene.work({ workflows: [order] });
    provider.isDown = true;
    await failed(order, "o-1", store);
    provider.isDown = false;
    const { steps } = await retryRun("o-1", { store, dryRun: true });
    const { stepId = "", attempt = 0 } = steps[0] ?? {};
    await resolveStep({ runId: "o-1", stepId, attempt, store, actor: "ada", reason: "paid in cash" }, { completed: "in cash" });
    expect(await getRun("o-1", { store }).returnValue).toEqual(["in cash", "ship 1"]);
    expect(provider.calls).toEqual(["charge", "charge", "ship"]);
    expect(await readOperatorLog({ store, runId: "o-1" })).toMatchObject([{ action: "resolve", actor: "ada", reason: "paid in cash" }]);
  });
});
