import { NodeError, NodeOutput, type Runtime } from "onceflow/graph";
import { describe, expect } from "vitest";
import { onStores } from "../kit/scene.js";
import { flow, oneEdge } from "./documents.js";
import { running, still, triggered } from "./runtimes.js";

const sent = new NodeOutput().send("out", { paid: true });

/** A node that returns only after its signal was aborted, and counts its calls. */
function lateNode() {
  const calls: number[] = [];
  const node = async ({ context }: { context: { attempt: number; signal: AbortSignal } }) => {
    calls.push(context.attempt);
    await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
    return sent;
  };
  return { calls, node };
}

async function letterOf(runtime: Runtime) {
  const [letter] = await runtime.deadLetters();
  return await runtime.deadLetter(letter?.id ?? "");
}

onStores("a node that exceeds its timeout", ["memory", "sqlite", "postgres"], (test) => {
  test("leaves a dead letter after its last attempt, with a note that the attempt succeeded", async ({ scene }) => {
    let effects = 0;
    const work = async ({ context }: { context: { signal: AbortSignal } }) => {
      await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
      effects += 1;
      return sent;
    };
    const runtime = await running(scene, oneEdge("{ mode: durable, timeout: PT0.1S, retryPolicy: { maxAttempts: 1 } }"), { work });
    const execution = await triggered(runtime, {});
    expect([execution.status, execution.outputs, effects]).toEqual(["dead", [], 1]);
    expect(execution.notes.map(({ kind }) => kind)).toEqual(["dead", "lateSuccess"]);
    const letter = await letterOf(runtime);
    expect(letter?.error).toEqual({
      code: "TIMEOUT",
      message: expect.stringMatching(/^the delivery did not finish within 100 ms; it succeeded after \d+ ms, .*effect has happened$/),
    });
  });
});

describe("a node that exceeds its timeout", () => {
  still("a handler that never returns is aborted by its signal, and retried after a grace period", async ({ time }) => {
    const edge = "{ mode: durable, timeout: PT10S, retryPolicy: { maxAttempts: 2, initialDelay: PT1S, backoff: fixed } }";
    const [aborted, attempts]: [string[], number[]] = [[], []];
    const runtime = await time.runtime(oneEdge(edge), {
      work: ({ context }) => {
        attempts.push(context.attempt);
        context.signal.addEventListener("abort", () => aborted.push((context.signal.reason as NodeError).code));
        return new Promise<void>(() => {});
      },
    });
    const { executionId = "" } = await runtime.trigger("flow", "In", {});
    await time.pass(0);
    await time.pass(9999);
    expect([attempts, aborted]).toEqual([[1], []]);
    await time.pass(1);
    expect(aborted).toEqual(["TIMEOUT"]);
    await time.pass(4999);
    expect(attempts).toEqual([1]);
    await time.pass(1);
    await time.pass(1000);
    expect(attempts).toEqual([1, 2]);
    await time.pass(15_000);
    const [letter] = await runtime.deadLetters();
    const details = await runtime.deadLetter(letter?.id ?? "");
    expect(details?.history.map(({ attempt, code, ms }) => [attempt, code, ms])).toEqual([
      [1, "TIMEOUT", 15_000],
      [2, "TIMEOUT", 15_000],
    ]);
    expect((await runtime.execution(executionId))?.status).toBe("dead");
    expect(runtime.metrics.inFlight).toBe(0);
  });

  still("after the timeout of the last attempt a result is ignored, and a permanent error is not", async ({ time }) => {
    const endings: (() => NodeOutput)[] = [
      () => new NodeOutput().send("out", { late: true }),
      () => {
        throw new NodeError("PERMANENT", "there is no such account");
      },
      () => {
        throw new Error("aborted");
      },
    ];
    let at = 0;
    const runtime = await time.runtime(oneEdge("{ mode: durable, timeout: PT10S, retryPolicy: { maxAttempts: 1 } }"), {
      work: async ({ context }) => {
        await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
        return (endings[at++] as () => NodeOutput)();
      },
    });
    const ended = [];
    for (const _ of endings) {
      const { executionId = "" } = await runtime.trigger("flow", "In", {});
      await time.pass(0);
      await time.pass(10_000);
      const execution = await runtime.execution(executionId);
      ended.push([execution?.outputs.length, (await runtime.deadLetters({ limit: 1 }))[0]?.error.code]);
    }
    expect(ended).toEqual([
      [0, "TIMEOUT"],
      [0, "PERMANENT"],
      [0, "TIMEOUT"],
    ]);
  });

  still("a direct call has a timeout too", async ({ time }) => {
    const runtime = await time.runtime(
      oneEdge("{ mode: direct }"),
      { work: () => new Promise<void>(() => {}) },
      { timeoutMs: 5000, graceMs: 10 },
    );
    const failed = runtime.trigger("flow", "In", {}).catch((error: unknown) => error);
    await time.pass(5010);
    expect(await failed).toMatchObject({ code: "TIMEOUT" });
  });

  still("completes its packet if another attempt would follow", async ({ time }) => {
    const { calls, node } = lateNode();
    const edge = "{ mode: durable, timeout: PT10S, retryPolicy: { maxAttempts: 2, initialDelay: PT1S } }";
    const runtime = await time.runtime(oneEdge(edge), { work: node });
    const { executionId = "" } = await runtime.trigger("flow", "In", {});
    await time.pass(0);
    await time.pass(60_000);
    expect(await runtime.execution(executionId)).toMatchObject({ status: "completed", notes: [] });
    expect(calls).toEqual([1]);
  });

  still("is not retried if retryOn does not list timeouts: its first attempt is the last", async ({ time }) => {
    const { calls, node } = lateNode();
    const edge = "{ mode: durable, timeout: PT10S, retryPolicy: { maxAttempts: 3, retryOn: [NETWORK_ERROR] } }";
    const runtime = await time.runtime(oneEdge(edge), { work: node });
    const { executionId = "" } = await runtime.trigger("flow", "In", {});
    await time.pass(0);
    await time.pass(60_000);
    const execution = await runtime.execution(executionId);
    expect([execution?.status, calls]).toEqual(["dead", [1]]);
    expect(execution?.notes.map(({ kind }) => kind)).toEqual(["dead", "lateSuccess"]);
  });

  still.for(["ephemeral", "direct"])("also times out on an edge of mode %s", async (mode, { time }) => {
    const { calls, node } = lateNode();
    const edge = `{ mode: ${mode}, timeout: PT10S, deadLetterQueue: failed, retryPolicy: { maxAttempts: 1 } }`;
    const document = flow({
      nodes: "In: { operationId: take, kind: source }\nWork: { operationId: work, kind: action }",
      edges: `- { from: In, to: Work, delivery: ${mode === "direct" ? "{ mode: direct }" : edge} }`,
    });
    const runtime = await time.runtime(document, { work: node }, { timeoutMs: 10_000 });
    const trigger = runtime.trigger("flow", "In", {}).catch((error: unknown) => error);
    await time.pass(0);
    await time.pass(60_000);
    const triggeredWith = await trigger;
    const why = mode === "direct" ? triggeredWith : (await letterOf(runtime))?.error;
    expect(why).toMatchObject({ code: "TIMEOUT", message: expect.stringContaining("its effect has happened") });
    expect(calls).toEqual([1]);
  });

  still("completes the key of a direct trigger, so that the caller's retry does not repeat the effect", async ({ time }) => {
    const { calls, node } = lateNode();
    const runtime = await time.runtime(oneEdge("{ mode: direct }"), { work: node }, { timeoutMs: 10_000 });
    const trigger = runtime.trigger("flow", "In", {}, { key: "k" });
    await time.pass(0);
    await time.pass(60_000);
    expect((await trigger).status).toBe("started");
    expect((await runtime.trigger("flow", "In", {}, { key: "k" })).status).toBe("duplicate");
    expect(calls).toEqual([1]);
  });

  still.for(["durable", "ephemeral"])("does not start the next node of its stage, on an edge of mode %s", async (mode, { time }) => {
    const after: number[] = [];
    const document = flow({
      nodes: `In: { operationId: take, kind: source }
Work: { operationId: work, kind: action }
After: { operationId: after, kind: action }`,
      edges: `- { from: In, to: Work, delivery: { mode: ${mode}, timeout: PT10S, deadLetterQueue: failed, retryPolicy: { maxAttempts: 1 } } }
- { from: Work, to: After, delivery: { mode: direct } }`,
    });
    const runtime = await time.runtime(document, { work: lateNode().node, after: () => void after.push(1) });
    await runtime.trigger("flow", "In", {});
    await time.pass(0);
    await time.pass(60_000);
    expect((await letterOf(runtime))?.error.code).toBe("TIMEOUT");
    expect(after).toEqual([]);
  });
});
