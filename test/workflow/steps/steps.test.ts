import {
  createHook,
  FatalError,
  getStepMetadata,
  getWorkflowMetadata,
  RetryableError,
  RunFailedError,
  type StepOptions,
  step,
  workflow,
} from "onceflow/workflow";
import { readAttempts, readJournal, resumeHook, start } from "onceflow/workflow/api";
import { describe, expect, test as plain } from "vitest";
import { gate } from "../../kit/gate.js";
import { letTimePass } from "../../kit/real-time.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { settled, until } from "../../kit/until.js";
import { quick, story, untilReleased } from "../scene.js";

onStores("steps", everyStore, (test) => {
  test("metadata can be returned, without its signal; every attempt has the start time of the first one", async ({ scene }) => {
    const seen: Date[] = [];
    const tell = step(
      "tell",
      async () => {
        const metadata = getStepMetadata();
        seen.push(metadata.stepStartedAt);
        if (metadata.attempt < 3) throw new Error("again");
        return { metadata, signal: metadata.signal instanceof AbortSignal };
      },
      { backoff: { minMs: 20, maxMs: 20 } },
    );
    const run = workflow(scene.name("run"), async () => await tell());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    const { metadata, signal } = await started.returnValue;
    const [first, last] = (await readAttempts(started.id, metadata.stepId, { store })).filter(({ attempt }) => attempt !== 2);
    expect(metadata).toEqual({ stepId: expect.any(String), stepName: "tell", stepStartedAt: first?.startedAt, attempt: 3 });
    expect(signal).toBe(true);
    expect(new Set(seen.map(Number)).size).toBe(1);
    expect(Number(last?.startedAt)).toBeGreaterThan(Number(first?.startedAt));
  });

  test("the stack of a caught error has the frames of the step, live and after a replay", async ({ scene }) => {
    const thrower = step("thrower", async () => failDeepInside(), { maxRetries: 1, ...quick });
    const fatal = step("fatal", async () => failForGood());
    const run = workflow(scene.name("run"), async () => {
      const stacks: (string | undefined)[] = [];
      for (const call of [thrower, fatal]) await call().catch((error: Error) => stacks.push(error.stack));
      await createHook({ token: "go" });
      return stacks;
    });
    const { store, worker } = await scene.work();
    const started = await start(run, [], { store });
    await untilReleased(store, started.id);
    await until("it has left memory", () => !worker.has(started.id));
    await resumeHook("go", null, { store });
    const [exhausted, final] = await started.returnValue;
    expect(exhausted).toMatch(/^FatalError: step "thrower" failed after 2 attempts: deep inside\n {4}at failDeepInside .*steps\.test\.ts/);
    expect(final).toMatch(/^FatalError: for good\n {4}at failForGood .*steps\.test\.ts/);
  });

  test("a plain error is retried until an attempt succeeds", async ({ scene }) => {
    const attempts: number[] = [];
    const flaky = step(
      "flaky",
      async () => {
        attempts.push(getStepMetadata().attempt);
        if (attempts.length < 3) throw new Error("not yet");
        return "done";
      },
      quick,
    );
    const run = workflow(scene.name("run"), async () => await flaky());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    expect(await started.returnValue).toBe("done");
    expect(attempts).toEqual([1, 2, 3]);
    expect(await story(store, started.id)).toEqual([
      "step flaky#0",
      "fail flaky#0",
      "step flaky#0",
      "fail flaky#0",
      "step flaky#0",
      "done flaky#0",
      "end completed",
    ]);
  });

  test("3 retries by default, then FatalError with the last error as its cause", async ({ scene }) => {
    let calls = 0;
    const broken = step(
      "broken",
      async () => {
        calls += 1;
        throw Object.assign(new TypeError(`failure ${calls}`), { code: "E_BROKEN" });
      },
      quick,
    );
    const run = workflow(scene.name("run"), async () => {
      const error = await thrownBy(broken());
      expect(error).toBeInstanceOf(FatalError);
      expect(FatalError.is(error)).toBe(true);
      return [error.message, (error.cause as Error).name, (error.cause as Error).message, (error.cause as { code?: string }).code];
    });
    const { store } = await scene.work();
    const [message, ...cause] = (await (await start(run, [], { store })).returnValue) as string[];
    expect(calls).toBe(4);
    expect(message).toContain('step "broken" failed after 4 attempts: failure 4');
    expect(cause).toEqual(["TypeError", "failure 4", "E_BROKEN"]);
  });

  test("an uncaught failure fails the run with RunFailedError, whose cause is the step's FatalError", async ({ scene }) => {
    const broken = step("broken", async () => Promise.reject(new Error("no")), { maxRetries: 0 });
    const run = workflow(scene.name("run"), async () => await broken());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    const error = await thrownBy(started.returnValue);
    expect(error).toBeInstanceOf(RunFailedError);
    expect((error.cause as Error).name).toBe("FatalError");
    expect(((error.cause as Error).cause as Error).message).toBe("no");
    expect(await started.status).toBe("failed");
  });

  test("FatalError is not retried and keeps its message", async ({ scene }) => {
    let calls = 0;
    const fatal = step("fatal", async () => {
      calls += 1;
      throw new FatalError("card stolen", { cause: new Error("bank says so") });
    });
    const run = workflow(scene.name("run"), async () => {
      const error = await thrownBy(fatal());
      return [error.message, FatalError.is(error), (error.cause as Error).message];
    });
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toEqual(["card stolen", true, "bank says so"]);
    expect(calls).toBe(1);
  });

  test("maxRetries 0 is one attempt, set by option, by fn.maxRetries or by fn.options", async ({ scene }) => {
    const calls = { option: 0, property: 0, options: 0, twice: 0 };
    const fail = (name: keyof typeof calls) => async () => {
      calls[name] += 1;
      throw new Error(name);
    };
    const option = step("option", fail("option"), { maxRetries: 0 });
    const property = step("property", fail("property"), quick);
    property.maxRetries = 0;
    const options = step("options", fail("options"));
    options.options = { maxRetries: 0 };
    const twice = step("twice", fail("twice"), { maxRetries: 7, ...quick });
    twice.maxRetries = 1;
    const run = workflow(scene.name("run"), async () => {
      await Promise.allSettled([option(), property(), options(), twice()]);
    });
    const { store } = await scene.work();
    await (await start(run, [], { store })).returnValue;
    expect(calls).toEqual({ option: 1, property: 1, options: 1, twice: 2 });
  });

  test("RetryableError sets the time of the retry by a number, a text or a date", async ({ scene }) => {
    const soon = new Date(Date.now() + 30);
    const later = (name: string, retryAfter: number | string | Date) =>
      step(name, async () => {
        if (getStepMetadata().attempt === 1) throw new RetryableError("later", { retryAfter });
      });
    const steps = [later("number", 40), later("text", "0.06s"), later("date", soon), later("past", new Date(0))];
    const run = workflow(scene.name("run"), async () => void (await Promise.all(steps.map((each) => each()))));
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    await started.returnValue;
    const items = await readJournal(started.id, { store });
    const failure = (id: string) => items.find((item) => item.type === "fail" && item.id === id);
    const retryAt = (id: string) => Number(failure(id)?.detail[2]);
    expect(retryAt("number#0") - Number(failure("number#0")?.at)).toBe(40);
    expect(retryAt("text#0") - Number(failure("text#0")?.at)).toBe(60);
    expect(retryAt("date#0")).toBe(Number(soon));
    expect(retryAt("past#0")).toBe(0);
    for (const id of ["number#0", "text#0", "date#0"]) {
      const again = items.find((item) => item.type === "step" && item.id === id && item.attempt === 2);
      expect(Number(again?.at)).toBeGreaterThanOrEqual(retryAt(id));
    }
  });

  test("a RetryableError with an invalid time is retried by the policy and does not end the process", async ({ scene }) => {
    let calls = 0;
    const odd = step(
      "odd",
      async () => {
        calls += 1;
        if (calls === 1) throw new RetryableError("later", { retryAfter: "soon" });
        return calls;
      },
      quick,
    );
    const run = workflow(scene.name("run"), async () => await odd());
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toBe(2);
  });

  test("the delay before a retry is journaled: it grows by its factor up to the maximum, minus the jitter", async ({ scene }) => {
    const growing = step("growing", async () => Promise.reject(new Error("no")), {
      maxRetries: 5,
      backoff: { minMs: 4, factor: 3, maxMs: 40, jitter: 0 },
    });
    const jittered = step("jittered", async () => Promise.reject(new Error("no")), {
      maxRetries: 8,
      backoff: { minMs: 20, factor: 1, maxMs: 20, jitter: 0.5 },
    });
    const run = workflow(scene.name("run"), async () => void (await Promise.allSettled([growing(), jittered()])));
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    await started.returnValue;
    const items = await readJournal(started.id, { store });
    const waits = (id: string) =>
      items
        .filter((item) => item.type === "fail" && item.id === id && item.detail[2] !== null)
        .map((item) => Number(item.detail[2]) - Number(item.at));
    expect(waits("growing#0")).toEqual([4, 12, 36, 40, 40]);
    expect(waits("jittered#0")).toHaveLength(8);
    for (const ms of waits("jittered#0")) expect(ms).toSatisfy((wait: number) => wait >= 10 && wait <= 20);
    expect(new Set(waits("jittered#0")).size).toBeGreaterThan(1);
  });

  test("a timeout aborts the signal, waits for the grace, and counts as a failed attempt", async ({ scene }) => {
    const seen: string[] = [];
    const slow = step(
      "slow",
      async () => {
        const { signal, attempt } = getStepMetadata();
        if (attempt === 2) return "in time";
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        seen.push(`aborted: ${(signal.reason as Error).name}`);
        await letTimePass(20, "a retry that does not wait for the grace begins meanwhile");
        seen.push("ended");
        throw new Error("stopped");
      },
      { timeoutMs: 20, graceMs: 10_000, ...quick },
    );
    const run = workflow(scene.name("run"), async () => await slow());
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    expect(await started.returnValue).toBe("in time");
    expect(seen).toEqual(["aborted: TimeoutError", "ended"]);
    const [first] = await readAttempts(started.id, (await readJournal(started.id, { store }))[0]?.stepId ?? "", { store });
    expect(first).toMatchObject({ verdict: "failed", how: "timeout" });
  });

  test("a success within the grace counts: nothing is called again", async ({ scene }) => {
    let calls = 0;
    const late = step(
      "late",
      async () => {
        calls += 1;
        const { signal } = getStepMetadata();
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        await settled();
        return "late, but done";
      },
      { timeoutMs: 10, graceMs: 10_000, ...quick },
    );
    const run = workflow(scene.name("run"), async () => await late());
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toBe("late, but done");
    expect(calls).toBe(1);
  });

  test("a body that does not stop within its grace is abandoned: the retry begins, and the late result is dropped", async ({ scene }) => {
    const free = gate();
    let calls = 0;
    const stubborn = step(
      "stubborn",
      async () => {
        calls += 1;
        if (calls === 1) {
          await free.opened;
          return "first";
        }
        return "second";
      },
      { timeoutMs: 10, graceMs: 10, ...quick },
    );
    const after = step("after", async () => {
      free.open();
      await settled();
    });
    const run = workflow(scene.name("run"), async () => {
      const result = await stubborn();
      await after();
      return result;
    });
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toBe("second");
    expect(calls).toBe(2);
  });
});

describe("steps without a workflow", () => {
  plain("a step is a plain function: no retries, and the error as it was thrown", async () => {
    let calls = 0;
    const failure = new TypeError("as it is");
    const broken = step("broken", async () => {
      calls += 1;
      throw failure;
    });
    const add = step("add", (a: number, b: number) => a + b);
    expect(await add(1, 2)).toBe(3);
    expect(await thrownBy(broken())).toBe(failure);
    expect(calls).toBe(1);
    expect(() => getStepMetadata()).toThrow(/only be used in a step/);
    expect(() => getWorkflowMetadata()).toThrow(/only be used in a workflow or a step/);
  });

  plain("a workflow that is called is a plain function, too", async () => {
    const add = step("add", async (a: number, b: number) => a + b);
    const sum = workflow("sum of three", async (a: number, b: number, c: number) => await add(await add(a, b), c));
    expect(await sum(1, 2, 3)).toBe(6);
  });

  plain("invalid options are refused by name when the step is defined", () => {
    const define = (options: object) => () => step("bad", async () => 1, options as StepOptions);
    expect(define({ maxRetries: -1 })).toThrow(/step "bad": maxRetries/);
    expect(define({ maxRetries: 1.5 })).toThrow(/maxRetries/);
    expect(define({ crashMax: -1 })).toThrow(/crashMax/);
    expect(define({ timeoutMs: -1 })).toThrow(/timeoutMs/);
    expect(define({ backoff: { minMs: -1 } })).toThrow(/backoff.minMs/);
    expect(define({ backoff: { factor: 0.5 } })).toThrow(/backoff.factor/);
    expect(define({ backoff: { jitter: 2 } })).toThrow(/backoff.jitter/);
    expect(define({ effect: "maybe" })).toThrow(/effect/);
    expect(define({ effect: "reconcile" })).toThrow(/reconcile/);
    expect(define({ reconcile: () => "absent" })).toThrow(/reconcile/);
    expect(define({ key: "x" })).toThrow(/key/);
    expect(() => step("", async () => 1)).toThrow(/name/);
    expect(() => step("a#1", async () => 1)).toThrow(/name/);
    expect(() => step("a", 1 as never)).toThrow(/needs a function/);
  });
});

function failDeepInside(): never {
  throw new Error("deep inside");
}

function failForGood(): never {
  throw new FatalError("for good");
}
