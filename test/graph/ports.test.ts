import { createRuntime, type NodeInput, NodeOutput } from "onceflow/graph";
import { expect } from "vitest";
import type { PacketOperation } from "../../src/core/packets/operation.js";
import { dyingStore } from "../kit/dying-store.js";
import { onStores, shortMs } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { flow } from "./documents.js";
import { eventsOf, packetStores, recorder, running, triggered } from "./runtimes.js";

/** Work declares `out`, and sends to `out` and to `refused`. */
const documentWith = (outputs: string, more = "") =>
  flow({
    nodes: `In: { operationId: take, kind: source }
Work: { operationId: work, kind: action, outputs: { ${outputs} } }
After: { operationId: after, kind: action }
${more && "Refused: { operationId: refused, kind: action }"}`,
    edges: `- { from: In, to: Work, delivery: { mode: durable, idempotencyKey: '{{payload.id}}-work' } }
- { from: Work.out, to: After, delivery: { mode: durable } }
${more}`,
  });
const declaresOne = documentWith("out: {}");
const declaresBoth = documentWith("out: {}, refused: {}", "- { from: Work.refused, to: Refused, delivery: { mode: durable } }");

/** The provider: counts the calls and applies one effect per key. */
function provider() {
  const calls: string[] = [];
  return {
    calls,
    get applied() {
      return new Set(calls).size;
    },
    work(input: NodeInput) {
      calls.push(input.context.idempotencyKey ?? "");
      return new NodeOutput().send("out", { n: 1 }).send("refused", { why: "closed" });
    },
  };
}

/** The commit that settles the delivery of Work. */
const settlesWork = (packet: PacketOperation): boolean =>
  packet.verb === "settlePacket" && packet.packets.some(({ queue }) => queue.includes("Work.out"));

onStores("a port that the document does not declare", packetStores, (test) => {
  test("the delivery is settled with its key, the declared port is sent, and the undeclared output becomes a dead letter", async ({
    scene,
  }) => {
    const side = provider();
    const after = recorder();
    const runtime = await running(scene, declaresOne, { work: side.work, after: after.node });
    const events = eventsOf(runtime, "dead", "processed", "ended");
    const first = await triggered(runtime, { id: 1 });
    expect([first.status, first.dead, side.calls.length, after.seen]).toEqual(["dead", 1, 1, [{ n: 1 }]]);
    expect(first.notes.map(({ kind, edge }) => [kind, edge])).toEqual([["dead", "Work.refused->"]]);
    const [letter] = await runtime.deadLetters();
    expect(letter).toMatchObject({
      edge: "Work.refused->",
      error: { code: "UNKNOWN_PORT", message: expect.stringContaining('port "refused"') },
    });
    await until("the runtime reports the end", () => events.includes("ended dead"));
    expect(events).toContain("dead Work.refused");
    expect(runtime.metrics).toMatchObject({ dead: 1, processed: 3 });
    // The same order again finds its key completed.
    expect([(await triggered(runtime, { id: 1 })).duplicates, side.calls.length]).toEqual([1, 1]);
    await expect(runtime.retry(letter?.id ?? "")).rejects.toMatchObject({ code: "EDGE_GONE" });
    await runtime.stop();

    // The document is corrected: the output goes along the edge, and Work is not called again.
    const refused = recorder();
    const mended = await running(scene, declaresBoth, { work: side.work, after: after.node, refused: refused.node });
    expect(await mended.retry(letter?.id ?? "")).toBe(true);
    expect((await mended.wait(first.id, { timeoutMs: 30_000 })).status).toBe("completed");
    expect([refused.seen, side.calls.length, after.seen.length]).toEqual([[{ why: "closed" }], 1, 1]);
  });

  for (const when of ["before", "after"] as const)
    test(`if the process dies ${when} the commit, there is one dead letter and one effect`, async ({ scene }) => {
      const side = provider();
      const { store, hasDied } = dyingStore(await scene.open(), when, { packet: settlesWork });
      const nodes = { work: side.work, after: () => {} };
      const doomed = await createRuntime({ store, documents: [declaresOne], nodes, leaseMs: shortMs });
      void doomed.trigger("flow", "In", { id: 1 });
      await until("the process has died", hasDied);
      const next = await running(scene, declaresOne, nodes, { leaseMs: shortMs });
      await until("the execution has ended", async () => (await next.executions()).some(({ status }) => status === "dead"));
      expect([side.calls.length, side.applied]).toEqual([when === "before" ? 2 : 1, 1]);
      expect((await next.deadLetters()).map(({ edge }) => edge)).toEqual(["Work.refused->"]);
    });
});

onStores("ports", ["memory"], (test) => {
  const nodes = `In: { operationId: take, kind: source }
Work: { operationId: work, kind: router }
After: { operationId: after, kind: action }`;
  const send = (port: string) => () => new NodeOutput().send(port, { n: 1 });

  test("without declarations, output for a port without an edge is kept as an output, with a note and a warning", async ({ scene }) => {
    const edges = `- { from: In, to: Work, delivery: { mode: durable } }
- { from: Work, to: After, when: "output.name == 'Yes' && payload.n == 1", delivery: { mode: durable } }`;
    const warned = new Promise<Error & { code?: string }>((resolve) => process.once("warning", resolve));
    const runtime = await running(scene, flow({ nodes, edges }), { work: send("Maybe"), after: () => {} });
    const { status, outputs, notes } = await triggered(runtime, {});
    expect([status, outputs]).toEqual(["completed", [{ node: "Work", port: "Maybe", data: { n: 1 } }]]);
    expect(notes.map(({ kind, about }) => [kind, about])).toEqual([["unrouted", "Work.Maybe"]]);
    expect(await warned).toMatchObject({ code: "ONCEFLOW_UNKNOWN_PORT", message: expect.stringContaining('port "Maybe"') });
  });

  test("without declarations, a false condition on the port's edge causes neither note nor warning", async ({ scene }) => {
    const edges = `- { from: In, to: Work, delivery: { mode: durable } }
- { from: Work, to: After, when: "output.name == 'Yes' && payload.n == 2", delivery: { mode: durable } }
- { from: Work, to: After, when: "payload.n == 3", delivery: { mode: durable } }`;
    const runtime = await running(scene, flow({ nodes, edges }), { work: send("Yes"), after: () => {} });
    const { outputs, notes } = await triggered(runtime, {});
    expect([outputs, notes]).toEqual([[], []]);
  });

  test("output of a node without outgoing edges is an output of the execution, independent of the node's declarations", async ({
    scene,
  }) => {
    const last = flow({
      nodes: `In: { operationId: take, kind: source }\nWork: { operationId: work, kind: action, outputs: { out: {} } }`,
      edges: "- { from: In, to: Work, delivery: { mode: durable } }",
    });
    const runtime = await running(scene, last, { work: send("done") });
    const { status, outputs } = await triggered(runtime, {});
    expect([status, outputs.map(({ port }) => port)]).toEqual(["completed", ["done"]]);
  });

  for (const mode of ["direct", "ephemeral"])
    test(`output for an undeclared port after an edge of mode ${mode} is a dead letter, even if the flow stores nothing else`, async ({
      scene,
    }) => {
      const edges = (first: string) => `- { from: In, to: Work, delivery: { mode: ${first} } }
- { from: Work, to: After, delivery: { mode: ${mode} } }`;
      for (const first of ["durable", mode]) {
        const document = flow({ nodes: nodes.replace("kind: router", "kind: router, outputs: { out: {} }"), edges: edges(first) });
        const calls: string[] = [];
        const work = () => {
          calls.push("work");
          return new NodeOutput().send("typo", { n: 1 }).send("out", { n: 2 });
        };
        const runtime = await running(scene, document, { work, after: () => void calls.push("after") });
        const { executionId } = await runtime.trigger("flow", "In", {});
        await until("there is a dead letter", async () => (await runtime.deadLetters()).length === 1);
        await until("the other port is delivered", () => calls.length === 2);
        const [letter] = await runtime.deadLetters();
        expect([letter?.error.code, calls, executionId !== undefined]).toEqual(["UNKNOWN_PORT", ["work", "after"], true]);
        await runtime.discard(letter?.id ?? "");
        await runtime.stop();
      }
    });
});
