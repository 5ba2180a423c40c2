import {
  create,
  Flow,
  type FlowContext,
  type FlowPlugin,
  FlowValidationError,
  OnceflowError,
  OrchestrixError,
  StepAlreadyExistsError,
  StepTimeoutError,
} from "onceflow/flow";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { fail } from "./failing-step.js";

describe("steps", () => {
  test("run one after the other and pass on the values they set", async () => {
    const seen: unknown[] = [];
    const flow = create<{ amount: number }>("order")
      .step("reserve", async (ctx) => ctx.set("reserved", ctx.input.amount * 2))
      .step("charge", (ctx) => void seen.push(ctx.get<number>("reserved"), ctx.has("reserved"), ctx.has("nothing"), ctx.get("nothing")));
    const result = await flow.run({ amount: 21 });
    expect(seen).toEqual([42, true, false, undefined]);
    expect(result).toMatchObject({ name: "order", status: "completed" });
    expect(result.steps).toMatchObject([
      { name: "reserve", status: "completed", attempts: 1 },
      { name: "charge", status: "completed", attempts: 1 },
    ]);
    expect(result).not.toHaveProperty("error");
    expect(result).not.toHaveProperty("compensations");
    expect(result.durationMs).toBeGreaterThanOrEqual(0);
  });

  test("a flow without steps completes", async () => {
    expect(await new Flow("empty").run(undefined)).toMatchObject({ name: "empty", status: "completed", steps: [] });
  });

  test("names are unique, also in parallel stages, and a refused stage leaves the flow unchanged", async () => {
    const flow = create("order").step("a", () => {});
    expect(() => flow.step("a", () => {})).toThrow(StepAlreadyExistsError);
    expect(() => flow.parallel("a", [{ name: "b", fn: () => {} }])).toThrow('flow "order" already has a step "a"');
    const twins = ["c", "c"].map((name) => ({ name, fn: () => {} }));
    expect(() => flow.parallel("p", twins)).toThrow(StepAlreadyExistsError);
    const names = (await flow.step("c", () => {}).run(undefined)).steps.map(({ name }) => name);
    expect(names).toEqual(["a", "c"]);
  });

  test.each([
    ["", () => {}, {}, /name/],
    ["line\nbreak", () => {}, {}, /name/],
    ["a", "no function", {}, /fn/],
    ["a", () => {}, { retries: -1 }, /retries/],
    ["a", () => {}, { retries: 1.5 }, /retries/],
    ["a", () => {}, { timeoutMs: 0 }, /timeoutMs/],
    ["a", () => {}, { retryDelayMs: Number.NaN }, /retryDelayMs/],
    ["a", () => {}, { backoffFactor: "quadratic" }, /backoffFactor/],
    ["a", () => {}, { jitter: "full" }, /jitter/],
    ["a", () => {}, { compensate: true }, /compensate/],
  ])("step(%j, …, %j) is refused with the option's name", (name, fn, options, message) => {
    expect(() => create("order").step(name, fn as () => void, options as object)).toThrow(message);
  });

  test("a failure is returned as the same object, and later steps do not run", async () => {
    const error = new TypeError("declined");
    const later = vi.fn();
    const result = await create("order")
      .step("charge", () => Promise.reject(error))
      .step("ship", later)
      .run(undefined);
    expect(result.status).toBe("failed");
    expect(result.error).toBe(error);
    expect(result.steps).toMatchObject([{ name: "charge", status: "failed", attempts: 1 }]);
    expect(result.steps[0]?.error).toBe(error);
    expect(later).not.toHaveBeenCalled();
  });

  test("a thrown value need not be an error", async () => {
    const result = await create("order")
      .step("charge", () => Promise.reject("no"))
      .run(undefined);
    expect(result).toMatchObject({ status: "failed", error: "no" });
  });
});

describe("retries", () => {
  test("run as often as configured, each with its attempt number", async () => {
    const attempts: number[] = [];
    const flow = create("order").step(
      "charge",
      (ctx) => {
        attempts.push(ctx.attempt);
        if (ctx.attempt < 3) throw new Error("later");
      },
      { retries: 2 },
    );
    expect((await flow.run(undefined)).steps).toMatchObject([{ status: "completed", attempts: 3 }]);
    expect(attempts).toEqual([1, 2, 3]);
    const never = await create("order").step("charge", fail("never"), { retries: 2 }).run(undefined);
    expect(never).toMatchObject({ status: "failed", steps: [{ attempts: 3 }] });
  });

  test("wait between attempts", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const delays: number[] = [];
    const plugin: FlowPlugin = {
      name: "delays",
      onEvent: (event) => void (event.type === "stepRetry" && delays.push(event.delayMs)),
    };
    const options = { retries: 4, retryDelayMs: 4, backoffFactor: "exponential", maxRetryDelayMs: 20 } as const;
    const running = create("order", { plugins: [plugin] })
      .step("charge", fail("never"), options)
      .run(undefined);
    await vi.runAllTimersAsync();
    expect(delays).toEqual([4, 8, 16, 20]);
    expect((await running).durationMs).toBe(48);
  });
});

describe("timeouts", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());
  // biome-ignore lint/style/noRestrictedGlobals: the timers are vitest's, which the tests advance
  const takes = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

  test("end an attempt, abort its signal, and count as a failure", async () => {
    const signals: AbortSignal[] = [];
    const flow = create("order").step(
      "charge",
      (ctx) => {
        signals.push(ctx.signal);
        return new Promise((_, reject) => ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason)));
      },
      { timeoutMs: 15, retries: 1 },
    );
    const running = flow.run(undefined);
    await vi.advanceTimersByTimeAsync(30);
    const { status, error, steps } = await running;
    expect([status, steps[0]?.attempts]).toEqual(["failed", 2]);
    expect(error).toBeInstanceOf(StepTimeoutError);
    expect(error).toMatchObject({ name: "StepTimeoutError", step: "charge", timeoutMs: 15, message: expect.stringContaining("timed out") });
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
  });

  test("a retry waits until the late body has ended", async () => {
    let running = 0;
    let most = 0;
    const body = async () => {
      running += 1;
      most = Math.max(most, running);
      await takes(40);
      running -= 1;
      throw new Error("too late anyway");
    };
    const flow = create("order").step("charge", body, { timeoutMs: 5, retries: 2 }).run(undefined);
    await vi.advanceTimersByTimeAsync(120);
    expect(await flow).toMatchObject({ steps: [{ attempts: 3 }] });
    expect(most).toBe(1);
  });

  test("a success within the grace completes the step if a retry would follow, and is kept as evidence if none does", async () => {
    const late = () => takes(30);
    const run = async (retries: number) => {
      const running = create("order").step("charge", late, { timeoutMs: 5, retries }).run(undefined);
      await vi.advanceTimersByTimeAsync(30);
      return await running;
    };
    expect(await run(1)).toMatchObject({ status: "completed", steps: [{ attempts: 1 }] });
    expect(await run(0)).toMatchObject({ status: "failed", steps: [{ attempts: 1, succeededLate: true }] });
  });

  test("a retry waits no longer than the grace", async () => {
    const running = create("order")
      .step("charge", () => new Promise(() => {}), { timeoutMs: 5, graceMs: 20 })
      .run(undefined);
    await vi.advanceTimersByTimeAsync(25);
    const result = await running;
    expect(result.error).toBeInstanceOf(StepTimeoutError);
    expect(result.durationMs).toBe(25);
  });
});

describe("parallel", () => {
  test("its steps run in parallel, and the next stage waits for all of them", async () => {
    const order: string[] = [];
    let arrived = 0;
    const both = () => {
      arrived += 1;
      if (arrived === 2) release();
      return gate;
    };
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const flow = create("order")
      .parallel("notify", [
        { name: "mail", fn: () => both().then(() => order.push("mail")) },
        { name: "text", fn: () => both().then(() => order.push("text")) },
      ])
      .step("ship", () => void order.push("ship"));
    const result = await flow.run(undefined);
    expect(order).toEqual(["mail", "text", "ship"]);
    expect(result.steps.map(({ name }) => name)).toEqual(["mail", "text", "ship"]);
  });

  test("a failure of some steps does not fail the flow, and is reported", async () => {
    const flow = create("order")
      .parallel("notify", [
        { name: "mail", fn: fail("no mail") },
        { name: "text", fn: () => {} },
      ])
      .step("ship", () => {});
    expect(await flow.run(undefined)).toMatchObject({
      status: "completed",
      steps: [
        { name: "mail", status: "failed", error: { message: "no mail" } },
        { name: "text", status: "completed" },
        { name: "ship", status: "completed" },
      ],
    });
  });

  test("if all steps fail, the flow fails with the first failure", async () => {
    const flow = create("order").parallel("notify", [
      { name: "mail", fn: fail("no mail") },
      { name: "text", fn: async () => Promise.reject(new Error("no text")) },
    ]);
    expect(await flow.run(undefined)).toMatchObject({ status: "failed", error: { message: "no mail" } });
  });

  test("failFast: one failure aborts the other steps, fails the flow, and compensates completed steps", async () => {
    const undone: string[] = [];
    let aborted: unknown;
    const flow = create("order").parallel(
      "book",
      [
        { name: "hotel", fn: () => {}, options: { compensate: () => void undone.push("hotel") } },
        { name: "flight", fn: async () => Promise.reject(new Error("sold out")) },
        {
          name: "car",
          fn: (ctx: FlowContext) =>
            new Promise((_, reject) => {
              ctx.signal.addEventListener("abort", () => {
                aborted = ctx.signal.reason;
                reject(ctx.signal.reason);
              });
            }),
        },
      ],
      { failFast: true },
    );
    const result = await flow.run(undefined);
    expect(result).toMatchObject({ status: "failed", error: { message: "sold out" } });
    expect(result.steps.map(({ status }) => status)).toEqual(["completed", "failed", "cancelled"]);
    expect(aborted).toBe(result.error);
    expect(undone).toEqual(["hotel"]);
  });

  test("needs at least one step", () => {
    expect(() => create("order").parallel("none", [])).toThrow(/at least one/);
  });
});

describe("schema", () => {
  const positive = {
    "~standard": {
      version: 1,
      vendor: "test",
      validate: (value: unknown) =>
        typeof value === "number" && value > 0
          ? { value: value * 100 }
          : { issues: [{ message: "must be positive", path: ["amount", { key: 0 }] }, { message: "must be a number" }] },
    },
  } as const;

  test("an invalid input gives a failed result with the issues, and no step runs", async () => {
    const body = vi.fn();
    const result = await create<number>("order", { schema: positive }).step("charge", body).run(-1);
    expect(result).toMatchObject({ status: "failed", steps: [] });
    expect(result.error).toBeInstanceOf(FlowValidationError);
    expect(result.error).toMatchObject({
      issues: [{ message: "must be positive" }, {}],
      message: expect.stringContaining("input.amount.0: must be positive"),
    });
    expect(body).not.toHaveBeenCalled();
  });

  test("a valid input is used as the schema returns it", async () => {
    let input: number | undefined;
    await create<number>("order", { schema: positive })
      .step("charge", (ctx) => {
        input = ctx.input;
      })
      .run(3);
    expect(input).toBe(300);
  });

  test("a validator that throws rejects the run", async () => {
    const validate = () => Promise.reject(new Error("no network"));
    const flow = create("order", { schema: { "~standard": { version: 1, vendor: "test", validate } } });
    await expect(flow.run(1)).rejects.toThrow("no network");
  });
});

test("every error of ours has one base class, under both of its names", () => {
  expect(OrchestrixError).toBe(OnceflowError);
  const error = new StepAlreadyExistsError("order", "charge");
  expect(error).toBeInstanceOf(OrchestrixError);
  expect(error.name).toBe("StepAlreadyExistsError");
});
