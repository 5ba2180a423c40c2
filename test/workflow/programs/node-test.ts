import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { testWorkflows, type WorkflowTest } from "onceflow/testing";
import { createHook, getStepMetadata, now, sleep, step, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";

/** A program for `node --test`: the same runner, under Node's own test framework. */
const charge = step("charge", async (_order: string): Promise<string> => {
  throw new Error("the real step must not be called");
});
const order = workflow("order", async (id: string) => {
  const chargeId = await charge(id);
  await sleep("3d");
  using hook = createHook<boolean>({ token: `approve:${id}` });
  return { chargeId, approved: await hook, at: now().toISOString() };
});

describe("an order", () => {
  let t: WorkflowTest;
  beforeEach(async () => {
    t = await testWorkflows();
    t.mockStep(charge, (id) => {
      const { stepId, attempt } = getStepMetadata();
      if (attempt === 1) throw new Error("the provider has a bad day");
      return t.effects.call(stepId, { attempt, result: `ch_${id}` });
    });
  });
  afterEach(() => t.close());

  test("waits three days and then for an approval", async () => {
    const run = await start(order, ["o1"], { id: "o1" });
    await t.waitForSleep(run);
    await t.advance("3d");
    await (await t.waitForHook(run, { token: "approve:o1" })).resume(true);
    assert.deepEqual(await t.result(run), { chargeId: "ch_o1", approved: true, at: "2030-01-04T00:00:01.000Z" });
  });

  test("is charged once, even if the worker dies and the event is delivered twice", async () => {
    t.crash({ step: charge, when: "after", attempt: 2 });
    const [run] = await t.deliverTwice(() => start(order, ["o2"], { id: "o2" }));
    await t.waitForSleep(run);
    t.expectCalls(charge, 3);
    t.expectEffect(t.calls(charge)[0]?.stepId ?? "", { applied: 1, calls: 2 });
    await t.expectReplay(run);
  });

  test("a failed expectation is an AssertionError", async () => {
    assert.throws(() => t.expectCalls(charge, 1), { name: "AssertionError", message: /expected 1 execution, got 0/ });
  });
});
