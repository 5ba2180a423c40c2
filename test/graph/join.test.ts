import { NodeError, NodeOutput, type Runtime } from "onceflow/graph";
import { expect } from "vitest";
import { gate } from "../kit/gate.js";
import { onStores } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { flow } from "./documents.js";
import { eventsOf, expectAtRest, packetStores, running, still, triggered } from "./runtimes.js";

const nodesOfDiamond = (ports: string) => `In: { operationId: take, kind: source }
Left: { operationId: left, kind: transform }
Right: { operationId: right, kind: transform }
Join:
  operationId: join
  kind: action
  inputs: ${ports}`;

const edgesOfDiamond = (
  when = "",
  left = "{ mode: durable }",
  right = "{ mode: durable }",
) => `- { from: In, to: Left, delivery: { mode: durable, retryPolicy: { maxAttempts: 1 } } }
- { from: In, to: Right, delivery: { mode: durable, retryPolicy: { maxAttempts: 1 } } }
- { from: Left, to: Join.a, delivery: ${left} }
- { from: Right, to: Join.b, ${when} delivery: ${right} }`;

const diamond = (left = "{ mode: durable }", right = "{ mode: durable }", when = "", ports = "{ a: {}, b: {} }") =>
  flow({ nodes: nodesOfDiamond(ports), edges: edgesOfDiamond(when, left, right) });

function joining() {
  const joined: unknown[] = [];
  const broken = new Set<string>();
  const side = (name: string) => (input: { packet(port: string): { data: Readonly<Record<string, unknown>> } }) => {
    if (broken.has(name)) throw new NodeError("PERMANENT", `${name} is broken`);
    return new NodeOutput().send("out", { ...input.packet("in").data, [name]: true });
  };
  const nodes = {
    left: side("left"),
    right: side("right"),
    join: (input: { ports: readonly string[]; packet(port: string): { data: unknown } }) => {
      if (broken.has("join")) throw new NodeError("PERMANENT", "join is broken");
      joined.push(input.ports.toSorted().map((port) => [port, input.packet(port).data]));
    },
  };
  return { joined, broken, nodes };
}

onStores("joins", packetStores, (test) => {
  test("a node with two ports is called when both ports have a packet", async ({ scene }) => {
    const { joined, nodes } = joining();
    const runtime = await running(scene, diamond(), nodes);
    expect((await triggered(runtime, { id: 1 })).status).toBe("completed");
    expect(joined).toEqual([
      [
        ["a", { id: 1, left: true }],
        ["b", { id: 1, right: true }],
      ],
    ]);
    await expectAtRest(runtime);
  });

  test("parts of one execution are joined in order, port by port; parts of two executions are never joined", async ({ scene }) => {
    const { joined, nodes } = joining();
    const twice = (name: string) => (input: { packet(port: string): { get<T>(path: string): T } }) =>
      new NodeOutput()
        .send("out", { n: 1, id: input.packet("in").get("id"), name })
        .send("out", { n: 2, id: input.packet("in").get("id"), name });
    const runtime = await running(scene, diamond(), { ...nodes, left: twice("left"), right: twice("right") });
    const all = await Promise.all(["x", "y"].map((id) => runtime.trigger("flow", "In", { id })));
    for (const { executionId = "" } of all) expect((await runtime.wait(executionId)).status).toBe("completed");
    const pairs = joined.map((ports) => (ports as [string, { id: string; n: number }][]).map(([, { id, n }]) => `${id}${n}`).join());
    expect(pairs.sort()).toEqual(["x1,x1", "x2,x2", "y1,y1", "y2,y2"]);
  });

  test("a join that needs the port of a branch that was a duplicate is skipped", async ({ scene }) => {
    const { joined, nodes } = joining();
    const keyed = diamond().text.replace(
      "to: Left, delivery: { mode: durable,",
      'to: Left, delivery: { mode: durable, idempotencyKey: "{{payload.id}}-left",',
    );
    const runtime = await running(scene, { text: keyed }, nodes);
    await triggered(runtime, { id: "o" });
    const again = await triggered(runtime, { id: "o" });
    expect([again.status, again.dead, joined.length]).toEqual(["completed", 0, 1]);
    expect(again.notes.map(({ kind, about }) => [kind, about])).toEqual([
      ["duplicate", "o-left"],
      ["joinSkipped", "Join.a"],
    ]);
    expect(await runtime.deadLetters()).toEqual([]);
    await expectAtRest(runtime);
  });

  test("if one branch dies, the part of the other becomes a dead letter; both join when they are retried", async ({ scene }) => {
    const { joined, broken, nodes } = joining();
    const runtime = await running(scene, diamond(), nodes);
    broken.add("left");
    const dead = await triggered(runtime, { id: 1 });
    const letters = await runtime.deadLetters();
    expect([dead.status, dead.dead, letters.map(({ edge, error }) => [edge, error.code]).sort()]).toEqual([
      "dead",
      2,
      [
        ["In->Left.in", "PERMANENT"],
        ["Right->Join.b", "INPUT_MISSING"],
      ],
    ]);
    broken.clear();
    const part = letters.find(({ edge }) => edge.startsWith("Right"));
    const branch = letters.find(({ edge }) => edge.startsWith("In"));
    expect(await runtime.retry(part?.id ?? "")).toBe(true);
    expect(await runtime.retry(branch?.id ?? "")).toBe(true);
    await runtime.wait(dead.id);
    await runtime.idle();
    expect([(await runtime.execution(dead.id))?.status, joined.length, await runtime.deadLetters()]).toEqual(["completed", 1, []]);
    await expectAtRest(runtime);
  });

  test("a joined delivery that died shows the packets of all its ports, and is retried as one", async ({ scene }) => {
    const { joined, broken, nodes } = joining();
    const runtime = await running(scene, diamond(), nodes);
    broken.add("join");
    await triggered(runtime, { id: 1 });
    const [letter, ...others] = await runtime.deadLetters();
    expect(others).toEqual([]);
    expect((await runtime.deadLetter(letter?.id ?? ""))?.payload).toEqual({ a: { id: 1, left: true }, b: { id: 1, right: true } });
    broken.clear();
    await runtime.retry(letter?.id ?? "");
    await runtime.idle();
    expect(joined).toHaveLength(1);
  });

  test("a condition that is false: the join is skipped, and the execution is completed", async ({ scene }) => {
    const { joined, nodes } = joining();
    const runtime = await running(scene, diamond(undefined, undefined, 'when: "payload.id > 5",'), nodes);
    const events = eventsOf(runtime, "closed", "dead");
    const ended = await triggered(runtime, { id: 1 });
    expect([ended.status, ended.dead, joined, await runtime.deadLetters()]).toEqual(["completed", 0, [], []]);
    expect(ended.notes.map(({ kind, about }) => [kind, about])).toEqual([["joinSkipped", "Join.b"]]);
    expect(events).toEqual(["closed Join"]);
    expect((await triggered(runtime, { id: 6 })).status).toBe("completed");
    expect(joined).toHaveLength(1);
    await expectAtRest(runtime);
  });

  test("a condition that is false before an optional port: the node gets the other port", async ({ scene }) => {
    const { joined, nodes } = joining();
    const document = diamond(undefined, undefined, 'when: "payload.id > 5",', "{ a: {}, b: { required: false } }");
    const runtime = await running(scene, document, nodes);
    const ended = await triggered(runtime, { id: 1 });
    expect([ended.status, joined]).toEqual(["completed", [[["a", { id: 1, left: true }]]]]);
    expect(ended.notes.map(({ kind, about }) => [kind, about])).toEqual([["joinReleased", "Join.b"]]);
    await expectAtRest(runtime);
  });

  test("a node that sends nothing, and a branch that was a duplicate, fill no optional port", async ({ scene }) => {
    const { joined, nodes } = joining();
    const keyed = diamond(undefined, undefined, undefined, "{ a: {}, b: { required: false } }").text.replace(
      "to: Right, delivery: { mode: durable,",
      'to: Right, delivery: { mode: durable, idempotencyKey: "{{payload.id}}-right",',
    );
    const runtime = await running(scene, { text: keyed }, { ...nodes, right: () => undefined });
    await triggered(runtime, { id: "o" });
    const again = await triggered(runtime, { id: "o" });
    expect([again.status, joined.map((ports) => (ports as unknown[]).length)]).toEqual(["completed", [1, 1]]);
    expect(again.notes.map(({ kind }) => kind)).toEqual(["duplicate", "joinReleased"]);
  });

  test("a slow branch elsewhere does not hold up the join", async ({ scene }) => {
    const { joined, nodes } = joining();
    const slow = gate();
    const document = flow({
      nodes: `${nodesOfDiamond("{ a: {}, b: { required: false } }")}
Slow: { operationId: slow, kind: action }`,
      edges: `${edgesOfDiamond('when: "payload.id > 5",')}
- { from: In, to: Slow, delivery: { mode: durable } }`,
    });
    const runtime = await running(scene, document, { ...nodes, slow: () => slow.opened });
    const { executionId = "" } = await runtime.trigger("flow", "In", { id: 1 });
    await until("the join is delivered", () => joined.length === 1);
    expect((await runtime.execution(executionId))?.status).toBe("running");
    slow.open();
    expect((await runtime.wait(executionId)).status).toBe("completed");
  });

  test("a skipped join decides the join behind it, and branches that meet again are joined once", async ({ scene }) => {
    const calls: string[][] = [];
    const pass = (input: { packet(port: string): { data: Readonly<Record<string, unknown>> }; ports: readonly string[] }) =>
      new NodeOutput().send("out", input.packet(input.ports[0] ?? "in").data);
    const document = flow({
      nodes: `In: { operationId: in, kind: source }
A: { operationId: a, kind: transform }
B: { operationId: b, kind: transform }
First: { operationId: first, kind: transform, inputs: { a: {}, b: {} } }
Last: { operationId: last, kind: action, inputs: { x: {}, y: { required: false } } }`,
      edges: `- { from: In, to: A, delivery: { mode: durable } }
- { from: In, to: B, when: "payload.b", delivery: { mode: durable } }
- { from: A, to: First.a, delivery: { mode: durable } }
- { from: B, to: First.b, delivery: { mode: durable } }
- { from: A, to: Last.x, delivery: { mode: durable } }
- { from: First, to: Last.y, delivery: { mode: durable } }`,
    });
    const runtime = await running(scene, document, {
      ...{ a: pass, b: pass, first: pass },
      last: (input: { ports: readonly string[] }) => void calls.push([...input.ports].sort()),
    });
    const without = await triggered(runtime, { b: false });
    expect(without.notes.map(({ kind, about }) => [kind, about])).toEqual([
      ["joinSkipped", "First.b"],
      ["joinReleased", "Last.y"],
    ]);
    await triggered(runtime, { b: true });
    expect(calls).toEqual([["x"], ["x", "y"]]);
    await expectAtRest(runtime);
  });

  test("a dead branch is waited for, also before an optional port; when it is discarded, the part is delivered at its retry", async ({
    scene,
  }) => {
    const { joined, broken, nodes } = joining();
    const runtime = await running(scene, diamond(undefined, undefined, undefined, "{ a: {}, b: { required: false } }"), nodes);
    broken.add("right");
    const dead = await triggered(runtime, { id: 1 });
    expect([dead.status, joined]).toEqual(["dead", []]);
    const letters = await runtime.deadLetters();
    const idOf = (edge: string) => letters.find((letter) => letter.edge.startsWith(edge))?.id ?? "";
    await runtime.discard(idOf("In"));
    await runtime.retry(idOf("Left"));
    await runtime.idle();
    expect([(await runtime.execution(dead.id))?.status, joined, await runtime.deadLetters()]).toEqual([
      "completed",
      [[["a", { id: 1, left: true }]]],
      [],
    ]);
  });

  test("a packet in memory before the join: its mark keeps the join waiting until it is delivered", async ({ scene }) => {
    const { joined, nodes } = joining();
    const held = gate();
    const document = flow({
      nodes: nodesOfDiamond("{ a: {}, b: { required: false } }"),
      edges: edgesOfDiamond().replace(
        "to: Right, delivery: { mode: durable, retryPolicy: { maxAttempts: 1 } }",
        "to: Right, delivery: { mode: ephemeral }",
      ),
    });
    const right = async (input: Parameters<typeof nodes.right>[0]) => {
      await held.opened;
      return nodes.right(input);
    };
    const runtime = await running(scene, document, { ...nodes, right });
    const parts = () => runtime.counts().then((all) => all.find(({ queue }) => queue === "Left->Join.a")?.parts);
    const { executionId = "" } = await runtime.trigger("flow", "In", { id: 1 });
    await until("the left part waits", async () => (await parts()) === 1);
    held.open();
    await runtime.wait(executionId);
    expect(joined.map((ports) => (ports as unknown[]).length)).toEqual([2]);
  });
});

still("a part becomes a dead letter when its wait expires", async ({ time }) => {
  const { joined, nodes } = joining();
  const slow = { ...nodes, left: () => new Promise<void>(() => {}) };
  const runtime: Runtime = await time.runtime(diamond(), slow, { joinWaitMs: 60_000, timeoutMs: 3_600_000 });
  const { executionId = "" } = await runtime.trigger("flow", "In", { id: 1 });
  await time.pass(0);
  await time.pass(59_000);
  expect(await runtime.deadLetters()).toEqual([]);
  await time.pass(2000);
  expect((await runtime.deadLetters()).map(({ error }) => error.message)).toEqual(["the other ports of its node were not filled in time"]);
  expect([(await runtime.execution(executionId))?.status, joined]).toEqual(["running", []]);
});

still("an ephemeral edge cannot lead to a join", async ({ time }) => {
  for (const mode of ["direct", "ephemeral"])
    await expect(time.runtime(diamond(`{ mode: ${mode} }`), joining().nodes)).rejects.toThrow(/JOIN_NOT_KEPT|make the edge durable/);
});
