import { createRuntime, type NodeInput } from "onceflow/graph";
import { readyMadeNodes } from "onceflow/nodes";
import { describe, expect, test } from "vitest";
import type { PacketOperation } from "../../../src/core/packets/operation.js";
import { dyingStore } from "../../kit/dying-store.js";
import { onStores, shortMs } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { flow, oneEdge } from "../documents.js";
import { eventsOf, packetStores, recorder, running, still, triggered } from "../runtimes.js";

const delayed = flow({
  nodes: `
In: { operationId: take, kind: source }
Wait: { operationId: delay, kind: action, settings: { for: PT1H } }
Work: { operationId: work, kind: action }`,
  edges: `
- { from: In, to: Wait, delivery: { mode: durable, idempotencyKey: "{{payload.id}}-wait" } }
- { from: Wait, to: Work, delivery: { mode: durable } }`,
});
const hourMs = 3_600_000;

describe("delay", () => {
  still("a packet passes after its time, not before, and no attempt is counted", async ({ time }) => {
    const { seen, node } = recorder();
    const runtime = await time.runtime(delayed, { ...readyMadeNodes(), work: node });
    const events = eventsOf(runtime, "processed", "retrying", "dead", "ended");
    await runtime.trigger("flow", undefined, { id: "o-1" });
    await time.pass(hourMs - 2000);
    expect(seen).toEqual([]);
    await time.pass(4000);
    expect(seen).toEqual([{ id: "o-1" }]);
    expect(events).toEqual(["processed In 1", "processed Wait 2", "processed Work 1", "ended completed"]);
  });

  still("a restart in between neither loses nor shortens the delay", async ({ time }) => {
    const { seen, node } = recorder();
    const nodes = { ...readyMadeNodes(), work: node };
    const first = await time.runtime(delayed, nodes);
    await first.trigger("flow", undefined, { id: "o-1" });
    await time.pass(hourMs / 2);
    let stopped = false;
    void first.stop({ graceMs: 0 }).then(() => {
      stopped = true;
    });
    while (!stopped) await time.pass(1);
    await time.pass(hourMs / 4);
    await time.runtime(delayed, nodes);
    await time.pass(hourMs / 8);
    expect(seen).toEqual([]);
    await time.pass(hourMs / 4);
    expect(seen).toEqual([{ id: "o-1" }]);
  });
});

onStores("delay", packetStores, (test) => {
  const short = { ...delayed, text: delayed.text.replace("PT1H", "PT0.4S") };

  for (const when of ["before", "after"] as const)
    test(`a worker that dies ${when} the commit by which a packet waits neither loses nor shortens the delay`, async ({ scene }) => {
      const waited: number[] = [];
      const nodes = {
        ...readyMadeNodes(),
        work: (input: NodeInput) => void waited.push((input.context.sentAt ?? 0) - input.packet("in").getNumber("at")),
      };
      const dying = dyingStore(await scene.open(), when, { packet: (it) => it.verb === "settlePacket" && it.to.kind === "release" });
      const first = await createRuntime({ store: dying.store, documents: [short], nodes, leaseMs: shortMs });
      await first.trigger("flow", undefined, { id: "o-1", at: Date.now() });
      await dying.died;
      const next = await running(scene, short, nodes, { leaseMs: shortMs });
      await until("the execution has ended", async () => (await next.executions()).every(({ status }) => status === "completed"));
      expect(waited).toHaveLength(1);
      expect(waited[0]).toBeGreaterThanOrEqual(400);
    });
});

const splitting = flow({
  nodes: `
In: { operationId: take, kind: source }
Lines: { operationId: split, kind: transform, settings: { items: payload.lines, keep: [id] } }
Large: { operationId: filter, kind: router, settings: { condition: payload.item.n > 1 } }
Shape: { operationId: transform, kind: transform, settings: { fields: { key: payload.split.id, double: payload.item.n + payload.item.n } } }
Work: { operationId: work, kind: action }`,
  edges: `
- { from: In, to: Lines, delivery: { mode: durable, idempotencyKey: "{{payload.id}}-lines" } }
- { from: Lines, to: Large, delivery: { mode: durable, idempotencyKey: "{{payload.split.id}}-large" } }
- { from: Large, to: Shape, delivery: { mode: direct } }
- { from: Shape, to: Work, delivery: { mode: durable, idempotencyKey: "{{payload.key}}-work" } }`,
});
const lines = { id: "o-1", lines: [{ n: 1 }, { n: 2 }, { n: 3 }] };
const expected = [
  { key: "o-1-lines/1", double: 4 },
  { key: "o-1-lines/2", double: 6 },
];
const byKey = (seen: readonly Record<string, unknown>[]) => seen.toSorted((a, b) => String(a["key"]).localeCompare(String(b["key"])));

onStores("split, filter and transform", packetStores, (test) => {
  test("a list becomes packets with keys of their own, and a second delivery of it adds none", async ({ scene }) => {
    const { seen, node } = recorder();
    const runtime = await running(scene, splitting, { ...readyMadeNodes(), work: node });
    await triggered(runtime, lines);
    const { status, duplicates } = await triggered(runtime, lines);
    expect({ status, duplicates }).toEqual({ status: "completed", duplicates: 1 });
    expect(byKey(seen)).toEqual(expected);
  });

  for (const when of ["before", "after"] as const)
    test(`a worker that dies ${when} the commit of a split neither loses nor repeats an item`, async ({ scene }) => {
      const { seen, node } = recorder();
      const nodes = { ...readyMadeNodes(), work: node };
      const isSplit = (operation: PacketOperation) => operation.verb === "settlePacket" && operation.packets.length === lines.lines.length;
      const dying = dyingStore(await scene.open(), when, { packet: isSplit });
      const first = await createRuntime({ store: dying.store, documents: [splitting], nodes, leaseMs: shortMs });
      await first.trigger("flow", undefined, lines);
      await dying.died;
      const next = await running(scene, splitting, nodes, { leaseMs: shortMs });
      await until("the execution has ended", async () => (await next.executions()).every(({ status }) => status === "completed"));
      expect(byKey(seen)).toEqual(expected);
    });
});

describe("a runtime with ready-made nodes", () => {
  still("refuses to start with settings that do not match, and names the place", async ({ time }) => {
    const document = oneEdge().text.replace(
      "operationId: work, kind: action",
      "operationId: filter, kind: action, settings: { conditon: x }",
    );
    const store = await time.open();
    const starting = createRuntime({ store, documents: [{ text: document, file: "flow.yaml" }], nodes: readyMadeNodes() });
    await expect(starting).rejects.toThrow(/flow\.yaml:\d+:\d+ node "Work" \(filter\): settings\.conditon .* did you mean "condition"\?/);
  });

  still("says where a missing ready-made node comes from", async ({ time }) => {
    const starting = createRuntime({ store: await time.open(), documents: [delayed], nodes: { work: recorder().node } });
    await expect(starting).rejects.toThrow(/missing nodes: delay .*onceflow\/nodes/);
  });

  still("refuses a delay behind an edge whose packets are not in the store", async ({ time }) => {
    const text = delayed.text.replace(/mode: durable, idempotencyKey: "[^"]*"/, "mode: direct");
    const starting = createRuntime({
      store: await time.open(),
      documents: [{ text, file: "flow.yaml" }],
      nodes: { ...readyMadeNodes(), work: recorder().node },
    });
    await expect(starting).rejects.toThrow(/edge "In->Wait.in": is direct.*make it durable/);
  });
});

test("each ready-made node says which settings it has", () => {
  for (const [name, type] of Object.entries(readyMadeNodes())) {
    expect(type.operationId).toBe(name);
    expect(type.settingsSchema).toMatchObject({ type: "object", additionalProperties: false });
  }
});
