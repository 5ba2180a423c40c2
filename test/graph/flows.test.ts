import { InvalidInputError } from "onceflow";
import { createRuntime, NodeError, type NodeInput, NodeOutput } from "onceflow/graph";
import { step, work, workflow } from "onceflow/workflow";
import { expect } from "vitest";
import { CreateTicketNode, type Ticket } from "../../examples/nodes/create-ticket.js";
import { SmsAlertNode } from "../../examples/nodes/sms-alert.js";
import { gate } from "../kit/gate.js";
import { onStores } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { flow, oneEdge } from "./documents.js";
import { eventsOf, expectAtRest, packetStores, recorder, running, still, triggered } from "./runtimes.js";

onStores("triggers", packetStores, (test) => {
  test("a trigger is stored before it resolves: another process delivers it after this one has died", async ({ scene }) => {
    const sender = await running(scene, oneEdge(), {}, { work: false });
    const { executionId = "", status } = await sender.trigger("flow", undefined, { id: 1 }, { traceHeaders: { traceparent: "00-1" } });
    await sender.stop();
    const traces: unknown[] = [];
    const runtime = await running(scene, oneEdge(), { work: ({ context }) => void traces.push(context.traceHeaders) });
    expect(await runtime.wait(executionId)).toMatchObject({ status: "completed", input: { id: 1 } });
    expect([status, traces]).toEqual(["started", [{ traceparent: "00-1" }]]);
  });

  test("a key identifies one trigger, no matter which process sends it, how often, or concurrently", async ({ scene }) => {
    const seen = recorder();
    const one = await running(scene, oneEdge(), { work: seen.node });
    const two = await running(scene, oneEdge(), { work: seen.node });
    const all = await Promise.all(
      Array.from({ length: 8 }, (_, i) => (i % 2 ? one : two).trigger("flow", "In", { id: 1 }, { key: "order-1" })),
    );
    expect(new Set(all.map(({ executionId }) => executionId)).size).toBe(1);
    expect(all.filter(({ status }) => status === "started")).toHaveLength(1);
    const other = await one.trigger("flow", "In", { id: 2 }, { key: "order-1" });
    expect(other).toMatchObject({ status: "duplicate", mismatch: true, executionId: all[0]?.executionId });
    await one.wait(other.executionId ?? "");
    expect(seen.seen).toEqual([{ id: 1 }]);
    await expectAtRest(one);
    await expectAtRest(two);
  });

  test("invalid input is refused, and nothing is written", async ({ scene }) => {
    const document = flow({
      nodes: "In: { operationId: take, kind: source, inputs: { in: { packet: Order } } }\nWork: { operationId: work, kind: action }",
      edges: '- { from: In, to: Work, when: "payload.total > 5", delivery: { mode: durable } }',
      rest: "components: { packets: { Order: { type: object, required: [id], properties: { id: { type: string } } } } }",
    });
    const runtime = await running(scene, document, { work: () => {} });
    const trigger = (...args: unknown[]) => runtime.trigger(...(args as Parameters<typeof runtime.trigger>));
    await expect(trigger("nope", "In", { id: "a" })).rejects.toThrow('flow "nope" not found; flows of this runtime: flow');
    await expect(trigger("flow", "Work", { id: "a" })).rejects.toThrow('has no entry point "Work"; entry points: In');
    await expect(trigger("flow", "In", { id: 5 })).rejects.toThrow(/payload: packet does not match schema "Order": \/id/);
    for (const payload of [null, [], "text", undefined]) await expect(trigger("flow", "In", payload)).rejects.toThrow(/payload/);
    await expect(trigger("flow", "In", { id: "a", f: () => 1 })).rejects.toThrow(/function/);
    await expect(trigger("flow", "In", { id: "a", big: "x".repeat(20_000_000) })).rejects.toThrow(/valueBytesMax/);
    await expect(trigger("flow", "In", { id: "a" }, { key: "" })).rejects.toThrow(/key: is empty/);
    await expect(runtime.wait("nonsense")).rejects.toThrow(/must be an id like ex_/);
    await expect(runtime.wait("nonsense")).rejects.toBeInstanceOf(InvalidInputError);
    await expect(runtime.wait("ex_1")).rejects.toMatchObject({ name: "ExecutionNotFoundError", code: "EXECUTION_NOT_FOUND" });
    for (const wrong of [{ timeoutMs: -1 }, { timeoutMs: "1s" }, { timeout: 5 }])
      await expect(runtime.wait("ex_1", wrong as never)).rejects.toBeInstanceOf(InvalidInputError);
    expect([await runtime.executions(), await runtime.counts()]).toEqual([[], []]);
    // `when` is false for a missing field, and fails for a field of another type.
    expect((await triggered(runtime, { id: "a" })).status).toBe("completed");
    expect((await triggered(runtime, { id: "a", total: "6" })).status).toBe("dead");
    expect((await runtime.deadLetters())[0]?.error).toMatchObject({ code: "VALIDATION", message: expect.stringContaining("when:") });
    expect(await triggered(runtime, { id: "a", total: 1 })).toMatchObject({ status: "completed", outputs: [] });
    await expectAtRest(runtime);
  });
});

still("waiting for an execution does not read its packets until the execution has ended", async ({ time }) => {
  const store = await time.open();
  let looks = 0;
  const packetsOf: typeof store.packets.packetsOf = (...of) => {
    looks += 1;
    return store.packets.packetsOf(...of);
  };
  const packets = Object.create(store.packets, { packetsOf: { value: packetsOf } }) as typeof store.packets;
  const go = gate();
  const runtime = await time.runtime(
    oneEdge(),
    { work: () => go.opened },
    { store: Object.create(store, { packets: { value: packets } }) as typeof store },
  );
  const { executionId = "" } = await runtime.trigger("flow", "In", {});
  const ended = runtime.wait(executionId);
  await time.pass(10_000);
  expect(looks).toBe(0);
  go.open();
  await time.pass(10_000);
  expect([(await ended).status, looks]).toEqual(["completed", 1]);
});

still(
  "a source without a handler accepts only payloads of its output schema; a source with a handler here or in another process accepts any payload",
  async ({ time }) => {
    const order = "components: { packets: { Order: { type: object, required: [id], properties: { id: { type: string } } } } }";
    const document = (outputs: string, packet = "") =>
      flow({
        nodes: `In: { operationId: take, kind: source${outputs} }\nWork: { operationId: work, kind: action }`,
        edges: `- { from: In, to: Work, delivery: { mode: durable${packet} } }`,
        rest: order,
      });
    const bySource = document(", outputs: { out: { packet: Order } }");
    const work = () => {};
    for (const [i, known] of [bySource, document("", ", packet: Order")].entries()) {
      const runtime = await time.runtime(known, { work });
      await expect(runtime.trigger("flow", "In", { id: 5 })).rejects.toThrow(/payload: packet does not match schema "Order": \/id/);
      expect(await runtime.executions()).toHaveLength(i);
      expect((await runtime.trigger("flow", "In", { id: "a" })).status).toBe("started");
      await runtime.idle();
      expect((await runtime.executions())[0]?.status).toBe("completed");
      await runtime.stop();
    }
    const take = () => new NodeOutput().send("out", { id: "made here" });
    const written = await time.runtime(bySource, { take, work });
    const store = await time.open();
    const looking = await time.runtime(bySource, {}, { store, work: false });
    const partial = await time.runtime(bySource, {}, { store, partial: true });
    for (const runtime of [written, looking, partial]) expect((await runtime.trigger("flow", "In", { raw: 5 })).status).toBe("started");
    await written.idle();
  },
);

onStores("flows", packetStores, (test) => {
  test("a paused flow stores triggers and delivers nothing, an archived flow refuses triggers, a resumed flow delivers", async ({
    scene,
  }) => {
    const seen = recorder();
    const runtime = await running(scene, oneEdge(), { work: seen.node });
    const other = await running(scene, oneEdge(), {}, { work: false });
    const events = eventsOf(runtime, "paused", "archived", "resumed");
    await runtime.pause("flow");
    const { executionId = "" } = await other.trigger("flow", "In", {});
    await runtime.trigger("flow", "In", {});
    await runtime.idle();
    expect([seen.seen.length, (await runtime.flows())[0]?.state]).toEqual([0, "paused"]);
    await runtime.archive("flow");
    await expect(other.trigger("flow", "In", {})).rejects.toMatchObject({
      code: "FLOW_ARCHIVED",
      message: expect.stringContaining("is archived and accepts no triggers") as string,
    });
    await expect(other.trigger("none", "In", {})).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(runtime.pause("nope")).rejects.toThrow(/flow "nope" not found/);
    await runtime.resume("flow");
    await runtime.wait(executionId);
    await expectAtRest(runtime);
    expect([seen.seen.length, events]).toEqual([2, ["paused", "archived", "resumed"]]);
  });

  test("stop() during deliveries lets running ones end and returns the others to the queue without counting an attempt", async ({
    scene,
  }) => {
    const document = oneEdge("{ mode: durable }", ", execution: { concurrency: 1 }");
    const [begun, go] = [gate(), gate()];
    const first = await running(scene, document, {
      work: async () => {
        begun.open();
        await go.opened;
        return new NodeOutput().send("out", { a: 1 });
      },
    });
    const ids = [];
    for (let i = 0; i < 3; i++) ids.push((await first.trigger("flow", "In", { i })).executionId ?? "");
    await begun.opened;
    const stopping = first.stop({ graceMs: 60_000 });
    await expect(first.trigger("flow", "In", {})).rejects.toThrow(/has been stopped/);
    go.open();
    await stopping;
    await first.idle();
    expect(first.metrics.inFlight).toBe(0);
    const attempts: number[] = [];
    const second = await running(scene, document, { work: ({ context }) => void attempts.push(context.attempt) });
    for (const id of ids) expect((await second.wait(id, { timeoutMs: 20_000 })).status).toBe("completed");
    expect(attempts).toHaveLength(2);
  });

  test("stop() returns a packet that waits for its node to the queue without delivering it", async ({ scene }) => {
    const document = flow({
      nodes: `A: { operationId: a, kind: source }
B: { operationId: b, kind: source }
Work: { operationId: work, kind: action, execution: { concurrency: 1 } }`,
      edges: "- { from: A, to: Work, delivery: { mode: durable } }\n- { from: B, to: Work, delivery: { mode: durable } }",
    });
    const sources = await running(scene, document, {}, { partial: true });
    const ids = [];
    for (const entry of ["A", "B"]) ids.push((await sources.trigger("flow", entry, {})).executionId ?? "");
    await sources.idle();
    await sources.stop();
    const [begun, go] = [gate(), gate()];
    let calls = 0;
    const first = await running(scene, document, {
      work: async () => {
        calls += 1;
        begun.open();
        await go.opened;
      },
    });
    await begun.opened;
    // One packet of each edge was claimed: this process owns both, and one waits.
    await until("both are with it", async () => (await first.counts()).reduce((sum, { owned }) => sum + owned, 0) === 2);
    const stopping = first.stop({ graceMs: 60_000 });
    go.open();
    await stopping;
    expect([calls, first.metrics.inFlight]).toEqual([1, 0]);
    const second = await running(scene, document, {
      work: () => {
        calls += 1;
      },
    });
    for (const id of ids) expect((await second.wait(id, { timeoutMs: 20_000 })).status).toBe("completed");
    expect(calls).toBe(2);
  });

  test("a runtime whose store is closed stops and refuses triggers", async ({ scene }) => {
    const store = await scene.open();
    const runtime = await running(scene, oneEdge(), { work: () => {} }, { store });
    await triggered(runtime, {});
    await store.close();
    await expect(runtime.trigger("flow", "In", {})).rejects.toThrow(/stopped/);
    await runtime.idle();
  });

  test("the runtime reports events in order and counts them", async ({ scene }) => {
    let calls = 0;
    const document = oneEdge(
      '{ mode: durable, idempotencyKey: "{{payload.id}}-x", retryPolicy: { maxAttempts: 2, initialDelay: PT0.01S } }',
    );
    const runtime = await running(scene, document, {
      work: () => {
        calls += 1;
        if (calls === 1) throw new Error("once more");
      },
    });
    const events = eventsOf(runtime);
    runtime.on(() => {
      throw new Error("the listener failed");
    });
    await triggered(runtime, { id: "a" });
    await triggered(runtime, { id: "a" });
    await expectAtRest(runtime);
    expect(events).toEqual([
      ...[
        "triggered In",
        "delivering In 1",
        "processed In 1",
        "delivering Work 1",
        "retrying Work 1",
        "delivering Work 2",
        "processed Work 2",
      ],
      ...["ended completed", "triggered In", "delivering In 1", "processed In 1", "acknowledged Work", "ended completed"],
    ]);
    expect(runtime.metrics).toMatchObject({ triggered: 2, processed: 3, retried: 1, acknowledged: 1, dead: 0, ended: 2, inFlight: 0 });
    const { nodes } = runtime.metrics;
    expect(nodes.map(({ node, processed }) => [node, processed]).sort()).toEqual([
      ["In", 2],
      ["Work", 1],
    ]);
  });

  test("wait() times out, and the execution continues", async ({ scene }) => {
    const go = gate();
    const runtime = await running(scene, oneEdge(), { work: () => go.opened });
    const { executionId = "" } = await runtime.trigger("flow", "In", {});
    await expect(runtime.wait(executionId, { timeoutMs: 20 })).rejects.toMatchObject({
      name: "WaitTimeoutError",
      code: "WAIT_TIMEOUT",
      retryable: true,
      executionId,
    });
    go.open();
    expect((await runtime.wait(executionId)).status).toBe("completed");
  });

  test("a trigger's key is scoped to its flow; the same key at another entry point of the flow is a mismatch", async ({ scene }) => {
    const titled = (title: string) => ({
      text: `flowdsl: "1.0"
info: { title: ${title}, version: "1.0.0" }
nodes: { A: { operationId: a, kind: source }, B: { operationId: b, kind: source }, W: { operationId: w, kind: action } }
edges: [{ from: A, to: W, delivery: { mode: durable } }, { from: B, to: W, delivery: { mode: durable } }]`,
    });
    const calls: string[] = [];
    const nodes = { w: ({ context }: NodeInput) => void calls.push(context.flowId) };
    const runtime = await createRuntime({ store: await scene.open(), documents: [titled("One"), titled("Two")], nodes });
    scene.onEnd(() => runtime.stop());
    const trigger = (flow: string, entry: string) => runtime.trigger(flow, entry, { id: 1 }, { key: "k" });
    expect((await trigger("one", "A")).status).toBe("started");
    expect((await trigger("two", "A")).status).toBe("started");
    expect(await trigger("one", "A")).toMatchObject({ status: "duplicate", mismatch: false });
    expect(await trigger("one", "B")).toMatchObject({ status: "duplicate", mismatch: true });
    await runtime.idle();
    expect(calls.toSorted()).toEqual(["one", "two"]);
  });

  test("edges of mode stream that the store delivers are durable, keyed and ordered per partition", async ({ scene }) => {
    const document = oneEdge(
      '{ mode: stream, topic: orders, ordering: perKey, partitionKey: "{{payload.account}}", idempotencyKey: "{{payload.id}}-work", retryPolicy: { maxAttempts: 1 } }',
    );
    await expect(running(scene, document, { work: recorder().node })).rejects.toMatchObject({ code: "UNSUPPORTED_FIELDS" });
    const seen: string[] = [];
    const others = gate();
    const nodes = {
      work: async (input: NodeInput) => {
        const id = input.packet("in").getString("id");
        if (id === "a-9") throw new NodeError("PERMANENT", "no");
        // The first packet of a partition is slow: the packets behind it wait, another partition does not.
        if (id === "b-2") others.open();
        if (id === "a-1") await others.opened;
        seen.push(`${id} ${input.context.idempotencyKey}`);
      },
    };
    // No worker takes packets of that edge yet, so the sent packets are in the store and in no process.
    const sender = await running(scene, document, {}, { partial: true, streams: "store" });
    const ids: string[] = [];
    for (const id of ["a-1", "b-1", "a-2", "a-1", "b-2", "a-9"]) {
      ids.push((await sender.trigger("flow", "In", { id, account: id[0] })).executionId ?? "");
      await sender.idle();
    }
    await sender.stop();
    const runtime = await running(scene, document, nodes, { streams: "store" });
    const ended = await Promise.all(ids.map((id) => runtime.wait(id)));
    expect(ended.map(({ status, duplicates }) => `${status} ${duplicates}`)).toEqual([
      ...["completed 0", "completed 0", "completed 0", "completed 1", "completed 0", "dead 0"],
    ]);
    for (const account of ["a", "b"])
      expect(seen.filter((each) => each.startsWith(account))).toEqual([`${account}-1 ${account}-1-work`, `${account}-2 ${account}-2-work`]);
    expect((await runtime.deadLetters()).map(({ queue }) => queue)).toEqual(["orders.dead-letter"]);
    await expectAtRest(runtime);
  });

  test("a subworkflow node runs another flow or a durable workflow once per packet", async ({ scene }) => {
    const parent = flow({
      nodes: `In: { operationId: take, kind: source }
Child: { operationId: child, kind: subworkflow, settings: { flow: child } }
Durable: { operationId: durable, kind: subworkflow, settings: { workflow: double } }`,
      edges: "- { from: In, to: Child, delivery: { mode: durable } }\n- { from: Child, to: Durable, delivery: { mode: durable } }",
    });
    const child = { text: oneEdge().text.replace("title: Flow", "title: Child"), file: "child.yaml" };
    const store = await scene.open();
    const twice = step(scene.name("twice"), async (n: number) => n * 2);
    const double = workflow(scene.name("double"), async ({ n }: { n: number }) => ({ n: await twice(n) }));
    const worker = await work(store);
    scene.onEnd(() => worker.stop());
    const nodes = {
      work: (input: { packet(port: string): { getNumber(path: string): number } }) =>
        new NodeOutput().send("out", { n: input.packet("in").getNumber("n") + 1 }),
    };
    const runtime = await createRuntime({ store, documents: [parent, child], nodes, workflows: { double } as never });
    scene.onEnd(() => runtime.stop({ graceMs: 0 }));
    const ended = await triggered(runtime, { n: 20 });
    expect([ended.status, ended.outputs.map(({ data }) => data)]).toEqual(["completed", [{ n: 42 }]]);
    expect((await runtime.executions()).map(({ flow: of }) => of).sort()).toEqual(["child", "flow"]);
    await expectAtRest(runtime);
  });
});

still("subworkflows that do not exist or form a cycle are refused", async ({ time }) => {
  const sub = (settings: string) =>
    flow({
      nodes: `In: { operationId: take, kind: source }\nSub: { operationId: sub, kind: subworkflow, settings: ${settings} }`,
      edges: "- { from: In, to: Sub, delivery: { mode: durable } }",
    });
  await expect(time.runtime(sub("{ flow: nowhere }"), {})).rejects.toThrow('flow "nowhere" is not in the runtime');
  await expect(time.runtime(sub("{ workflow: nope }"), {})).rejects.toThrow('"nope" is not in the runtime');
  await expect(time.runtime(sub("{}"), {})).rejects.toThrow(/must name the flow or workflow to run/);
  await expect(time.runtime(sub("{ flow: flow }"), {})).rejects.toThrow(/runs itself/);
});

still("the examples' nodes run on the example document", async ({ time }) => {
  const document = flow({
    nodes: `ClassifyEmail: { operationId: classify, kind: source }
SendSmsAlert: { operationId: send_sms_alert, kind: action }
CreateTicket: { operationId: create_support_ticket, kind: action }`,
    edges: `- from: ClassifyEmail
  to: SendSmsAlert
  delivery:
    mode: durable
    store: mongo
    packet: AlertPayload
    idempotencyKey: "{{payload.messageId}}-sms-alert"
- from: ClassifyEmail
  to: CreateTicket
  delivery: { mode: durable, idempotencyKey: "{{payload.messageId}}-ticket" }`,
    rest: "components: { packets: { AlertPayload: { type: object, required: [messageId], properties: { messageId: { type: string } } } } }",
  });
  const [sent, table]: [string[], Map<string, Ticket>] = [[], new Map()];
  const sms = new SmsAlertNode({ send: async ({ idempotencyKey = "" }) => ({ sid: `SM${sent.push(idempotencyKey)}`, status: "queued" }) });
  const tickets = new CreateTicketNode(
    { create: async ({ subject }) => ({ id: `T-${table.size}`, subject }) },
    { byKey: async (key) => table.get(key), keep: async (key, ticket) => void table.set(key, ticket) },
  );
  // The document names MongoDB; the option makes it run on the runtime's store.
  const nodes = { [sms.operationId]: sms, [tickets.operationId]: tickets };
  await expect(time.runtime(document, nodes)).rejects.toMatchObject({ code: "UNSUPPORTED_FIELDS" });
  const runtime = await time.runtime(document, nodes, { substitutes: ["store"] });
  for (let i = 0; i < 3; i++) await triggered(runtime, { messageId: "m-1", email: { messageId: "m-1", subject: "Help" } });
  expect([sent, [...table.keys()], runtime.metrics.acknowledged]).toEqual([["m-1-sms-alert"], ["m-1-ticket"], 4]);
});
