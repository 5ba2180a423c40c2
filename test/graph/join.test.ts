import { NodeError, NodeOutput, type Runtime } from "onceflow/graph";
import { expect } from "vitest";
import { onStores } from "../kit/scene.js";
import { flow } from "./documents.js";
import { expectAtRest, packetStores, running, still, triggered } from "./runtimes.js";

const diamond = (left = "{ mode: durable }", right = "{ mode: durable }", when = "") =>
  flow({
    nodes: `In: { operationId: take, kind: source }
Left: { operationId: left, kind: transform }
Right: { operationId: right, kind: transform }
Join:
  operationId: join
  kind: action
  inputs: { a: {}, b: {} }`,
    edges: `- { from: In, to: Left, delivery: { mode: durable, retryPolicy: { maxAttempts: 1 } } }
- { from: In, to: Right, delivery: { mode: durable, retryPolicy: { maxAttempts: 1 } } }
- { from: Left, to: Join.a, delivery: ${left} }
- { from: Right, to: Join.b, ${when} delivery: ${right} }`,
  });

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

  test("a branch that ended as a duplicate ends its join as a duplicate", async ({ scene }) => {
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
      ["joinClosed", "duplicate"],
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

  test("a branch whose condition is false leaves the other part unjoined", async ({ scene }) => {
    const { nodes } = joining();
    const runtime = await running(scene, diamond(undefined, undefined, 'when: "payload.id > 5",'), nodes);
    const ended = await triggered(runtime, { id: 1 });
    expect([ended.status, (await runtime.deadLetters()).map(({ error }) => error.message)]).toEqual([
      "dead",
      ["the other ports of its node will not be filled: their branches have ended"],
    ]);
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
