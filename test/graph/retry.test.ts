import { NodeError, NodeOutput, type Runtime } from "onceflow/graph";
import { describe, expect } from "vitest";
import { flow, oneEdge } from "./documents.js";
import { eventsOf, type Nodes, type Still, still } from "./runtimes.js";

/** Returns the delays between the attempts, and the outcome. */
async function delaysOf(time: Still, policy: string, options: { random?: () => number; error?: unknown; more?: string } = {}) {
  const { error = new NodeError("TEMPORARY", "busy"), random, more = "" } = options;
  const delays: number[] = [];
  const nodes: Nodes = {
    work: () => {
      throw error;
    },
  };
  const runtime = await time.runtime(oneEdge(`{ mode: durable, retryPolicy: ${policy} ${more} }`), nodes, random ? { random } : {});
  runtime.on((event) => event.type === "retrying" && delays.push(event.delayMs));
  const { executionId = "" } = await runtime.trigger("flow", "In", {});
  await time.pass(0);
  await time.pass(600_000);
  expect((await runtime.execution(executionId))?.status).toBe("dead");
  expect(runtime.metrics.inFlight).toBe(0);
  return delays;
}

describe("retries", () => {
  still.for([
    ["fixed", "{ maxAttempts: 4, backoff: fixed, initialDelay: PT2S }", [2000, 2000, 2000]],
    ["linear", "{ maxAttempts: 4, backoff: linear, initialDelay: PT2S }", [2000, 4000, 6000]],
    ["exponential", "{ maxAttempts: 5, backoff: exponential, initialDelay: PT2S, maxDelay: PT10S }", [2000, 4000, 8000, 10_000]],
    ["with a longest delay", "{ maxAttempts: 4, backoff: linear, initialDelay: PT2S, maxDelay: PT3S }", [2000, 3000, 3000]],
    ["one attempt", "{ maxAttempts: 1 }", []],
  ] as const)("%s", async ([, policy, expected], { time }) => {
    expect(await delaysOf(time, policy)).toEqual(expected);
  });

  still("without a policy there are four attempts with exponential backoff from one second", async ({ time }) => {
    expect(await delaysOf(time, "{}")).toEqual([1000, 2000, 4000]);
  });

  still.for([
    [0, [800, 1600]],
    [0.5, [1000, 2000]],
    [0.999, [1200, 2399]],
  ] as const)("jitter at %s", async ([random, expected], { time }) => {
    expect(await delaysOf(time, "{ maxAttempts: 3, initialDelay: PT1S, jitter: true }", { random: () => random })).toEqual(expected);
  });

  still.for([
    ["TEMPORARY is listed", new NodeError("TEMPORARY", "x"), 2],
    ["NETWORK_ERROR is not", new NodeError("NETWORK_ERROR", "x"), 0],
    ["any other throw is not", new Error("x"), 0],
    ["PERMANENT never is", new NodeError("PERMANENT", "x"), 0],
  ] as const)("retryOn: %s", async ([, error, retries], { time }) => {
    const policy = "{ maxAttempts: 3, retryOn: [TEMPORARY, PERMANENT] }";
    expect(await delaysOf(time, policy, { error })).toHaveLength(retries);
  });

  still("without retryOn every error is retried except those with a final code", async ({ time }) => {
    expect(await delaysOf(time, "{ maxAttempts: 2 }", { error: "text" })).toHaveLength(1);
    for (const code of ["VALIDATION", "INPUT_MISSING", "PERMANENT"] as const) {
      expect(await delaysOf(time, "{ maxAttempts: 2 }", { error: new NodeError(code, "x") })).toEqual([]);
    }
  });

  still("a policy can come from a reference, from the flow's defaults or from the node", async ({ time }) => {
    const document = {
      text: `flowdsl: "1.0.0"
info: { title: Flow, version: "1.0.0" }
flows:
  flow:
    entrypoints: [{ message: { $ref: "#/components/packets/Any" } }]
    defaults: { retryPolicy: { $ref: "#/components/policies/Twice" } }
    nodes:
      In: { operationId: take, kind: source, inputs: [{ name: in, message: { $ref: "#/components/packets/Any" } }] }
      ByDefault: { operationId: by_default, kind: action }
      ByPolicy: { operationId: by_policy, kind: action }
    edges:
      - { from: In, to: ByDefault, delivery: { mode: durable, store: postgres } }
      - { from: In, to: ByPolicy, delivery: { mode: durable, store: postgres, retryPolicy: { $ref: "#/components/policies/Thrice" } } }
components:
  packets: { Any: { type: object } }
  policies:
    Twice: { maxAttempts: 2, backoff: fixed, initialDelayMs: 100 }
    Thrice: { maxAttempts: 3, backoff: fixed, initialDelayMs: 100 }
`,
      file: "a.yaml",
    };
    const calls: string[] = [];
    const fail = (name: string) => () => {
      calls.push(name);
      throw new Error("x");
    };
    const nodes = { by_default: fail("default"), by_policy: fail("policy") };
    const runtime = await time.runtime(document, nodes, { substitutes: ["store"] });
    await runtime.trigger("flow", undefined, {});
    await time.pass(0);
    await time.pass(10_000);
    expect([calls.filter((name) => name === "default").length, calls.filter((name) => name === "policy").length]).toEqual([2, 3]);
  });
});

describe("dead letters", () => {
  const edge =
    "{ mode: durable, idempotencyKey: '{{payload.id}}-op', deadLetterQueue: nobody-got, retryPolicy: { maxAttempts: 3, initialDelay: PT1S } }";

  async function dying(time: Still, options = {}): Promise<{ runtime: Runtime; mend: () => void; keys: unknown[] }> {
    let broken = true;
    const mend = (): void => {
      broken = false;
    };
    const keys: unknown[] = [];
    const runtime = await time.runtime(
      oneEdge(edge),
      {
        work: ({ context }) => {
          keys.push(`${context.idempotencyKey} ${context.attempt}`);
          if (broken) throw new NodeError("RATE_LIMITED", `no, ${context.attempt}`);
          return new NodeOutput().send("out", { done: true });
        },
      },
      options,
    );
    return { runtime, mend, keys };
  }

  still("have their whole history and the name of their queue, and are kept for 30 days", async ({ time }) => {
    const { runtime } = await dying(time);
    const { executionId = "" } = await runtime.trigger("flow", "In", { id: "o-1" });
    await time.pass(0);
    await time.pass(10_000);
    const [letter, ...others] = await runtime.deadLetters({ flow: "flow", queue: "nobody-got" });
    expect(others).toEqual([]);
    expect(letter).toMatchObject({ queue: "nobody-got", edge: "In->Work.in", executionId, key: "o-1-op", attempts: 3 });
    expect((letter?.expiresAt?.getTime() ?? 0) - (letter?.deadAt.getTime() ?? 0)).toBe(30 * 86_400_000);
    const details = await runtime.deadLetter(letter?.id ?? "");
    expect(details?.payload).toEqual({ id: "o-1" });
    expect(details?.history.map(({ attempt, code, message }) => [attempt, code, message])).toEqual([
      [1, "RATE_LIMITED", "no, 1"],
      [2, "RATE_LIMITED", "no, 2"],
      [3, "RATE_LIMITED", "no, 3"],
    ]);
    expect(await runtime.deadLetters({ queue: "another" })).toEqual([]);
    expect(await runtime.deadLetter("pk_zzz")).toBeUndefined();
  });

  still("keep key, attempt count and history when they are retried, and get all retries again", async ({ time }) => {
    const { runtime, mend, keys } = await dying(time);
    const events = eventsOf(runtime, "dead", "reinjected", "processed", "ended");
    const { executionId = "" } = await runtime.trigger("flow", "In", { id: "o-1" });
    await time.pass(0);
    await time.pass(10_000);
    const [letter] = await runtime.deadLetters();
    expect(await runtime.retry(letter?.id ?? "")).toBe(true);
    expect((await runtime.execution(executionId))?.status).toBe("running");
    await time.pass(10_000);
    expect(keys).toEqual([1, 2, 3, 4, 5, 6].map((attempt) => `o-1-op ${attempt}`));
    expect((await runtime.deadLetter(letter?.id ?? ""))?.history).toHaveLength(6);
    mend();
    // The deprecated name of `retry`.
    expect(await runtime.reinject(letter?.id ?? "")).toBe(true);
    await time.pass(0);
    expect(await runtime.execution(executionId)).toMatchObject({ status: "completed", dead: 0 });
    expect([await runtime.deadLetters(), await runtime.retry(letter?.id ?? "")]).toEqual([[], false]);
    expect(events).toEqual([
      ...["processed In 1", "dead Work 3", "ended dead", "reinjected Work 3", "dead Work 6", "ended dead"],
      ...["reinjected Work 6", "processed Work 7", "ended completed"],
    ]);
    // The key is completed now, so the same operation is acknowledged.
    await runtime.trigger("flow", "In", { id: "o-1" });
    await time.pass(0);
    expect([keys.length, runtime.metrics.acknowledged, runtime.metrics.inFlight]).toEqual([7, 1, 0]);
  });

  still("can be discarded, are purged when their retention ends, and are listed in pages", async ({ time }) => {
    const store = await time.open();
    const { runtime } = await dying(time, { store, deadLetterRetentionMs: 5000 });
    for (const id of ["a", "b", "c"]) await runtime.trigger("flow", "In", { id });
    await time.pass(0);
    await time.pass(4000);
    const first = await runtime.deadLetters({ limit: 2 });
    const second = await runtime.deadLetters({ limit: 2, before: first[1]?.id ?? "" });
    expect(new Set([...first, ...second].map(({ key }) => key))).toEqual(new Set(["a-op", "b-op", "c-op"]));
    expect([await runtime.discard(second[0]?.id ?? ""), await runtime.discard(second[0]?.id ?? "")]).toEqual([true, false]);
    await expect(runtime.deadLetters({ before: second[0]?.id ?? "" })).rejects.toThrow(/before: dead letter pk_\w+ no longer exists/);
    await expect(runtime.deadLetters({ limit: 0 })).rejects.toThrow(/limit: must be a whole number/);
    expect(await store.packets.purge(10)).toBe(0);
    await time.pass(5000);
    expect([await store.packets.purge(10), await runtime.deadLetters()]).toEqual([2, []]);
  });

  still("are not kept for an edge that turns them off: packets that fail permanently are dropped and reported", async ({ time }) => {
    const runtime = await time.runtime(
      {
        text: flow({
          nodes: "In: { operationId: take, kind: source }\nWork: { operationId: work, kind: action }",
          edges: "- { from: In, to: Work, delivery: { mode: durable, retryPolicy: { maxAttempts: 1, deadLetterQueue: false } } }",
        }).text,
      },
      {
        work: () => {
          throw new Error("x");
        },
      },
    );
    const { executionId = "" } = await runtime.trigger("flow", "In", {});
    await time.pass(0);
    const execution = await runtime.execution(executionId);
    expect([execution?.status, execution?.notes.map(({ kind }) => kind), await runtime.deadLetters()]).toEqual([
      "completed",
      ["dropped"],
      [],
    ]);
    expect(runtime.metrics.inFlight).toBe(0);
  });
});
