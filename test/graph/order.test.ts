import { BaseNode, type NodeInput, NodeOutput } from "onceflow/graph";
import { expect } from "vitest";
import { type Gate, gate } from "../kit/gate.js";
import { onStores } from "../kit/scene.js";
import { flow, oneEdge } from "./documents.js";
import { expectAtRest, packetStores, recorder, running, still } from "./runtimes.js";

/** Sends many triggers before any worker takes them. */
async function backlog(
  scene: Parameters<typeof running>[0],
  document: ReturnType<typeof oneEdge>,
  payloads: readonly Record<string, unknown>[],
) {
  const sender = await running(scene, document, {}, { work: false });
  const ids = [];
  for (const payload of payloads) ids.push((await sender.trigger("flow", undefined, payload)).executionId ?? "");
  return ids;
}

onStores("order", packetStores, (test) => {
  test("strict: packets are delivered one at a time in the order of arrival, also after a retry", async ({ scene }) => {
    const document = oneEdge("{ mode: durable, ordering: strict, retryPolicy: { maxAttempts: 2, initialDelay: PT0.02S } }");
    const log: string[] = [];
    let inside = 0;
    const runtime = await running(scene, document, {
      work: async (input) => {
        const id = input.packet("in").getNumber("id");
        expect(++inside).toBe(1);
        log.push(`${id}.${input.context.attempt}`);
        await new Promise<void>((resolve) => setImmediate(resolve));
        inside -= 1;
        if (id === 1 && input.context.attempt === 1) throw new Error("once more");
      },
    });
    for (let id = 0; id < 4; id++) await runtime.trigger("flow", "In", { id });
    await runtime.idle();
    for (const { id } of await runtime.executions()) await runtime.wait(id);
    expect(log).toEqual(["0.1", "1.1", "1.2", "2.1", "3.1"]);
    await expectAtRest(runtime);
  });

  test("perKey: packets are delivered in order within a partition, and partitions run concurrently", async ({ scene }) => {
    const document = oneEdge('{ mode: durable, ordering: perKey, partitionKey: "{{payload.account}}" }');
    const [log, blocked, go]: [string[], Gate, Gate] = [[], gate(), gate()];
    const runtime = await running(scene, document, {
      work: async (input) => {
        const name = `${input.packet("in").getString("account")}${input.packet("in").getNumber("n")}`;
        if (name === "a1") {
          blocked.open();
          await go.opened;
        }
        log.push(name);
      },
    });
    const ids = [];
    for (const [account, n] of [
      ["a", 1],
      ["a", 2],
      ["b", 1],
      ["b", 2],
    ] as const)
      ids.push((await runtime.trigger("flow", "In", { account, n })).executionId ?? "");
    await blocked.opened;
    for (const id of ids.slice(2)) await runtime.wait(id);
    expect(log).toEqual(["b1", "b2"]);
    go.open();
    for (const id of ids) await runtime.wait(id);
    expect(log).toEqual(["b1", "b2", "a1", "a2"]);
  });

  test("priority: packets of edges with a higher priority are claimed first", async ({ scene }) => {
    const document = flow({
      nodes: `Low: { operationId: low, kind: action }\nHigh: { operationId: high, kind: action }\nIn: { operationId: take, kind: source }`,
      edges:
        "- { from: In, to: Low, delivery: { mode: durable, priority: 1 } }\n- { from: In, to: High, delivery: { mode: durable, priority: 9 } }",
    });
    const log: string[] = [];
    // One process runs the source; another, with a concurrency of 1, runs the other nodes.
    const source = await running(scene, document, {}, { partial: true });
    const ids = [];
    for (let i = 0; i < 5; i++) ids.push((await source.trigger("flow", "In", {})).executionId ?? "");
    await source.idle();
    await source.stop();
    const runtime = await running(
      scene,
      document,
      { low: () => void log.push("low"), high: () => void log.push("high") },
      { concurrency: 1 },
    );
    for (const id of ids) await runtime.wait(id);
    expect(log).toEqual([...Array(5).fill("high"), ...Array(5).fill("low")]);
  });

  test("batches: one call takes many packets and one of them can fail alone; without handleBatch each packet is one call", async ({
    scene,
  }) => {
    class Batching extends BaseNode {
      readonly operationId = "work";
      readonly sizes: number[] = [];
      handle(): void {}
      override async handleBatch(inputs: readonly NodeInput[]) {
        this.sizes.push(inputs.length);
        return inputs.map((input) => (input.packet("in").getNumber("id") === 2 ? new Error("not this one") : new NodeOutput()));
      }
    }
    const document = oneEdge("{ mode: durable, batchSize: 4, retryPolicy: { maxAttempts: 1 } }");
    const ids = await backlog(
      scene,
      document,
      [0, 1, 2, 3].map((id) => ({ id })),
    );
    const source = await running(scene, document, {}, { partial: true });
    await source.idle();
    await source.stop();
    const node = new Batching();
    const runtime = await running(scene, document, { work: node });
    const ended = [];
    for (const id of ids) ended.push((await runtime.wait(id)).status);
    expect([node.sizes, ended]).toEqual([[4], ["completed", "completed", "dead", "completed"]]);
    await expectAtRest(runtime);
  });

  test("checkpoint: the output of each stage is saved, and the next process continues after the last stage", async ({ scene }) => {
    const document = flow({
      nodes: `In: { operationId: take, kind: source }\nA: { operationId: a, kind: transform }\nB: { operationId: b, kind: transform }`,
      edges:
        "- { from: In, to: A, delivery: { mode: checkpoint, checkpointInterval: 2 } }\n- { from: A, to: B, delivery: { mode: checkpoint } }",
    });
    const log: string[] = [];
    const first = await running(
      scene,
      document,
      {
        a: (input) => {
          log.push("a");
          return new NodeOutput().send("out", input.packet("in").data);
        },
      },
      { partial: true },
    );
    const { executionId = "" } = await first.trigger("flow", "In", { id: 1 });
    await first.idle();
    await first.stop();
    const runtime = await running(scene, document, { a: () => void log.push("a"), b: () => void log.push("b") });
    expect((await runtime.wait(executionId)).status).toBe("completed");
    expect(log).toEqual(["a", "b"]);
  });
});

still("a batch that is larger than its node's concurrency is delivered", async ({ time }) => {
  const sizes: number[] = [];
  class Batching extends BaseNode {
    readonly operationId = "work";
    handle(): void {}
    override async handleBatch(inputs: readonly NodeInput[]) {
      sizes.push(inputs.length);
      return inputs.map(() => undefined);
    }
  }
  const document = flow({
    nodes: `A: { operationId: a, kind: source }\nB: { operationId: b, kind: source }\nWork: { operationId: work, kind: action, execution: { concurrency: 1 } }`,
    edges: `- { from: A, to: Work, delivery: { mode: durable, batchSize: 2 } }\n- { from: B, to: Work, delivery: { mode: durable, batchSize: 2 } }`,
  });
  const runtime = await time.runtime(document, { work: new Batching() });
  for (const entry of ["A", "A", "B", "B"]) await runtime.trigger("flow", entry, {});
  await time.pass(0);
  await time.pass(5000);
  expect([sizes.reduce((a, b) => a + b, 0), runtime.metrics.inFlight]).toEqual([4, 0]);
});

still("direct: an error is thrown to the caller and nothing is stored; with a key the call runs once", async ({ time }) => {
  let calls = 0;
  const runtime = await time.runtime(oneEdge("{ mode: direct }"), {
    work: (input) => {
      calls += 1;
      if (input.packet("in").has("bad")) throw new Error("from the node");
    },
  });
  await expect(runtime.trigger("flow", "In", { bad: 1 })).rejects.toThrow("from the node");
  const first = await runtime.trigger("flow", "In", {}, { key: "k" });
  const second = await runtime.trigger("flow", "In", {}, { key: "k" });
  expect([first.status, second.status, second.executionId === first.executionId, calls]).toEqual(["started", "duplicate", true, 2]);
  await expect(runtime.trigger("flow", "In", { other: 1 }, { key: "k" })).rejects.toThrow(/was already used with a different input/);
  expect([await runtime.executions(), runtime.metrics.triggered]).toEqual([[], 2]);
  await runtime.pause("flow");
  await expect(runtime.trigger("flow", "In", {})).rejects.toThrow(/is paused and stores nothing/);
  await runtime.archive("flow");
  await expect(runtime.trigger("flow", "In", {})).rejects.toThrow(/is archived/);
});

still("ephemeral: packets are in bounded memory and retried, and dead letters are stored", async ({ time }) => {
  const go = gate();
  const seen: number[] = [];
  const document = oneEdge(
    "{ mode: ephemeral, maxLen: 2, retryPolicy: { maxAttempts: 2, initialDelay: PT1S } }",
    ", execution: { concurrency: 1 }",
  );
  const runtime = await time.runtime(document, {
    work: async (input) => {
      await go.opened;
      seen.push(input.packet("in").getNumber("id"));
      if (input.packet("in").getNumber("id") === 2) throw new Error("never");
    },
  });
  for (const id of [1, 2]) await runtime.trigger("flow", "In", { id });
  await expect(runtime.trigger("flow", "In", { id: 3 })).rejects.toThrow(/the queue of edge .* is full/);
  go.open();
  await time.pass(0);
  // One packet waits for its retry and still counts towards the bound.
  await runtime.trigger("flow", "In", { id: 4 });
  await expect(runtime.trigger("flow", "In", { id: 5 }).then(() => runtime.trigger("flow", "In", { id: 6 }))).rejects.toThrow(/is full/);
  await time.pass(2000);
  await runtime.idle();
  expect([seen.filter((id) => id === 2).length, seen.includes(4)]).toEqual([2, true]);
  expect((await runtime.deadLetters()).map(({ error }) => error.message)).toEqual(["never"]);
  expect(runtime.metrics).toMatchObject({ inFlight: 0, retried: 1, dead: 1 });
  await runtime.pause("flow");
});

still("ephemeral after durable: packets wait while the flow is paused, and continue when it is resumed", async ({ time }) => {
  const document = flow({
    nodes: `In: { operationId: take, kind: source }\nA: { operationId: a, kind: transform }\nB: { operationId: b, kind: action, execution: { concurrency: 1 } }`,
    edges: "- { from: In, to: A, delivery: { mode: durable } }\n- { from: A, to: B, delivery: { mode: ephemeral } }",
  });
  const [begun, go] = [gate(), gate()];
  let calls = 0;
  const runtime = await time.runtime(document, {
    a: () => new NodeOutput().send("out", { n: 1 }).send("out", { n: 2 }),
    b: async () => {
      calls += 1;
      begun.open();
      await go.opened;
    },
  });
  await runtime.trigger("flow", undefined, {});
  await begun.opened;
  await runtime.pause("flow");
  go.open();
  await time.pass(3000);
  expect(calls).toBe(1);
  await runtime.resume("flow");
  await runtime.idle();
  expect(calls).toBe(2);
});

still("a node with a concurrency of 1 gets the next packet at once, not at the next poll", async ({ time }) => {
  const work = recorder();
  const runtime = await time.runtime(oneEdge("{ mode: durable }", ", execution: { concurrency: 1 }"), { work: work.node });
  const all = await Promise.all(Array.from({ length: 5 }, (_, id) => runtime.trigger("flow", "In", { id })));
  for (let turn = 0; turn < 10; turn++) await time.pass(0);
  expect([all.length, work.seen.length, runtime.metrics.inFlight]).toEqual([5, 5, 0]);
});
