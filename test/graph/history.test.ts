import { type HistoryItem, NodeError, NodeOutput, type Runtime } from "onceflow/graph";
import { expect } from "vitest";
import { gate } from "../kit/gate.js";
import { onStores, shortMs } from "../kit/scene.js";
import { flow, oneEdge } from "./documents.js";
import { doomed, type Nodes, packetStores, running, still, triggered } from "./runtimes.js";

const retried = "{ mode: durable, retryPolicy: { maxAttempts: 2, initialDelay: PT0.01S } }";
const chain = flow({
  nodes: "In: { operationId: take, kind: source }\nA: { operationId: a, kind: action }\nB: { operationId: b, kind: action }",
  edges: `- { from: In, to: A, delivery: ${retried} }\n- { from: A, to: B, delivery: ${retried} }`,
});

/** A node that fails at its first attempt, and one that fails at every attempt. */
const failing: Nodes = {
  a: (input) => {
    if (input.context.attempt === 1) throw new NodeError("TEMPORARY", "busy with card 4111");
    return new NodeOutput().send("out", { charged: input.packet("in").getNumber("amount") });
  },
  b: () => {
    throw new NodeError("PERMANENT", "closed");
  },
};

const short = ({ verdict, node, attempt }: HistoryItem) => [verdict, node, ...(attempt === undefined ? [] : [attempt])].join(" ");

async function historyOf(runtime: Runtime, id: string): Promise<readonly HistoryItem[]> {
  return (await runtime.history(id, { limit: 1000 })).items;
}

onStores("the history of an execution", packetStores, (test) => {
  test("every delivery is recorded, with times, verdict, error, input and output", async ({ scene }) => {
    const runtime = await running(scene, chain, failing, { history: "full" });
    const before = Date.now();
    const { id } = await triggered(runtime, { amount: 42 });
    const items = await historyOf(runtime, id);
    expect(items.map(short)).toEqual(["completed In 1", "retry A 1", "completed A 2", "dead B 1"]);
    const [taken, busy, charged, closed] = items as [HistoryItem, HistoryItem, HistoryItem, HistoryItem];
    expect([busy.code, busy.message, closed.code, closed.message]).toEqual(["TEMPORARY", "busy with card 4111", "PERMANENT", "closed"]);
    expect([taken.sent, charged.sent]).toEqual([[busy.packetId], [closed.packetId]]);
    expect([taken.edge, busy.edge, closed.edge]).toEqual(["->In.in", "In->A.in", "A->B.in"]);
    expect(charged.values).toEqual({
      input: [{ port: "in", text: '{"amount":42}', cut: false, bytes: 13 }],
      sent: [{ edge: closed.edge, text: '{"charged":42}', cut: false, bytes: 14 }],
      outputs: [],
      more: 0,
    });
    for (const { startedAt, ms } of items) {
      expect(startedAt?.getTime()).toBeGreaterThanOrEqual(before - 1000);
      expect(ms).toBeGreaterThanOrEqual(0);
    }
  });

  test("timing keeps no values and no messages, which may repeat them", async ({ scene }) => {
    const runtime = await running(scene, chain, failing, { history: "timing" });
    const { id } = await triggered(runtime, { amount: 42 });
    const items = await historyOf(runtime, id);
    expect(items.map(short)).toEqual(["completed In 1", "retry A 1", "completed A 2", "dead B 1"]);
    expect(items[1]?.code).toBe("TEMPORARY");
    expect(items.map(({ values, message }) => [values, message])).toEqual(items.map(() => [undefined, undefined]));
    expect(JSON.stringify(items)).not.toMatch(/amount|4111/);
  });

  test("a dead letter leads to the delivery that sent it, and to what became of it", async ({ scene }) => {
    let isOpen = false;
    const b = () => {
      if (!isOpen) throw new NodeError("PERMANENT", "closed");
    };
    const runtime = await running(scene, chain, { ...failing, b }, { history: "timing" });
    const { id } = await triggered(runtime, { amount: 42 });
    const [letter] = await runtime.deadLetters();
    const dead = await runtime.packet(letter?.id ?? "");
    expect([dead?.state, dead?.executionId, dead?.flow]).toEqual(["dead", id, "flow"]);
    expect([dead?.sentBy && short(dead.sentBy), dead?.history.map(short)]).toEqual(["completed A 2", ["dead B 1"]]);
    isOpen = true;
    await runtime.retry(letter?.id ?? "");
    await runtime.wait(id);
    const gone = await runtime.packet(letter?.id ?? "");
    expect([gone?.state, gone?.executionId]).toEqual(["gone", id]);
    expect(gone?.history.map(short)).toEqual(["dead B 1", "reinjected B", "completed B 2"]);
    expect(await runtime.packet("pk_1")).toBeUndefined();
  });

  test("a duplicate is an event of the history", async ({ scene }) => {
    const keyed = oneEdge('{ mode: durable, idempotencyKey: "{{payload.id}}-work" }');
    const runtime = await running(scene, keyed, { work: () => {} }, { history: "timing" });
    await triggered(runtime, { id: 1 });
    const { id } = await triggered(runtime, { id: 1 });
    const items = await historyOf(runtime, id);
    expect(items.map(({ verdict, node }) => [verdict, node])).toEqual([
      ["completed", "In"],
      ["duplicate", "Work"],
    ]);
    expect(items[1]?.about).toBe("1-work");
  });

  test("an attempt whose process died appears as crashed when the packet is taken over", async ({ scene }) => {
    const called = gate();
    const { runtime: first, mortal } = await doomed(
      scene,
      oneEdge(),
      {
        work: async () => {
          called.open();
          await new Promise(() => {});
        },
      },
      { history: "timing" },
    );
    const { executionId = "" } = await first.trigger("flow", "In", {});
    await called.opened;
    mortal.die();
    const second = await running(scene, oneEdge(), { work: () => {} }, { history: "timing", leaseMs: shortMs, pollMs: 20 });
    await second.wait(executionId, { timeoutMs: 30_000 });
    expect((await historyOf(second, executionId)).map(short)).toEqual(["completed In 1", "crashed Work 1", "completed Work 2"]);
  });

  test("the pages of a history with events of the same time have each line once", async ({ scene }) => {
    const fan = flow({
      nodes:
        "In: { operationId: take, kind: source }\nWork: { operationId: work, kind: action }\nEnd: { operationId: end, kind: terminal }",
      edges: `- { from: In, to: Work, delivery: { mode: durable } }
- { from: Work, to: End, delivery: { mode: durable, idempotencyKey: "{{payload.n}}" } }`,
    });
    const work = () => [0, 0, 1, 1, 2, 3].reduce((output, n) => output.send("out", { n }), new NodeOutput());
    const runtime = await running(scene, fan, { work, end: () => {} }, { history: "full" });
    const { id } = await triggered(runtime, {});
    const all = await historyOf(runtime, id);
    expect(all.filter(({ verdict }) => verdict === "duplicate")).toHaveLength(2);
    expect(all).toHaveLength(8);
    const paged: HistoryItem[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await runtime.history(id, { limit: 3, ...(cursor && { cursor }) });
      paged.push(...page.items);
      cursor = page.next;
      if (cursor === undefined) break;
    }
    expect(paged).toEqual(all);
  });

  test("without the option no delivery is recorded; events are there", async ({ scene }) => {
    const runtime = await running(scene, chain, failing);
    const { id } = await triggered(runtime, { amount: 42 });
    expect((await historyOf(runtime, id)).map(short)).toEqual(["dead B"]);
    expect(await runtime.store.packets.deliveries({ limit: 10 })).toEqual([]);
  });
});

still("the option can be set for single flows, and is checked", async ({ time }) => {
  const nodes = { work: () => {} };
  const runtime = await time.runtime(oneEdge(), nodes, { history: { level: "full", flows: { flow: "none" } } });
  const { executionId = "" } = await runtime.trigger("flow", "In", {});
  await time.pass(10);
  expect((await runtime.history(executionId)).items).toEqual([]);
  for (const [history, message] of [
    ["all", /history.level: must be/],
    [{ level: "full", entries: 3 }, /history: entries: is not an option/],
    [{ flows: { flow: "ful" } }, /history.flows.flow/],
    [{ entriesMax: 0 }, /from 1 to 10000/],
    [{ valueBytesMax: 1e9 }, /from 1 to 65536/],
    [7, /history: must be/],
  ] as const)
    await expect(time.runtime(oneEdge(), nodes, { history: history as never })).rejects.toThrow(message);
  await expect(runtime.history(executionId, { cursor: "x" })).rejects.toThrow(/cursor/);
  await expect(runtime.history(executionId, { limit: 0 })).rejects.toThrow(/limit/);
  await expect(runtime.history("ex_zzz")).rejects.toThrow(/ex_zzz/);
});

still("values are cut, and a history that is full says so", async ({ time }) => {
  const runtime = await time.runtime(chain, { ...failing, b: () => {} }, { history: { level: "full", valueBytesMax: 20, entriesMax: 2 } });
  const { executionId = "" } = await runtime.trigger("flow", "In", { amount: 1, name: "ü".repeat(100) });
  for (const ms of [0, 1000, 1000]) await time.pass(ms);
  const { items } = await runtime.history(executionId);
  expect(items.map(short)).toEqual(["completed In 1", "retry A 1", "full A 2"]);
  const [value] = items[0]?.values?.input ?? [];
  expect(value).toEqual({ port: "in", text: '{"amount":1,"name":"', cut: true, bytes: 222 });
});

still("packets in memory are recorded with their edge and attempt", async ({ time }) => {
  const document = flow({
    nodes: "In: { operationId: take, kind: source }\nA: { operationId: a, kind: action }\nB: { operationId: b, kind: action }",
    edges: `- { from: In, to: A, delivery: { mode: durable } }
- { from: A, to: B, delivery: { mode: ephemeral, retryPolicy: { maxAttempts: 2, initialDelay: PT1S } } }`,
  });
  let fails = true;
  const nodes: Nodes = {
    a: () => new NodeOutput().send("out", { n: 1 }),
    b: () => {
      if (fails) throw new NodeError("TEMPORARY", "busy");
    },
  };
  const runtime = await time.runtime(document, nodes, { history: "full" });
  const { executionId: first = "" } = await runtime.trigger("flow", "In", {});
  await time.pass(5000);
  expect((await runtime.history(first)).items.map(short)).toEqual(["completed In 1", "completed A 1", "dead B 2", "dead B"]);
  fails = false;
  const { executionId: second = "" } = await runtime.trigger("flow", "In", {});
  await time.pass(5000);
  const { items } = await runtime.history(second);
  expect(items.map(short)).toEqual(["completed In 1", "completed A 1", "completed B 1"]);
  expect(items[1]?.sent).toEqual([items[2]?.packetId]);
  expect(items[1]?.values?.sent).toEqual([{ edge: items[2]?.edge, text: '{"n":1}', cut: false, bytes: 7 }]);
});
