import { ConfigurationError, inspect, key as keyOf, NotSavedError, once, open, type Store } from "onceflow";
import { create } from "onceflow/flow";
import { step, work, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { thrownBy } from "../../kit/thrown-by.js";
import { until } from "../../kit/until.js";
import { captureWarnings } from "../../kit/warnings.js";
import { effect, effects, expectDoneOnce } from "../counted-effects.js";
import { fastClock } from "../fast-clock.js";
import { answerAgain, answered, answerWith, injectFaults, passingCodes } from "./faults.js";
import { runtimeOf } from "./faulty-flow.js";
import { database, ownPostgres, server } from "./own-postgres.js";

ownPostgres();

injectFaults();

describe.skipIf(!server.ok)("errors of PostgreSQL that do not go away by themselves", () => {
  const clock = fastClock(50);
  let still: Store;

  beforeAll(async () => {
    still = await open(database.url, { stallMsMax: 0, purgeEveryMs: 0, clock });
  });
  afterAll(() => still.close());

  test("each code at a begin: after 10 s the error has the server's code and message", async () => {
    await Promise.all(
      passingCodes.map(async (code) => {
        const name = `begin without end:${code}`;
        answerWith(name, code);
        const startedAt = clock.now();
        const error = await thrownBy(once(still, { key: keyOf.of(name) }, () => effect(name)));
        expect(clock.now() - startedAt, code).toBeGreaterThanOrEqual(9000);
        expect(error).toMatchObject({ retryable: true, message: expect.stringContaining(`${code}: injected answer ${code}`) });
        expect(effects.get(name)).toBeUndefined();
      }),
    );
  });

  test("each code at a settle: NotSavedError after a minute, warnings, and the result is kept once the server accepts it", async () => {
    const warnings = captureWarnings("ONCEFLOW_NOT_SAVED");
    const names = passingCodes.map((code) => [`settle without end:${code}`, code] as const);
    await Promise.all(
      names.map(async ([name, code]) => {
        let startedAt = 0;
        const error = await thrownBy(
          once(still, { key: keyOf.of(name), leaseMs: 600_000 }, () => {
            answerWith(name, code);
            startedAt = clock.now();
            return effect(name);
          }),
        );
        // A timer of Node may end up to a millisecond early, which is 50 ms on this clock.
        expect(clock.now() - startedAt, code).toBeGreaterThanOrEqual(60_000 - 50);
        expect(error).toBeInstanceOf(NotSavedError);
        expect(error.cause).toMatchObject({ message: expect.stringContaining(`${code}: injected answer ${code}`) });
      }),
    );
    const warningsAbout = (name: string) => warnings.filter(({ message }) => message.includes(`key "${name}"`));
    await until("each key has two warnings", () => names.every(([name]) => warningsAbout(name).length >= 2));
    for (const [name, code] of names) {
      expect(warningsAbout(name)[0]?.message).toContain(`${code}: injected answer ${code}`);
      answerAgain(name);
    }
    for (const [name] of names) {
      await until(`${name} is saved`, async () => (await inspect(still, { key: name }))?.state === "completed");
      await expectDoneOnce(still, name);
    }
  });

  test.for(["28P01", "3D000", "3F000", "42501", "42P01"])(
    "%s is a configuration error: reported at once before an effect",
    async (code) => {
      const name = `set-up:${code}`;
      answerWith(name, code);
      const error = await thrownBy(once(still, { key: keyOf.of(name) }, () => effect(name)));
      expect(error).toBeInstanceOf(ConfigurationError);
      expect(error).toMatchObject({ code: "STORE_NOT_USABLE", message: expect.stringContaining(`${code}: injected answer ${code}`) });
      expect(answered.get(name)).toBe(1);
    },
  );

  test("a configuration error after an effect is retried until it is corrected", async () => {
    const name = "set-up after an effect";
    const saving = once(still, { key: keyOf.of(name), leaseMs: 600_000 }, () => {
      answerWith(name, "42501");
      return effect(name);
    });
    await until("the settle has failed a few times", () => (answered.get(name) ?? 0) > 3);
    answerAgain(name);
    expect(await saving).toMatchObject({ status: "executed" });
    await expectDoneOnce(still, name);
  });

  test("a journal entry that keeps failing: the run continues once the server accepts it, and its step has run once", async () => {
    const warnings = captureWarnings("ONCEFLOW_NOT_SAVED");
    const charge = step("charge without end", async (name: string) => {
      answerWith(name, "25006");
      return effect(name);
    });
    const order = workflow("order without end", async (name: string) => await charge(name));
    const worker = await work(still, { workflows: [order], leaseMs: 600_000 });
    onTestFinished(() => worker.stop({ graceMs: 0 }));
    const name = "journal without end";
    const run = await start(order, [name], { id: name, store: still });
    const warningsAboutRun = () => warnings.filter(({ message }) => message.includes(`run "${name}"`));
    await until("the run has two warnings", () => warningsAboutRun().length >= 2);
    expect(warningsAboutRun()[0]?.message).toContain("25006: injected answer 25006");
    answerAgain(name);
    expect(await run.returnValue).toBe(`done ${name}`);
    expect(effects.get(name)).toBe(1);
  });

  test("a settled packet and a trigger that keep failing: the node is called once, and the trigger's error has the server's code", async () => {
    const warnings = captureWarnings("ONCEFLOW_NOT_SAVED");
    const runtime = await runtimeOf(still);
    onTestFinished(() => runtime.stop({ graceMs: 0 }));
    const name = "packet without end";
    const { executionId = "" } = await runtime.trigger("flow", undefined, { name, code: "57014" });
    const warningsAboutExecution = () => warnings.filter(({ message }) => message.includes(executionId));
    await until("the execution has two warnings", () => warningsAboutExecution().length >= 2);
    expect(warningsAboutExecution()[0]?.message).toContain("57014: injected answer 57014");
    answerWith("trigger without end", "25006");
    const error = await thrownBy(runtime.trigger("flow", undefined, { name: "trigger without end" }));
    expect(error.message).toContain("25006: injected answer 25006");
    answerAgain(`${name} sent on`);
    expect((await runtime.wait(executionId, { timeoutMs: 3_000_000 })).status).toBe("completed");
    expect([effects.get(name), effects.get(`${name} sent on`)]).toEqual([1, 1]);
  });

  test("a start that keeps failing: the error has the server's code, also in a process with a worker", async () => {
    const order = workflow("order that cannot start", async (_: string) => 1);
    const worker = await work(still, { workflows: [order] });
    onTestFinished(() => worker.stop({ graceMs: 0 }));
    const name = "start without end";
    answerWith(name, "57014");
    const startedAt = clock.now();
    const error = await thrownBy(start(order, [name], { id: name, store: still }));
    expect(clock.now() - startedAt).toBeGreaterThanOrEqual(9000);
    expect(error.message).toContain("57014: injected answer 57014");
    expect(worker.running).toBe(0);
    answerAgain(name);
    expect(await (await start(order, [name], { id: name, store: still })).returnValue).toBe(1);
  });

  test("a caller of a keyed flow gets NotSavedError after a minute, and the flow continues once the server accepts its progress", async () => {
    const name = "flow without end";
    const flowOf = create<{ readonly name: string }>("charge and ship", { idempotency: still })
      .step("charge", () => {
        answerWith(name, "57014");
        effect(name);
      })
      .step("ship", () => void effect(`${name} shipped`));
    const error = await thrownBy(flowOf.run({ name }, { key: name, leaseMs: 600_000 }));
    expect(error).toBeInstanceOf(NotSavedError);
    expect(effects.get(`${name} shipped`)).toBeUndefined();
    answerAgain(name);
    await until("the flow is done", () => effects.get(`${name} shipped`) === 1);
    expect(await flowOf.run({ name }, { key: name })).toMatchObject({ status: "completed" });
    expect([effects.get(name), effects.get(`${name} shipped`)]).toEqual([1, 1]);
  });
});
