import { createRuntime, NodeOutput } from "onceflow/graph";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { onStores } from "../../kit/scene.js";
import { flow, oneEdge } from "../documents.js";
import { doomed, eventsOf, expectAtRest, packetStores, running, still } from "../runtimes.js";

const line = (recovery: string, key = "") =>
  flow({
    nodes: `In: { operationId: take, kind: source }\nA: { operationId: a, kind: transform }\nB: { operationId: b, kind: action }`,
    edges: `- { from: In, to: A, delivery: { mode: checkpoint } }\n- { from: A, to: B, delivery: { mode: checkpoint, ${key} recovery: ${recovery} } }`,
  });

/** A process dies in B and another one starts. Returns which process called which nodes then, and how the execution ended. */
async function death(scene: Parameters<typeof running>[0], document: ReturnType<typeof line>) {
  const log: string[] = [];
  const inB = gate();
  const a = (who: string) => (input: { packet(port: string): { data: Readonly<Record<string, unknown>> } }) => {
    log.push(`a by ${who}`);
    return new NodeOutput().send("out", input.packet("in").data);
  };
  const { runtime: first, mortal } = await doomed(scene, document, {
    a: a("first"),
    b: async () => {
      log.push("b by first");
      inB.open();
      await new Promise(() => {});
    },
  });
  const { executionId = "" } = await first.trigger("flow", "In", { id: "o-1" });
  await inB.opened;
  mortal.die();
  const runtime = await running(scene, document, { a: a("second"), b: () => void log.push("b by second") }, { pollMs: 100 });
  const execution = await runtime.wait(executionId, { timeoutMs: 30_000 });
  await expectAtRest(runtime);
  return {
    log: log.slice(2),
    status: execution.status,
    notes: execution.notes.map(({ kind }) => kind),
    letters: await runtime.deadLetters(),
  };
}

onStores("recovery after a worker died with a packet", packetStores, (test) => {
  test("replayFromCheckpoint, the default, delivers the packet again from the last stage", async ({ scene }) => {
    expect(await death(scene, line("{ strategy: replayFromCheckpoint }"))).toMatchObject({
      log: ["b by second"],
      status: "completed",
      notes: ["crashed"],
    });
  });

  test("replayFrom delivers again from the named stage", async ({ scene }) => {
    const found = await death(scene, line("{ strategy: replayFromCheckpoint, replayFrom: A }"));
    expect(found).toMatchObject({ log: ["a by second", "b by second"], status: "completed", notes: ["crashed", "restarted"] });
  });

  test("replayFromEntrypoint delivers again from the entry point, even if the packet's own edge has a key", async ({ scene }) => {
    const found = await death(scene, line("{ strategy: replayFromEntrypoint }", 'idempotencyKey: "{{payload.id}}-b",'));
    expect(found).toMatchObject({ log: ["a by second", "b by second"], status: "completed", notes: ["crashed", "restarted"] });
  });

  test("skip drops the packet and leaves a note", async ({ scene }) => {
    expect(await death(scene, line("{ strategy: skip }"))).toMatchObject({
      log: [],
      status: "completed",
      notes: ["crashed", "skipped"],
      letters: [],
    });
  });

  test("fail makes the packet a dead letter with that reason", async ({ scene }) => {
    const found = await death(scene, line("{ strategy: fail }"));
    expect(found).toMatchObject({ log: [], status: "dead", letters: [{ error: { code: "CRASHED" } }] });
  });

  test("a completed key on the path would stop a replay, so the packet is delivered again where it was", async ({ scene }) => {
    const text = line("{ strategy: replayFromEntrypoint }").text.replace(
      "to: A, delivery: { mode: checkpoint",
      'to: A, delivery: { mode: checkpoint, idempotencyKey: "{{payload.id}}-a"',
    );
    expect(await death(scene, { text, file: "flow.yaml" })).toMatchObject({
      log: ["b by second"],
      status: "completed",
      notes: ["crashed"],
    });
  });
});

still("a packet that kills every worker becomes a dead letter, and worker deaths do not count as failed attempts", async ({ time }) => {
  const { mortal } = await import("../../../src/testing/mortal-store.js");
  const document = oneEdge("{ mode: durable, retryPolicy: { maxAttempts: 1 } }");
  const sender = await time.runtime(document, {}, { work: false });
  const { executionId = "" } = await sender.trigger("flow", "In", {});
  // Two deaths while it is delivered with others, then one more than `crashMax` while it is delivered alone.
  for (let deaths = 0; deaths < 5; deaths++) {
    const dying = mortal(await time.open());
    // This runtime is not stopped: its store no longer answers.
    const work = () => new Promise<void>(() => {});
    await createRuntime({ store: dying.store, documents: [document], nodes: { work }, crashMax: 2, leaseMs: 1000 });
    await time.pass(0);
    await time.pass(1500);
    dying.die();
    await time.pass(1500);
  }
  const runtime = await time.runtime(document, { work: () => {} }, { crashMax: 2 });
  await time.pass(1000);
  const [letter] = await runtime.deadLetters();
  expect([letter?.error.code, letter?.attempts, (await runtime.execution(executionId))?.status]).toEqual(["CRASHED", 6, "dead"]);
});

still("a worker whose lease expired reports leaseLost, its delivery is aborted, and its late result is ignored", async ({ time }) => {
  const inner = await time.open();
  let cut = false;
  const packets = Object.create(inner.packets, {
    renew: { value: async (...args: [number, number]) => (cut ? await new Promise<never>(() => {}) : await inner.packets.renew(...args)) },
  });
  const store = Object.create(inner, { packets: { value: packets } });
  const [begun, go] = [gate(), gate()];
  const document = flow({
    nodes: `In: { operationId: take, kind: source }\nA: { operationId: a, kind: transform }\nB: { operationId: b, kind: action }`,
    edges: "- { from: In, to: A, delivery: { mode: durable } }\n- { from: A, to: B, delivery: { mode: ephemeral } }",
  });
  const calls: string[] = [];
  const first = await time.runtime(
    document,
    {
      a: async () => {
        begun.open();
        await go.opened;
        return new NodeOutput().send("out", { from: "first" });
      },
      b: () => void calls.push("b by first"),
    },
    { store, leaseMs: 3000 },
  );
  const events = eventsOf(first, "processed", "leaseLost");
  const { executionId = "" } = await first.trigger("flow", "In", {});
  await begun.opened;
  cut = true;
  const second = await time.runtime(document, { a: () => void calls.push("a by second"), b: () => {} }, { leaseMs: 3000 });
  await time.pass(5000);
  expect((await second.execution(executionId))?.status).toBe("completed");
  cut = false;
  go.open();
  await time.pass(5000);
  expect([calls, events.includes("processed A 1"), first.metrics.inFlight]).toEqual([["a by second"], false, 0]);
});
