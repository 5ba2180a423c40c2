import { stripVTControlCharacters } from "node:util";
import { create, createConsoleLoggerPlugin, type FlowEvent, type FlowPlugin } from "onceflow/flow";
import { describe, expect, test, vi } from "vitest";
import { fail } from "./failing-step.js";

describe("hooks and plugins", () => {
  test("are called in order: config hooks before plugins, once for each event", async () => {
    const reported: string[] = [];
    const listener = (who: string) => ({
      onFlowStart: () => void reported.push(`${who} flowStart`),
      onFlowComplete: () => void reported.push(`${who} flowComplete`),
      onFlowFail: ({ result }: { result: { status: string } }) => void reported.push(`${who} flowFail ${result.status}`),
      onStepStart: ({ step }: { step: string }) => void reported.push(`${who} stepStart ${step}`),
      onStepComplete: ({ step, attempts }: { step: string; attempts: number }) =>
        void reported.push(`${who} stepComplete ${step} ${attempts}`),
      onStepFail: ({ step }: { step: string }) => void reported.push(`${who} stepFail ${step}`),
      onCompensate: ({ step }: { step: string }) => void reported.push(`${who} compensate ${step}`),
      onCompensateComplete: ({ step }: { step: string }) => void reported.push(`${who} compensateComplete ${step}`),
    });
    const config = {
      hooks: listener("hooks"),
      plugins: [
        { name: "a", ...listener("a") },
        { name: "b", ...listener("b") },
      ],
    };
    await create("order", config)
      .step("charge", () => {}, { compensate: () => {} })
      .step("ship", fail("no ship"))
      .run(undefined);
    const events = ["flowStart", "stepStart charge", "stepComplete charge 1", "stepStart ship", "stepFail ship"];
    const back = ["compensate charge", "compensateComplete charge", "flowFail failed"];
    expect(reported).toEqual([...events, ...back].flatMap((event) => ["hooks", "a", "b"].map((who) => `${who} ${event}`)));
  });

  test("every event names its flow and step, and has the run's input and context", async () => {
    const reported: unknown[][] = [];
    const plugin: FlowPlugin = {
      name: "all",
      onEvent: (event) => {
        const { type, flow, flowName, input, context } = event;
        const { step, stepName } = { step: undefined, stepName: undefined, ...event };
        expect([flowName, stepName]).toEqual([flow, step]);
        reported.push([type, flowName, stepName, input, context.input, context.get("charge")]);
        if (type === "flowStart") context.set("by hook", true);
      },
    };
    const result = await create<number>("order", { plugins: [plugin] })
      .step("charge", (ctx) => ctx.set("charge", ctx.has("by hook")), { compensate: () => {} })
      .step("ship", fail("no ship"))
      .run(7);
    expect(result.status).toBe("failed");
    const of = (type: string, step: string | undefined, charge: unknown) => [type, "order", step, 7, 7, charge];
    expect(reported).toEqual([
      of("flowStart", undefined, undefined),
      of("stepStart", "charge", undefined),
      of("stepComplete", "charge", true),
      of("stepStart", "ship", true),
      of("stepFail", "ship", true),
      of("compensate", "charge", true),
      of("compensateComplete", "charge", true),
      of("flowFail", undefined, true),
    ]);
  });

  test("a hook that throws does not affect the run, and causes a warning", async () => {
    const warned = new Promise<Error>((resolve) => void process.once("warning", resolve));
    const hooks = { onStepStart: fail("bad hook"), onFlowComplete: () => Promise.reject(new Error("bad hook")) };
    const result = await create("order", { hooks })
      .step("charge", () => {})
      .run(undefined);
    expect(result.status).toBe("completed");
    expect(await warned).toMatchObject({ code: "ONCEFLOW_FLOW_HOOK", message: expect.stringContaining("bad hook") });
  });

  test("start() gives events as they happen to every consumer, and the result", async () => {
    const run = create("order")
      .step("charge", () => {}, { retries: 1 })
      .step("ship", fail("no ship"), { retries: 1 })
      .start(undefined);
    const types = async () => {
      const all: string[] = [];
      for await (const { type } of run) all.push(type);
      return all;
    };
    const expected = [
      "flowStart",
      "stepStart",
      "stepComplete",
      "stepStart",
      "stepRetry",
      "stepFail",
      "flowFail",
    ] satisfies FlowEvent["type"][];
    expect(await Promise.all([types(), types()])).toEqual([expected, expected]);
    expect(await run.result).toMatchObject({ status: "failed" });
    expect(await types()).toEqual(expected);
  });

  test("start() of a run that is refused: its events end with the error", async () => {
    const run = create("order").start(undefined, { key: "" });
    await expect(run.result).rejects.toThrow(/key/);
    await expect(
      (async () => {
        for await (const _ of run);
      })(),
    ).rejects.toThrow(/key/);
  });
});

describe("logging", () => {
  const lines = (isTTY = false) => {
    const written: string[] = [];
    return { written, stream: { isTTY, write: (text: string) => void written.push(text) } };
  };

  const story = (plugin: FlowPlugin) =>
    create("order", { plugins: [plugin] })
      .step("charge", (ctx) => (ctx.attempt < 3 ? Promise.reject(new Error("later")) : undefined), { retries: 2, compensate: () => {} })
      .step("ship", fail("no\n\u001b[31mship"));

  test("uses the console at the time of the line, so that tools that replace the console see it", async () => {
    const flow = create("order", { logging: { prefix: "shop" } }).step("charge", () => {});
    const log = vi.spyOn(console, "log").mockImplementation(() => {});
    await flow.run(undefined);
    const written = log.mock.calls.map((line) => stripVTControlCharacters(line.join(" ")));
    log.mockRestore();
    expect(written).toEqual(["[shop] RUNNING order", "[shop] ✔ charge", "[shop] SUCCESS order"]);
  });

  test("is plain if the output is piped, with a line for every event", async () => {
    const { written, stream } = lines();
    await story(createConsoleLoggerPlugin({ prefix: "shop", stream })).run(undefined);
    expect(written.join("")).toBe(
      ["RUNNING order", "✔ charge (2 retries)", "✘ ship no ship", "↺ Compensating: charge", "FAILURE order", ""]
        .join("\n[shop] ")
        .replace(/^/, "[shop] ")
        .replace(/\[shop\] $/, ""),
    );
  });

  test("is coloured on a terminal, unless NO_COLOR is set", async () => {
    const colored = lines(true);
    await story(createConsoleLoggerPlugin({ stream: colored.stream })).run(undefined);
    expect(colored.written[0]).toBe("\u001b[36mRUNNING\u001b[39m order\n");
    vi.stubEnv("NO_COLOR", "1");
    const plain = lines(true);
    await story(createConsoleLoggerPlugin({ stream: plain.stream })).run(undefined);
    vi.unstubAllEnvs();
    expect(plain.written[0]).toBe("RUNNING order\n");
  });

  test("logging: true and { prefix } write to the console; enabled: false does not", async () => {
    const write = vi.spyOn(console, "log").mockImplementation(() => {});
    for (const logging of [true, { prefix: "p" }, { enabled: false, prefix: "q" }, false])
      await create("order", { logging }).run(undefined);
    const written = write.mock.calls.map(([text]) => String(text));
    write.mockRestore();
    expect(written.map((line) => stripVTControlCharacters(line))).toEqual([
      "RUNNING order",
      "SUCCESS order",
      "[p] RUNNING order",
      "[p] SUCCESS order",
    ]);
  });

  test("intercept tags the console output of a step, and nothing else", async () => {
    const log = vi.spyOn(console, "log").mockImplementation(() => {});
    const plugin = createConsoleLoggerPlugin({ prefix: "shop", intercept: true, stream: { write: () => {} } });
    const flow = create("order", { plugins: [plugin] }).parallel("p", [
      {
        name: "a",
        fn: async () => {
          await null;
          console.log("one", 1);
        },
      },
      { name: "b", fn: () => console.log("two") },
    ]);
    console.log("before");
    await flow.run(undefined);
    console.log("after");
    const calls = log.mock.calls;
    log.mockRestore();
    expect(calls).toEqual([["before"], ["[shop] [b] →", "two"], ["[shop] [a] →", "one", 1], ["after"]]);
  });
});
