import { createRuntime, type FlowNode, NodeError, NodeOutput } from "onceflow/graph";
import { readyMadeNodes } from "onceflow/nodes";
import { expect } from "vitest";
import type { PacketOperation } from "../../../src/core/packets/operation.js";
import { dyingStore } from "../../kit/dying-store.js";
import { onStores, shortMs } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { flow } from "../documents.js";
import { expectAtRest, packetStores, recorder, running, still, triggered } from "../runtimes.js";

const document = flow({
  nodes: `
In: { operationId: take, kind: source }
Lines: { operationId: split, kind: transform, settings: { items: payload.lines, keep: [id] } }
Price: { operationId: price, kind: action }
All: { operationId: collect, kind: transform, settings: { item: payload.price, keep: [id], timeout: PT1H } }
Work: { operationId: work, kind: action }`,
  edges: `
- { from: In, to: Lines, delivery: { mode: durable, idempotencyKey: "{{payload.id}}-lines" } }
- { from: Lines, to: Price, delivery: { mode: durable, idempotencyKey: "{{payload.split.id}}-price", retryPolicy: { maxAttempts: 1 } } }
- { from: Price, to: All, delivery: { mode: durable } }
- { from: All, to: Work, delivery: { mode: durable, idempotencyKey: "{{payload.group}}-work" } }`,
});

const price: FlowNode = (input) => {
  const { data } = input.packet("in");
  return new NodeOutput().send("out", { ...data, price: 10 * (data["item"] as number) });
};
const order = { id: "o-1", lines: [3, 1, 2] };
const collected = { id: "o-1", group: "o-1-lines", count: 3, items: [30, 10, 20] };

const sends = (operation: PacketOperation, to: string) =>
  operation.verb === "settlePacket" && operation.packets.some(({ queue }) => queue.startsWith(to));
const many = Array.from({ length: 33 }, (_, i) => i);

/** The commits of the node that collects: of a packet that becomes a part, of 32 parts that become a bundle, and of the whole group. */
const commits: Readonly<Record<string, { readonly lines: readonly number[]; readonly deadly: (operation: PacketOperation) => boolean }>> = {
  "a part": { lines: order.lines, deadly: (operation) => sends(operation, "All.parts->") },
  "a bundle": { lines: many, deadly: (operation) => sends(operation, "All.parts->All.all") },
  "the group": { lines: order.lines, deadly: (operation) => sends(operation, "All->Work.in") },
};

onStores("collect", packetStores, (test) => {
  test("sends one packet with the items of a split, in order, and a second delivery adds none", async ({ scene }) => {
    const { seen, node } = recorder();
    const runtime = await running(scene, document, { ...readyMadeNodes(), price, work: node });
    await triggered(runtime, order);
    const { status } = await triggered(runtime, order);
    expect(status).toBe("completed");
    await triggered(runtime, { id: "o-2", lines: [7] });
    expect(seen).toEqual([collected, { id: "o-2", group: "o-2-lines", count: 1, items: [70] }]);
    // Two levels of bundles; the last bundle has one part.
    await triggered(runtime, { id: "o-3", lines: many });
    expect(seen[2]).toEqual({ id: "o-3", group: "o-3-lines", count: 33, items: many.map((n) => 10 * n) });
    await expectAtRest(runtime);
  });

  for (const [what, { lines, deadly }] of Object.entries(commits))
    for (const when of ["before", "after"] as const)
      test(`a worker that dies ${when} the commit of ${what} neither loses nor repeats it`, async ({ scene }) => {
        const { seen, node } = recorder();
        const dying = dyingStore(await scene.open(), when, { packet: deadly });
        const nodes = { ...readyMadeNodes(), price, work: node };
        const first = await createRuntime({ store: dying.store, documents: [document], nodes, leaseMs: shortMs });
        await first.trigger("flow", undefined, { id: "o-1", lines });
        await dying.died;
        const next = await running(scene, document, nodes, { leaseMs: shortMs });
        await until("the execution has ended", async () => (await next.executions()).every(({ status }) => status === "completed"));
        expect(seen).toEqual([{ ...collected, count: lines.length, items: lines.map((n) => 10 * n) }]);
      });

  test("a group with a failed item becomes dead letters, and is collected after they were retried", async ({ scene }) => {
    const { seen, node } = recorder();
    let isBroken = true;
    const failing: FlowNode = (input) => {
      if (isBroken && input.packet("in").get("item") === 1) throw new NodeError("PERMANENT", "no price");
      return price(input);
    };
    const runtime = await running(scene, document, { ...readyMadeNodes(), price: failing as typeof price, work: node });
    expect((await triggered(runtime, order)).status).toBe("dead");
    const letters = await runtime.deadLetters();
    expect(letters.map(({ error }) => error.code).sort()).toEqual(["INPUT_MISSING", "INPUT_MISSING", "PERMANENT"]);
    isBroken = false;
    for (const { id } of letters) expect(await runtime.retry(id)).toBe(true);
    await until("the group is delivered", () => seen.length > 0);
    expect(seen).toEqual([collected]);
  });
});

still("a join behind the node that collects waits for it", async ({ time }) => {
  const joined = flow({
    nodes: `
In: { operationId: take, kind: source }
Lines: { operationId: split, kind: transform, settings: { items: payload.lines } }
All: { operationId: collect, kind: transform, settings: { item: payload.item } }
Work: { operationId: work, kind: action, inputs: { lines: {}, order: { required: false } } }`,
    edges: `
- { from: In, to: Lines, delivery: { mode: durable } }
- { from: Lines, to: All, delivery: { mode: durable } }
- { from: All, to: Work.lines, delivery: { mode: durable } }
- { from: In, to: Work.order, delivery: { mode: durable } }`,
  });
  const { seen, node } = recorder();
  const runtime = await time.runtime(joined, { ...readyMadeNodes(), work: node });
  await runtime.trigger("flow", undefined, order);
  await time.pass(1000);
  expect(seen).toHaveLength(2);
  expect(seen).toContainEqual(order);
  expect(seen).toContainEqual(expect.objectContaining({ items: order.lines }));
  expect((await runtime.executions()).map(({ status }) => status)).toEqual(["completed"]);
});

still("a group that is not complete in time becomes dead letters", async ({ time }) => {
  const { seen, node } = recorder();
  const runtime = await time.runtime(
    document,
    {
      ...readyMadeNodes(),
      price: ((input) => (input.packet("in").get("item") === 1 ? new Promise(() => {}) : price(input))) as FlowNode,
      work: node,
    },
    { timeoutMs: 86_400_000 },
  );
  await runtime.trigger("flow", undefined, order);
  await time.pass(3_590_000);
  expect(await runtime.deadLetters()).toEqual([]);
  await time.pass(20_000);
  expect((await runtime.deadLetters()).map(({ error }) => error.message)).toEqual([
    expect.stringContaining("not filled in time"),
    expect.stringContaining("not filled in time"),
  ]);
  expect(seen).toEqual([]);
});

still("refuses a packet that names no place in a group", async ({ time }) => {
  const { seen, node } = recorder();
  const text = document.text.replace("settings: { item:", "settings: { countMax: 2, item:");
  const runtime = await time.runtime({ text, file: "flow.yaml" }, { ...readyMadeNodes(), price, work: node });
  await runtime.trigger("flow", undefined, order);
  await time.pass(1000);
  const [letter] = await runtime.deadLetters();
  expect(letter?.error).toMatchObject({ code: "VALIDATION", message: "settings.count: the value must be a whole number from 1 to 2" });
  expect(seen).toEqual([]);
});
