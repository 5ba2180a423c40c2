import { describe, expect, test } from "vitest";
import { ManualClock } from "../testing/contract/manual-clock.js";
import { Definition, type StepFunction, type StepOptions } from "./definition.js";
import { StepTimeoutError } from "./errors.js";
import { type ExecutionOptions, FlowExecution, type Ledger } from "./execution.js";
import type { Progress } from "./progress.js";
import type { FlowResult } from "./result.js";

type Saved = Omit<Progress, "input">;
interface Given {
  readonly from?: Saved;
  readonly save?: (progress: Saved) => Promise<void>;
  readonly signal?: AbortSignal;
}

/** One execution on a clock that stands still until a test moves it. */
function scene() {
  const clock = new ManualClock();
  const definition = new Definition("order");
  const wait = (ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve));
  const run = ({ from, save, signal }: Given = {}): Promise<FlowResult> => {
    const ledger: Ledger | undefined = save && { lost: new AbortController().signal, save, settle: async () => {} };
    const options: ExecutionOptions = {
      name: "order",
      stages: definition.stages,
      shared: { input: undefined, values: new Map(from?.values), scope: "", key: undefined, runAttempt: 1 },
      ...{ from, emit: undefined, around: undefined, signal, ledger, clock, random: Math.random },
    };
    return new FlowExecution(options).run();
  };
  // Let everything that is ready run first: it may set timers.
  const pass = async (ms: number) => {
    await clock.pass(0);
    await clock.pass(ms);
  };
  const step = (name: string, fn: StepFunction<never>, options?: StepOptions<never>) => definition.step(name, fn, options);
  return { clock, pass, wait, step, run, parallel: definition.parallel.bind(definition) };
}

test("the delay of exponential retries begins with retryDelayMs and doubles: 40, 80, 160", async () => {
  const { clock, pass, step, run } = scene();
  const at: number[] = [];
  const body = () => {
    at.push(clock.now());
    throw new Error("busy");
  };
  step("charge", body, { retries: 3, retryDelayMs: 40, backoffFactor: "exponential" });
  const running = run();
  await pass(1000);
  expect((await running).status).toBe("failed");
  expect(at).toEqual([0, 40, 120, 280]);
});

describe("a step whose body takes longer than timeoutMs", () => {
  test("fails on its last attempt; a late success is recorded, and the step is compensated", async () => {
    const { clock, pass, wait, step, run } = scene();
    const log: string[] = [];
    const body = async (ctx: { signal: AbortSignal }) => {
      ctx.signal.addEventListener("abort", () => log.push(`aborted at ${clock.now()}`));
      await wait(900);
      log.push(`ended at ${clock.now()}`);
    };
    step("charge", body as StepFunction<never>, { timeoutMs: 50, compensate: () => void log.push(`undone at ${clock.now()}`) });
    const running = run();
    await pass(10_000);
    const { status, error, steps, compensations } = await running;
    expect([status, (error as Error).name]).toEqual(["failed", "StepTimeoutError"]);
    expect(steps).toMatchObject([{ name: "charge", status: "failed", attempts: 1, succeededLate: true }]);
    expect(compensations).toEqual([{ name: "charge", status: "completed" }]);
    expect(log).toEqual(["aborted at 50", "ended at 900", "undone at 900"]);
  });

  test("is completed by a late success if a retry would follow", async () => {
    const { pass, wait, step, run } = scene();
    let calls = 0;
    const body = () => {
      calls += 1;
      return wait(900);
    };
    step("charge", body, { timeoutMs: 50, retries: 1 });
    const running = run();
    await pass(10_000);
    expect(await running).toMatchObject({ status: "completed", steps: [{ status: "completed", attempts: 1 }] });
    expect((await running).steps[0]).not.toHaveProperty("succeededLate");
    expect(calls).toBe(1);
  });

  test("is retried or compensated only after the body has ended or graceMs has passed", async () => {
    const { clock, pass, wait, step, run } = scene();
    const log: string[] = [];
    const hang = (ctx: { attempt: number }) => {
      log.push(`attempt ${ctx.attempt} at ${clock.now()}`);
      return ctx.attempt === 1 ? wait(150).then(() => Promise.reject(new Error("late"))) : new Promise(() => {});
    };
    step("reserve", () => {}, { compensate: () => void log.push(`undone at ${clock.now()}`) });
    step("charge", hang as StepFunction<never>, { timeoutMs: 100, graceMs: 200, retries: 1 });
    const running = run();
    await pass(10_000);
    const { error, steps } = await running;
    expect(error).toBeInstanceOf(StepTimeoutError);
    expect(steps[1]).not.toHaveProperty("succeededLate");
    expect(log).toEqual(["attempt 1 at 0", "attempt 2 at 150", "undone at 450"]);
  });

  test("fails if the body blocks the event loop for longer than timeoutMs", async () => {
    const { clock, step, run } = scene();
    // The timer of timeoutMs cannot fire before the body ends.
    const blocking = async () => {
      let now = clock.now();
      clock.now = () => now;
      now += 900;
    };
    step("charge", blocking, { timeoutMs: 50 });
    expect(await run()).toMatchObject({ status: "failed", steps: [{ succeededLate: true }] });
  });

  test("is not retried after the caller cancels: a late success is compensated", async () => {
    const { pass, wait, step, run } = scene();
    const caller = new AbortController();
    const undone: string[] = [];
    step("charge", () => wait(900), { timeoutMs: 50, retries: 3, compensate: () => void undone.push("charge") });
    const running = run({ signal: caller.signal });
    await pass(100);
    caller.abort(new Error("enough"));
    await pass(10_000);
    expect(await running).toMatchObject({ status: "cancelled", error: { message: "enough" }, steps: [{ succeededLate: true }] });
    expect(undone).toEqual(["charge"]);
  });

  test("is compensated by the next process if this one dies after it saved the late success", async () => {
    const { pass, wait, step, run } = scene();
    const undone: string[] = [];
    let calls = 0;
    const body = () => {
      calls += 1;
      return wait(900);
    };
    step("charge", body, { timeoutMs: 50, compensate: () => void undone.push("charge") });
    let saved: Saved | undefined;
    const died = new Error("died");
    const dying = run({
      save: async (progress) => {
        saved = progress;
        throw died;
      },
    }).catch((error: unknown) => error);
    await pass(10_000);
    expect([await dying, undone]).toEqual([died, []]);
    const result = await run({ from: saved as Saved, save: async () => {} });
    expect(result).toMatchObject({ status: "failed", steps: [{ name: "charge", succeededLate: true }] });
    expect([undone, calls]).toEqual([["charge"], 1]);
  });

  test("is compensated when the flow fails in a later stage, after its parallel stage succeeded without it", async () => {
    const { pass, wait, step, parallel, run } = scene();
    const undone: string[] = [];
    parallel(
      "both",
      [
        { name: "late", fn: () => wait(900), options: { timeoutMs: 50, compensate: () => void undone.push("late") } },
        { name: "quick", fn: () => {}, options: { compensate: () => void undone.push("quick") } },
      ],
      {},
    );
    step("ship", () => Promise.reject(new Error("no")));
    const running = run();
    await pass(10_000);
    expect((await running).error).toMatchObject({ message: "no" });
    expect(undone).toEqual(["quick", "late"]);
  });
});
