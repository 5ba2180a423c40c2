import { ConfigurationError, InvalidInputError, key, once, ResultNotKeptError, serializable } from "onceflow";
import { create } from "onceflow/flow";
import { createHook, FatalError, StepNotRegisteredError, step, workflow } from "onceflow/workflow";
import { readJournal, resumeHook, start } from "onceflow/workflow/api";
import { describe, expect, test } from "vitest";
import { decode, encode, encodeLater } from "../../src/core/values/codec.js";
import { gate } from "../kit/gate.js";
import { fc } from "../kit/properties.js";
import { everyStore, onStores, shortMs } from "../kit/scene.js";
import { settled, until } from "../kit/until.js";
import { captureWarnings } from "../kit/warnings.js";
import { untilStatus } from "../workflow/scene.js";
import { anyValue, Money, promptValue, shapeOf } from "./arbitrary-value.js";

serializable("Money", Money, {
  keep: ({ cents, currency }) => ({ cents, currency }),
  make: ({ cents, currency }) => new Money(cents, currency),
});

describe("any value is read back unchanged", () => {
  test("if it is encoded synchronously", async () => {
    await fc.assert(
      fc.asyncProperty(promptValue, async (value) => {
        expect(await shapeOf(decode(encode(value)))).toStrictEqual(await shapeOf(value));
      }),
      { numRuns: 300 },
    );
  });

  test("if bodies are read first, and the original can still be read", async () => {
    await fc.assert(
      fc.asyncProperty(anyValue, async (value) => {
        const copy = decode(await encodeLater(value));
        expect(await shapeOf(copy)).toStrictEqual(await shapeOf(value));
      }),
      { numRuns: 300 },
    );
  });
});

onStores("values", everyStore, (test) => {
  test("any value is read back from a step, a run, its input, a hook and once", async ({ scene }) => {
    const values = fc.sample(anyValue, { numRuns: 25, seed: 20261116 });
    const allReceived: unknown[][] = [];
    const give = step(scene.name("give"), async (i: number) => values[i]);
    const run = workflow(scene.name("run"), async (first: unknown) => {
      const received = [first];
      allReceived.push(received);
      for (const i of values.keys()) received.push(await give(i));
      received.push(await createHook({ token }));
      return values;
    });
    const token = scene.name("token");
    // The replay check would also pass the values to the code, and stop before the hook.
    const { store } = await scene.work({ replayCheck: false });
    const started = await start(run, [values], { store });
    await until("the hook exists", async () => (await store.runs.hook(token)) !== undefined);
    await resumeHook(token, values, { store });
    expect(await shapeOf(await started.returnValue)).toStrictEqual(await shapeOf(values));
    // A run that had left memory was replayed, and the code got the same values again.
    const all = [values, ...values, values];
    expect(allReceived.at(-1)).toHaveLength(all.length);
    for (const received of allReceived) expect(await shapeOf(received)).toStrictEqual(await shapeOf(all.slice(0, received.length)));
    await once(store, { key: key.of("values") }, () => values);
    const { value } = (await once(store, { key: key.of("values") }, () => [])) as { value: unknown };
    expect(await shapeOf(value)).toStrictEqual(await shapeOf(values));
  });

  test("a step function is read back as the registered function, from a step and in an input", async ({ scene }) => {
    const double = step(scene.name("double"), async (n: number) => 2 * n);
    const choose = step(scene.name("choose"), async () => ({ with: double }));
    const run = workflow(scene.name("run"), async (given: typeof double) => {
      const chosen = await choose();
      return [chosen.with === double, given === double, await given(2), await chosen.with(3)];
    });
    const { store } = await scene.work();
    expect(await (await start(run, [double], { store })).returnValue).toEqual([true, true, 4, 6]);
  });

  test("every attempt can read the body of its request argument", async ({ scene }) => {
    const bodies: string[] = [];
    const name = scene.name("read");
    const read = step(
      name,
      async (request: Request, response: Response) => {
        bodies.push(`${await request.text()} ${await response.text()}`);
        if (bodies.length < 3) throw new Error("again");
        return bodies.length;
      },
      { backoff: { minMs: 1 } },
    );
    const run = workflow(scene.name("run"), async (request: Request) => await read(request, new Response("out")));
    const { store } = await scene.work();
    const request = new Request("https://example.test/", { method: "POST", body: "in" });
    expect(await (await start(run, [request], { store })).returnValue).toBe(3);
    expect(bodies).toEqual(["in out", "in out", "in out"]);
  });

  test("a step whose response breaks off while it is read fails and is retried", async ({ scene }) => {
    let calls = 0;
    const get = step(
      scene.name("get"),
      async () => {
        calls += 1;
        const broken = new ReadableStream({ pull: (controller) => controller.error(new Error("connection lost")) });
        return new Response(calls === 1 ? broken : "whole", { status: 203 });
      },
      { backoff: { minMs: 1 } },
    );
    const run = workflow(scene.name("run"), async () => {
      const response = await get();
      return [response.status, await response.text()];
    });
    const { store } = await scene.work();
    expect(await (await start(run, [], { store })).returnValue).toEqual([203, "whole"]);
    expect(calls).toBe(2);
  });

  test("reading a response counts towards the step's timeout", async ({ scene }) => {
    const get = step(scene.name("get"), async () => new Response(new ReadableStream({ pull: () => new Promise(() => {}) })), {
      timeoutMs: 30,
      graceMs: 10,
      maxRetries: 0,
    });
    const run = workflow(scene.name("run"), async () => await get());
    const { store } = await scene.work();
    const failed = await (await start(run, [], { store })).returnValue.catch((error: unknown) => error);
    expect(String(failed)).toContain("took longer than 30 ms");
  });

  test("a run whose result is being read stays in memory, even with an open hook", async ({ scene }) => {
    const read = gate();
    let calls = 0;
    const run = workflow(scene.name("run"), async () => {
      calls += 1;
      void createHook();
      const pull = async (controller: ReadableStreamDefaultController) => {
        await read.opened;
        controller.enqueue(new TextEncoder().encode("read"));
        controller.close();
      };
      return new Response(new ReadableStream({ pull }));
    });
    const { store } = await scene.work();
    const started = await start(run, [], { store });
    const now = async () => (await store.runs.claim({ owner: "clock reader", workflows: [], leaseMs: 1000, limit: 1 })).now;
    const at = await now();
    await until("a run that only waits would have been released", async () => (await now()) > at + 400);
    expect((await store.runs.read(started.id))?.owner).not.toBeNull();
    read.open();
    expect(await ((await started.returnValue) as Response).text()).toBe("read");
    expect(calls).toBe(1);
  });

  test("values that cannot be stored are refused where they are passed, with their path and a fix", async ({ scene }) => {
    const store = await scene.open({ valueBytesMax: 2000 });
    class Secret {}
    const token = scene.name("token");
    const waits = workflow(scene.name("waits"), async (..._: unknown[]) => await createHook({ token, metadata: { of: "it" } }));
    const refused = async (work: () => Promise<unknown>) => {
      const error = (await work().catch((thrown: unknown) => thrown)) as InvalidInputError;
      expect(error).toBeInstanceOf(InvalidInputError);
      return error.message;
    };
    expect(await refused(() => start(waits, [{ a: [new Secret()] }], { store }))).toMatch(
      /^args\[0\]\.a\[0\]: cannot be stored: it is an instance of Secret, which is not registered; call serializable\("Secret", Secret/,
    );
    expect(await refused(() => start(waits, ["x".repeat(3000)], { store }))).toMatch(
      /^args: is 3004 bytes long when encoded, but the limit is 2000 \(valueBytesMax\)/,
    );
    expect(await refused(() => start(waits, [{ r: new Response("x".repeat(3000)) }], { store }))).toMatch(
      /^args\[0\]\.r: cannot be stored: it has more than 2000 bytes/,
    );
    expect((await store.runs.list({ limit: 10 })).length).toBe(0);
    await scene.work({}, store);
    const run = await start(waits, [], { store });
    await until("the hook exists", async () => (await store.runs.hook(token)) !== undefined);
    expect(await refused(() => resumeHook(token, { f: () => 1 }, { store }))).toMatch(
      /^payload\.f: cannot be stored: it is a function; only functions made by step\(\) and workflow\(\) can be stored/,
    );
    expect(await refused(() => resumeHook(token, "x".repeat(3000), { store }))).toMatch(/^payload: is 3002 bytes long/);
    await resumeHook(token, 1, { store });
    expect(await run.returnValue).toBe(1);
  });

  test("values that have to be read first are refused in workflow code, which cannot wait", async ({ scene }) => {
    const child = workflow(scene.name("child"), async (_: unknown) => 1);
    const run = workflow(scene.name("run"), async () => {
      const messages: unknown[] = [];
      const caught = (error: unknown) => messages.push((error as Error).message);
      await start(child, [{ at: new Response("body") }]).catch(caught);
      try {
        void createHook({ metadata: [new Blob(["body"])] });
      } catch (error) {
        caught(error);
      }
      await start(child, ["x".repeat(5000)]).catch(caught);
      try {
        void createHook({ metadata: "x".repeat(5000) });
      } catch (error) {
        caught(error);
      }
      return messages;
    });
    const store = await scene.open({ valueBytesMax: 4000 });
    await scene.work({}, store);
    const wait =
      "cannot be stored: its content has to be read first, which is not possible here; read it in a step, and pass its text or bytes";
    const large = "(valueBytesMax); store it elsewhere and keep a reference to it";
    expect(await (await start(run, [], { store })).returnValue).toEqual([
      `args[0].at: ${wait}`,
      `metadata[0]: ${wait}`,
      `args: is 5004 bytes long when encoded, but the limit is 4000 ${large}`,
      `metadata: is 5002 bytes long when encoded, but the limit is 4000 ${large}`,
    ]);
  });

  test("a run whose input cannot be decoded is parked with the reason, and continues where its class is registered", async ({ scene }) => {
    class Late {}
    const name = scene.name("Late");
    let known = true;
    serializable(name, Late, {
      keep: () => 1,
      make() {
        if (known) return new Late();
        throw new ConfigurationError(`"${name}" is not known`, { code: "CLASS_NOT_REGISTERED" });
      },
    });
    const token = scene.name("token");
    const give = step(scene.name("give"), async () => new Late());
    const runs = [
      workflow(scene.name("result"), async () => {
        const late = await give();
        await createHook({ token: `${token} result` });
        return late instanceof Late;
      }),
      workflow(scene.name("input"), async (late: unknown) => {
        await createHook({ token: `${token} input` });
        return late instanceof Late;
      }),
    ] as const;
    const { store, worker } = await scene.work();
    const started = [await start(runs[0], [], { store }), await start(runs[1], [new Late()], { store })];
    for (const what of ["result", "input"])
      await until("the run waits for its hook", async () => (await store.runs.hook(`${token} ${what}`)) !== undefined);
    await worker.stop();
    known = false;
    const other = await scene.work();
    for (const { id } of started) await untilStatus(store, id, "diverged");
    for (const { trouble } of started) expect(await trouble).toContain(`"${name}" is not known`);
    await other.worker.stop();
    known = true;
    await scene.work();
    for (const [i, what] of ["result", "input"].entries()) {
      await resumeHook(`${token} ${what}`, null, { store });
      expect(await started[i]?.returnValue).toBe(true);
    }
  });

  test("a payload that the worker cannot decode is not lost: the run is released, and continues on a worker that can decode it", async ({
    scene,
  }) => {
    class Late {}
    const name = scene.name("Late");
    // At first only the sender can decode the payload.
    let readings = 1;
    serializable(name, Late, {
      keep: () => 1,
      make() {
        if (readings-- > 0) return new Late();
        throw new Error(`"${name}" is not known`);
      },
    });
    const token = scene.name("token");
    let calls = 0;
    const count = step(scene.name("count"), async () => {
      calls += 1;
      return calls;
    });
    const run = workflow(scene.name("run"), async () => [await count(), (await createHook({ token })) instanceof Late]);
    const { store } = await scene.work({ leaseMs: shortMs });
    const started = await start(run, [], { store });
    await until("the hook exists", async () => (await store.runs.hook(token)) !== undefined);
    const warnings = captureWarnings(undefined, (end) => scene.onEnd(end));
    await resumeHook(token, new Late(), { store });
    const own = () => warnings.find(({ message }) => message.includes(`"${name}"`));
    await until("the worker has warned", own);
    expect(own()?.message).toContain(`releases run "${started.id}": a payload for hook#0 cannot be read`);
    readings = Number.POSITIVE_INFINITY;
    await scene.work();
    expect(await started.returnValue).toEqual([1, true]);
    expect(calls).toBe(1);
  });

  test("a flow waits for values in its context that have to be read, and keeps the progress that was saved meanwhile", async ({
    scene,
  }) => {
    const store = await scene.open();
    const read = gate();
    const slow = new Response(
      new ReadableStream({
        pull: async (controller) => {
          await read.opened;
          controller.enqueue(new TextEncoder().encode("slow"));
          controller.close();
        },
      }),
    );
    const name = scene.name("flow");
    const flow = create<Response>(name, { idempotency: store })
      .parallel("both", [
        { name: "one", fn: (ctx) => void ctx.set("value", slow) },
        {
          name: "two",
          fn: async (ctx) => {
            await settled();
            ctx.set("value", "quick");
            setImmediate(() => read.open());
          },
        },
      ])
      .step("then", async (ctx) => {
        const saved = (await store.read({ scope: "", key: key.of("flow") }))?.record.progress ?? "";
        ctx.set(
          "saved",
          (JSON.parse(saved) as { steps: { name: string }[] }).steps.map((each) => each.name),
        );
      })
      .step("last", async (ctx) => {
        ctx.set("input", await ctx.input.text());
        seen.push(ctx.get("saved"), ctx.get("value"), ctx.get("input"));
      });
    const seen: unknown[] = [];
    expect((await flow.run(new Response("given"), { key: key.of("flow") })).error).toBeUndefined();
    expect(seen).toEqual([store.capabilities.durable ? ["one", "two"] : [], "quick", "given"]);
  });

  test("a key whose response breaks off while it is stored is completed without the response", async ({ scene }) => {
    const store = await scene.open();
    let calls = 0;
    const get = () =>
      once(store, { key: key.of("get") }, () => {
        calls += 1;
        return new Response(new ReadableStream({ pull: (controller) => controller.error(new Error("connection lost")) }), { status: 203 });
      });
    expect(await get()).toMatchObject({ status: "executed", value: { status: 203 } });
    await expect(get()).rejects.toBeInstanceOf(ResultNotKeptError);
    expect(calls).toBe(1);
  });

  test("the error of a run has its class and the place where it was thrown", async ({ scene }) => {
    const fail = step(scene.name("fail"), async () => thrower(), { maxRetries: 0 });
    const run = workflow(scene.name("run"), async () => await fail());
    const { store } = await scene.work();
    const { cause } = (await (await start(run, [], { store })).returnValue.catch((error: unknown) => error)) as { cause: FatalError };
    expect(FatalError.is(cause)).toBe(true);
    expect(cause.cause).toBeInstanceOf(TypeError);
    expect(cause.cause).toMatchObject({ name: "TypeError", message: "no such card", code: "E_CARD", status: 402 });
    expect((cause.cause as Error).stack).not.toContain("step-body");
    expect((cause.cause as Error).stack).toMatch(/^TypeError: no such card\n {4}at thrower \(.*values\.test\.ts:\d+:\d+\)/);
  });

  test("JSON is stored as JSON", async ({ scene }) => {
    const give = step(scene.name("give"), async () => ({ id: "ch_1", lines: [1, null, "ü"] }));
    const run = workflow(scene.name("run"), async (order: { id: string }) => ({ order, charge: await give() }));
    const { store } = await scene.work();
    const started = await start(run, [{ id: "o_1" }], { store });
    await started.returnValue;
    const record = await store.runs.read(started.id);
    expect(record?.input).toBe('[{"id":"o_1"}]');
    expect(record?.output).toBe('{"order":{"id":"o_1"},"charge":{"id":"ch_1","lines":[1,null,"ü"]}}');
    const done = (await readJournal(started.id, { store })).find(({ type }) => type === "done");
    expect(done?.detail[1]).toBe('{"id":"ch_1","lines":[1,null,"ü"]}');
  });
});

function thrower(): never {
  throw Object.assign(new TypeError("no such card"), { code: "E_CARD", status: 402 });
}

test("unknown class and function names are errors that say so", () => {
  const stored = encode({ money: new Money(1n, "EUR") });
  expect(() => decode(stored.replace('"Money"', '"Cash"'))).toThrow(
    /a stored value is an instance of "Cash".*import the module that calls serializable\("Cash", …\)/,
  );
  const named = encode([step("known here", async () => 1)]);
  expect(() => decode(named.replace("known here", "known elsewhere"))).toThrow(StepNotRegisteredError);
  expect(() => decode(named.replace('"step"', '"stream"'))).toThrow(/is of the kind "stream", which is not registered in this process/);
});

test("a synchronously encoded result takes no additional turns of the event loop", async () => {
  let turns = 0;
  const text = encodeLater({ a: [new Date(0), new Map()] });
  void Promise.resolve().then(() => {
    turns += 1;
  });
  expect([typeof text, turns]).toEqual(["string", 0]);
  expect(encodeLater(new Response(null, { status: 204 }))).toBeTypeOf("string");
  expect(encodeLater(new Response("body"))).toBeInstanceOf(Promise);
});
