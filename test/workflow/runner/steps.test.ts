import { AssertionError } from "node:assert";
import { InvalidInputError } from "onceflow";
import { EffectLedger, testWorkflows, type WorkflowTest } from "onceflow/testing";
import { createHook, FatalError, getStepMetadata, sleep, step, workflow } from "onceflow/workflow";
import { listRuns, readAttempts, resumeHook, start } from "onceflow/workflow/api";
import { describe, expect, expectTypeOf, onTestFinished, test } from "vitest";
import { gate } from "../../kit/gate.js";
import { letTimePass } from "../../kit/real-time.js";

async function runner(options: Parameters<typeof testWorkflows>[0] = {}): Promise<WorkflowTest> {
  const t = await testWorkflows(options);
  onTestFinished(() => t.close());
  return t;
}

interface Order {
  readonly id: string;
  readonly amount: number;
}

let realCharges = 0;
const charge = step("steps: charge", async (order: Order) => {
  realCharges += 1;
  return { chargeId: `real-${order.id}` };
});
const mail = step("steps: mail", async (to: string) => `mailed ${to}`);
const fulfil = workflow("steps: fulfil", async (order: Order) => {
  const { chargeId } = await charge(order);
  await mail(order.id);
  return chargeId;
});
const order: Order = { id: "o1", amount: 5 };

/** Mocks the charge with a call to a provider that honours keys. */
function withProvider(t: WorkflowTest) {
  return t.mockStep(charge, ({ id }) => {
    const { stepId, attempt } = getStepMetadata();
    return t.effects.call(stepId, { attempt, result: { chargeId: `ch_${id}` } });
  });
}

describe("mocks", () => {
  test("replace a step, record their calls and have the step's types", async () => {
    const t = await runner();
    realCharges = 0;
    const mock = t.mockStep(charge, async ({ id, amount }) => ({ chargeId: `${id} for ${amount}` }));
    expectTypeOf(mock.calls[0]?.args).toEqualTypeOf<[Order] | undefined>();
    const run = await t.start(fulfil, [order]);
    expect(await t.result(run)).toBe("o1 for 5");
    expect(mock.calls).toMatchObject([{ args: [order], attempt: 1, runId: "run-1", mocked: true }]);
    expect(mock.calls[0]?.stepId).toMatch(/^step_/);
    expect(t.calls(mail)).toMatchObject([{ args: ["o1"], mocked: false }]);
    expect(realCharges).toBe(0);
    // @ts-expect-error a mock must return the type that its step returns
    t.mockStep(charge, () => 5);
  });

  test("are retried as their step is; the newest mock counts; restore() brings back the mock before it, then the step", async () => {
    const t = await runner();
    realCharges = 0;
    const first = t.mockStep("steps: charge", () => ({ chargeId: "first" }));
    const second = t.mockStep(charge, () => {
      if (getStepMetadata().attempt < 3) throw new Error("not yet");
      return { chargeId: "second" };
    });
    expect(await t.result(await t.start(fulfil, [order]))).toBe("second");
    expect(second.calls.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    second.restore();
    expect(await t.result(await t.start(fulfil, [order]))).toBe("first");
    first.restore();
    expect(await t.result(await t.start(fulfil, [order]))).toBe("real-o1");
    expect([first.calls.length, second.calls.length, realCharges]).toEqual([1, 3, 1]);
  });

  test("apply to their own runner only", async () => {
    const t = await runner();
    const other = await runner({ ambient: false });
    t.mockStep(charge, () => ({ chargeId: "mocked" }));
    expect(await t.result(await t.start(fulfil, [order]))).toBe("mocked");
    expect(await other.result(await other.start(fulfil, [order]))).toBe("real-o1");
    expect((await charge(order)).chargeId).toBe("real-o1");
  });

  test("are refused for anything that is not a step", async () => {
    const t = await runner();
    expect(() => t.mockStep("steps: chrage", () => 1)).toThrow(/no step is named "steps: chrage"; did you mean "steps: charge"\?/);
    const plain = async () => 1;
    expect(() => t.mockStep(plain, () => 1)).toThrow(/got function "plain", which is not a step/);
    expect(() => t.mockStep(charge, undefined as never)).toThrow(InvalidInputError);
    for (const use of [() => t.calls("nothing"), () => t.expectCalls("nothing", 0), () => t.crash({ step: "nothing", when: "before" })])
      expect(use).toThrow(/no step is named "nothing"/);
  });

  test("replace a transactional step, which cannot run on a store in memory", async () => {
    const t = await runner();
    const insert = step.tx("steps: insert", async (tx: { run(sql: string): void }, id: string) => tx.run(`INSERT ${id}`) ?? id);
    const book = workflow("steps: book", async (id: string) => await insert(id));
    await expect(t.result(await t.start(book, ["a"]))).rejects.toThrow(
      /"steps: insert" is transactional, .*: mock the step \(mockStep\), or pass/,
    );
    const mock = t.mockStep(insert, async (id) => `row ${id}`);
    const run = await t.start(book, ["b"]);
    expect(await t.result(run)).toBe("row b");
    expect(mock.calls).toMatchObject([{ args: ["b"] }]);
    await t.expectReplay(run);
    for (const when of ["before", "after", "committed"] as const) {
      const crash = t.crash({ step: insert, when });
      expect(await t.result(await t.start(book, [when]))).toBe(`row ${when}`);
      expect(crash.happened).toBe(true);
    }
    expect(mock.calls.map(({ args, attempt }) => `${args} ${attempt}`)).toEqual(["b 1", "before 2", "after 1", "after 2", "committed 1"]);
  });
});

describe("crashes", () => {
  test.each([
    { when: "before" as const, calls: 1, attempts: ["lapsed", "completed"] },
    { when: "after" as const, calls: 2, attempts: ["lapsed", "completed"] },
    { when: "committed" as const, calls: 1, attempts: ["completed"] },
  ])("$when: $calls calls, one effect", async ({ when, calls, attempts }) => {
    const t = await runner();
    const mock = withProvider(t);
    const crash = t.crash({ step: charge, when });
    expect(crash.happened).toBe(false);
    const run = await t.start(fulfil, [order]);
    expect(await run.returnValue).toBe("ch_o1");
    expect(crash.happened).toBe(true);
    const [{ stepId } = { stepId: "" }] = mock.calls;
    t.expectCalls(charge, calls);
    t.expectCalls(mail, 1);
    t.expectEffect(stepId, { applied: 1, calls });
    expect((await readAttempts(run.id, stepId)).map(({ verdict }) => verdict)).toEqual(attempts);
    // The lease of the dead worker had to expire.
    expect(t.now).toEqual(new Date("2030-01-01T00:00:10.000Z"));
    await t.expectReplay(run);
  });

  test("leave a step of class atMostOnce unknown", async () => {
    const t = await runner();
    const wire = step("steps: wire", async () => "sent", { effect: "atMostOnce" });
    const run = await t.start(workflow("steps: pay", async () => await wire()));
    expect(await t.result(run)).toBe("sent");
    t.crash({ step: wire, when: "after" });
    const lost = await t.start(workflow("steps: pay once", async () => await wire()));
    await t.settle();
    expect(await lost.status).toBe("unknown");
    t.expectCalls(wire, 2);
  });

  test("happen only at the given attempt, only in the given run, and once each", async () => {
    const t = await runner();
    withProvider(t);
    const second = t.crash({ step: charge, when: "after", attempt: 2 });
    await t.result(await t.start(fulfil, [order]));
    expect(second.happened).toBe(false);
    const other = t.crash({ step: mail, when: "before", runId: "run-3" });
    const first = t.crash({ step: charge, when: "before" });
    await t.result(await t.start(fulfil, [order]));
    expect([first.happened, second.happened, other.happened]).toEqual([true, true, false]);
    await t.result(await t.start(fulfil, [order]));
    expect(other.happened).toBe(true);
    // One call of run 1; attempts 2 (which died after it) and 3 of run 2; one call of run 3.
    expect(t.calls(charge).map(({ attempt }) => attempt)).toEqual([1, 2, 3, 1]);
    expect(() => t.crash({ step: charge, when: "sometimes" as never })).toThrow(/must be one of before, after, committed/);
    expect(() => t.crash({ step: charge, when: "after", attempt: 0 })).toThrow(InvalidInputError);
  });

  test("a restart keeps sleeps, hooks and completed steps", async () => {
    const t = await runner();
    withProvider(t);
    const long = workflow("steps: long", async () => {
      const { chargeId } = await charge(order);
      await sleep("1d");
      using hook = createHook<string>({ token: "go" });
      return [chargeId, await hook];
    });
    const run = await t.start(long);
    const { until } = await t.waitForSleep(run);
    await t.restart();
    expect((await t.waitForSleep(run)).until).toEqual(until);
    await t.advance("1d");
    const hook = await t.waitForHook(run);
    await t.restart();
    await hook.resume("gone");
    expect(await t.result(run)).toEqual(["ch_o1", "gone"]);
    t.expectCalls(charge, 1);
    await t.expectReplay(run);
  });

  test("steps that the dead worker had not begun do not begin, and its code does not continue", async () => {
    const t = await runner();
    const reached: string[] = [];
    const both = workflow("steps: both", async () => {
      await Promise.all([charge(order), mail("x")]);
      reached.push("steps done");
      await sleep(500);
      reached.push("slept");
    });
    t.crash({ step: charge, when: "before" });
    const run = await t.start(both);
    await t.waitForSleep(run);
    // The mail would have begun right after the charge.
    expect([t.calls(charge), t.calls(mail)].map((calls) => calls.map(({ attempt }) => attempt))).toEqual([[2], [2]]);
    // A sleep of half a second waits in memory: the timer of the dead worker must not fire.
    await t.restart();
    await t.advance("1m");
    await t.result(run);
    expect(reached).toEqual(["steps done", "steps done", "slept"]);
  });

  test("reconcile is called for an attempt that died", async () => {
    const t = await runner();
    const asked: string[] = [];
    const reconcile = async ({ stepId }: { readonly stepId: string }) => {
      // Virtual time must stand still however long reconcile takes.
      await letTimePass(30, "a runner that does not wait for the answer moves its clock meanwhile");
      asked.push(stepId);
      return t.effects.find(stepId) as { found: string } | "absent";
    };
    const pay = step("steps: pay", async () => t.effects.call(getStepMetadata().stepId, { result: "paid" }), {
      effect: "reconcile",
      reconcile,
    });
    const paying = workflow("steps: paying", async () => await pay());
    const crash = t.crash({ step: pay, when: "after" });
    expect(await t.result(await t.start(paying))).toBe("paid");
    expect(crash.happened).toBe(true);
    expect(t.now).toEqual(new Date("2030-01-01T00:00:10.000Z"));
    t.expectCalls(pay, 1);
    expect(asked).toHaveLength(1);
    t.crash({ step: pay, when: "before" });
    expect(await t.result(await t.start(paying))).toBe("paid");
    t.expectCalls(pay, 2);
  });

  test("a crash also ends other runs of the worker, a body that still runs, and a failure that was not saved", async () => {
    const t = await runner();
    const free = gate<string>();
    const held = step("steps: held", () => free.opened);
    const holding = await t.start(workflow("steps: holding", async () => await held()));
    t.mockStep(charge, () => {
      if (getStepMetadata().attempt === 1) throw new Error("this failure is not saved");
      return { chargeId: "second" };
    });
    t.crash({ step: charge, when: "after" });
    const run = await t.start(fulfil, [order]);
    // The first body belongs to the dead worker; while the second one runs, time stands still.
    await expect.poll(() => t.calls(held).length).toBe(2);
    free.open("free");
    expect([await t.result(holding), await t.result(run)]).toEqual(["free", "second"]);
    t.expectCalls(held, 2);
  });
});

describe("deliverTwice", () => {
  test("delivers every message twice: one run per id, one payload per key", async () => {
    const t = await runner();
    withProvider(t);
    const chat = workflow("steps: chat", async () => {
      using hook = createHook<string>({ token: "chat" });
      const heard: string[] = [];
      for await (const said of hook) if (heard.push(said) && said === "bye") return heard;
      return heard;
    });
    t.deliverTwice();
    const run = await t.start(chat, [], { id: "chat" });
    const hook = await t.waitForHook(run);
    await hook.resume("keyed", { key: "1" });
    await hook.resume("plain");
    await resumeHook("chat", "bye", { key: "2" });
    // A resume without a key is delivered twice.
    expect(await t.result(run)).toEqual(["keyed", "plain", "plain", "bye"]);
    expect(await t.result(await t.start(fulfil, [order], { id: "fulfil" }))).toBe("ch_o1");
    expect((await listRuns()).items.map(({ id }) => id).sort()).toEqual(["chat", "fulfil"]);
    t.expectCalls(charge, 1);
  });

  test("runs a handler twice at the same time and returns both results; with an id there is one run, without an id two", async () => {
    const t = await runner();
    withProvider(t);
    const keyed = async () => (await start({ id: "event-1", workflow: fulfil, input: order })).id;
    expect(await t.deliverTwice(keyed)).toEqual(["event-1", "event-1"]);
    await t.settle();
    t.expectCalls(charge, 1);
    const [one, two] = await t.deliverTwice(async () => (await start(fulfil, [order])).id);
    expect(one).not.toBe(two);
    await t.settle();
    t.expectCalls(charge, 3);
    await expect(t.deliverTwice(() => Promise.reject(new Error("no handler")))).rejects.toThrow("no handler");
  });
});

describe("assertions", () => {
  test("report what they found", async () => {
    const t = await runner({ effects: new EffectLedger({ honoursKeys: false, now: () => 0 }) });
    t.expectCalls(charge, 0);
    t.effects.call("charge:1", { attempt: 1, result: 1 });
    t.effects.call("charge:1", { attempt: 2, result: 1 });
    t.expectEffect("charge:1", { applied: 2 });
    t.expectEffect("charge:2", { applied: 0, calls: 0 });
    const failure = thrown(() => t.expectEffect("charge:1", { applied: 1, calls: 2 }));
    expect(failure).toBeInstanceOf(AssertionError);
    expect(failure).toMatchObject({ actual: { applied: 2, calls: 2 }, expected: { applied: 1, calls: 2 }, operator: "expectEffect" });
    expect(failure.message).toBe(
      [
        'effect "charge:1": expected applied 1, calls 2; got applied 2, calls 2',
        "  attempt  at                        applied",
        "  1        1970-01-01T00:00:00.000Z  yes",
        "  2        1970-01-01T00:00:00.000Z  yes",
      ].join("\n"),
    );
    expect(thrown(() => t.expectEffect("charge:2", { calls: 1 })).message).toContain("other keys: charge:1");
    await t.result(await t.start(fulfil, [order]));
    const calls = thrown(() => t.expectCalls(mail, 2));
    expect(calls).toMatchObject({ actual: 1, expected: 2 });
    expect(calls.message).toMatch(
      /^step "steps: mail": expected 2 executions, got 1\n {2}run +stepId +attempt +at +arguments\n {2}run-1 +step_\S+ +1 +2030-01-01T00:00:00.000Z +\[ 'o1' \]$/,
    );
    expect(thrown(() => t.expectCalls(charge, 0)).message).toContain("expected 0 executions, got 1");
    expect(() => t.expectCalls(charge, -1)).toThrow(InvalidInputError);
    expect(() => t.expectEffect("x", {})).toThrow(InvalidInputError);
  });

  test("expectReplay reports a replay whose requests differ from the journal", async () => {
    const t = await runner();
    let version = 1;
    const changing = workflow("steps: changing", async () => {
      if (version === 1) await mail("a");
      else await charge(order);
      await sleep("1h");
      return version;
    });
    const run = await t.start(changing);
    await t.waitForSleep(run);
    await t.expectReplay(run);
    version = 2;
    await expect(t.expectReplay(run)).rejects.toThrow(
      /the replay of run "run-1" differs from its journal\nreplay: .*diverged.*steps: mail/s,
    );
    version = 1;
    await t.wakeUp(run);
    await t.expectReplay(run);
    version = 3;
    const end = workflow("steps: ending", async () => version);
    const ended = await t.start(end);
    await t.result(ended);
    version = 4;
    await expect(t.expectReplay(ended)).rejects.toThrow(/replay: completed with 4\njournal: completed with 3/);
    const failing = await t.start(
      workflow("steps: failing", async () => {
        throw new FatalError(`version ${version}`);
      }),
    );
    await t.settle();
    await t.expectReplay(failing);
  });
});

function thrown(work: () => unknown): Error {
  try {
    work();
  } catch (error) {
    return error as Error;
  }
  throw new Error("nothing was thrown");
}
