import { createRuntime, NodeOutput } from "onceflow/graph";
import { expect } from "vitest";
import type { PacketOperation } from "../../../src/core/packets/operation.js";
import { dyingStore } from "../../kit/dying-store.js";
import { onStores, shortMs } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { flow } from "../documents.js";
import { doomed as doomedRuntime, eventsOf, packetStores, running, triggered } from "../runtimes.js";

/** A durable edge to A, an ephemeral one to B, a durable one to C. */
const document = (delivery = "{ mode: ephemeral }") =>
  flow({
    nodes: `In: { operationId: take, kind: source }
A: { operationId: a, kind: transform }
B: { operationId: b, kind: action }
C: { operationId: c, kind: action }`,
    edges: `- { from: In, to: A, delivery: { mode: durable } }
- { from: A, to: B, delivery: ${delivery} }
- { from: B, to: C, delivery: { mode: durable } }`,
  });

const a = () => new NodeOutput().send("out", { n: 1 }).send("out", { n: 2 });
const forever = () => new Promise<never>(() => {});

onStores("packets of ephemeral edges", packetStores, (test) => {
  test("are lost when their process dies: they are counted and reported, and their execution does not end as completed", async ({
    scene,
  }) => {
    let begun = 0;
    const first = await doomedRuntime(scene, document("{ mode: ephemeral, deadLetterQueue: lost-ones }"), {
      a,
      b: () => {
        begun += 1;
        return forever();
      },
      c: () => {},
    });
    const { executionId = "" } = await first.runtime.trigger("flow", "In", {});
    await until("both are with their node", () => begun === 2);
    expect((await first.runtime.execution(executionId))?.status).toBe("running");
    first.mortal.die();
    const calls: string[] = [];
    const nodes = { a, b: () => void calls.push("b"), c: () => void calls.push("c") };
    const second = await running(scene, document(), nodes, { leaseMs: shortMs });
    const events = eventsOf(second, "dead", "ended", "processed");
    const ended = await second.wait(executionId, { timeoutMs: 30_000 });
    expect([ended.status, ended.dead, ended.open, calls]).toEqual(["dead", 2, 0, []]);
    // The end is in the store: the wait may read it before the runtime has its answer.
    await until("the runtime has reported the end", () => events.includes("ended dead"));
    expect(second.metrics).toMatchObject({ lost: 2, dead: 2, processed: 0 });
    expect(events.toSorted()).toEqual(["dead B", "dead B", "ended dead"]);
    const letters = await second.deadLetters();
    expect(letters.map(({ queue, edge, error }) => [queue, edge, error.code])).toEqual(
      Array.from({ length: 2 }, () => ["lost-ones", "A->B.in", "LOST"]),
    );
    await expect(second.retry(letters[0]?.id ?? "")).rejects.toMatchObject({ code: "PAYLOAD_LOST" });
    for (const { id } of letters) expect(await second.discard(id)).toBe(true);
    expect(await second.counts()).toEqual([]);
  });

  for (const when of ["before", "after"] as const)
    test(`whose process dies ${when} the commit that settles one: ${when === "before" ? "the packet is lost" : "the packet that it sent is delivered"}`, async ({
      scene,
    }) => {
      const endsB = (packet: PacketOperation) => packet.verb === "settlePacket" && packet.packets.some(({ queue }) => queue === "B->C.in");
      const { store, hasDied } = dyingStore(await scene.open(), when, { packet: endsB });
      const calls: string[] = [];
      const nodes = {
        a: () => new NodeOutput().send("out", { n: 1 }),
        b: () => {
          calls.push("b");
          return new NodeOutput().send("out", { n: 2 });
        },
        c: () => void calls.push("c"),
      };
      const doomed = await createRuntime({ store, documents: [document()], nodes, leaseMs: shortMs });
      void doomed.trigger("flow", "In", {});
      await until("it has died", hasDied);
      const next = await running(scene, document(), nodes, { leaseMs: shortMs });
      await until("it has ended", async () => (await next.executions()).some(({ status }) => status !== "running"));
      // The store shows the end before the reply to the runtime's own claim has arrived and is counted.
      if (when === "before") await until("it counted the lost packet", () => next.metrics.lost > 0);
      const [ended] = await next.executions();
      expect([ended?.status, calls, next.metrics.lost]).toEqual(when === "before" ? ["dead", ["b"], 1] : ["completed", ["b", "c"], 0]);
    });

  test("are also lost when their process stops, even if the edge keeps no dead letters", async ({ scene }) => {
    let begun = 0;
    const b = () => {
      begun += 1;
      return forever();
    };
    const silent = document("{ mode: ephemeral, retryPolicy: { maxAttempts: 1, deadLetterQueue: false } }");
    const first = await running(scene, silent, { a, b, c: () => {} });
    const { executionId = "" } = await first.trigger("flow", "In", {});
    await until("both are with their node", () => begun === 2);
    await first.stop({ graceMs: 0 });
    const second = await running(scene, silent, { a, b, c: () => {} });
    const { status } = await second.wait(executionId, { timeoutMs: 30_000 });
    await until("the runtime has counted both", () => second.metrics.lost === 2);
    expect([status, begun]).toEqual(["dead", 2]);
  });

  test("leave no row when they are delivered, and output for which there is no edge is kept", async ({ scene }) => {
    const c = () => new NodeOutput().send("out", { done: true });
    const last = flow({
      nodes: `In: { operationId: take, kind: source }
A: { operationId: a, kind: transform }
B: { operationId: b, kind: action }
C: { operationId: c, kind: action }`,
      edges: `- { from: In, to: A, delivery: { mode: durable } }
- { from: A, to: B, delivery: { mode: ephemeral } }
- { from: B, to: C, delivery: { mode: ephemeral } }`,
    });
    const runtime = await running(scene, last, { a, b: (input) => new NodeOutput().send("out", input.packet("in").data), c });
    const { status, outputs, dead } = await triggered(runtime, {});
    expect([status, dead, outputs.map(({ node, data }) => [node, data])]).toEqual([
      "completed",
      0,
      [
        ["C", { done: true }],
        ["C", { done: true }],
      ],
    ]);
    expect([await runtime.counts(), runtime.metrics.lost]).toEqual([[], 0]);
  });

  test("with the same key are delivered once, and the second is acknowledged", async ({ scene }) => {
    const calls: unknown[] = [];
    const same = () => new NodeOutput().send("out", { id: 1 }).send("out", { id: 1 });
    const keyed = document("{ mode: ephemeral, idempotencyKey: '{{payload.id}}-b' }");
    const runtime = await running(scene, keyed, { a: same, b: (input) => void calls.push(input.packet("in").data), c: () => {} });
    const events = eventsOf(runtime, "processed", "acknowledged");
    const { status } = await triggered(runtime, {});
    const eventsOfB = () => events.filter((event) => event.includes("B")).toSorted();
    await until("the runtime has reported the end of both", () => eventsOfB().length === 2);
    expect([status, calls.length, eventsOfB()]).toEqual(["completed", 1, ["acknowledged B 1", "processed B 1"]]);
  });
});
