import { createRuntime, type FlowNode, NodeError } from "onceflow/graph";
import { expect } from "vitest";
import { mortal } from "../../../src/testing/mortal-store.js";
import { flow, oneEdge } from "../documents.js";
import { type Still, still } from "../runtimes.js";

const plain = oneEdge("{ mode: durable }");
const document = plain;
const leaseMs = 1000;
const hangs = () => new Promise<void>(() => {});

/** Returns a runtime that sends triggers, after two workers in a row have died with these packets. */
async function suspects(time: Still, ids: readonly string[], document = plain) {
  const sender = await time.runtime(document, {}, { work: false });
  const trigger = async (id: string) => (await sender.trigger("flow", "In", { id })).executionId ?? "";
  const executions = Object.fromEntries(await Promise.all(ids.map(async (id) => [id, await trigger(id)] as const)));
  for (let deaths = 0; deaths < 2; deaths += 1) {
    const dying = mortal(await time.open());
    await createRuntime({ store: dying.store, documents: [document], nodes: { work: hangs }, leaseMs });
    await time.pass(10);
    dying.die();
    await time.pass(leaseMs + 500);
  }
  return { trigger, statusOf: async (id: string) => (await sender.execution(executions[id] ?? ""))?.status };
}

/** A node whose calls end when the test ends them. Records which calls ran concurrently. */
class Works {
  readonly log: string[] = [];
  readonly #ends = new Map<string, () => void>();

  readonly node: FlowNode = async (input) => {
    const id = String(input.packet("in").data["id"]);
    this.log.push([...this.#ends.keys(), id].join(" beside "));
    await new Promise<void>((end) => this.#ends.set(id, end));
    this.#ends.delete(id);
  };

  end(id: string): void {
    this.#ends.get(id)?.();
  }
}

still("packets that two dead workers in a row owned are delivered one at a time, and other packets wait", async ({ time }) => {
  const { trigger, statusOf } = await suspects(time, ["a", "b"]);
  const { log, node, end } = bound(new Works());
  await time.runtime(document, { work: node }, { leaseMs, pollMs: 100 });
  await time.pass(200);
  expect(log).toEqual(["a"]);
  await trigger("c");
  await time.pass(500);
  expect(log).toEqual(["a"]);
  end("a");
  await time.pass(200);
  // Either the other suspect or the new packet, but not both.
  end("b");
  end("c");
  await time.pass(200);
  end("b");
  end("c");
  await time.pass(200);
  expect(log.toSorted()).toEqual(["a", "b", "c"]);
  expect([await statusOf("a"), await statusOf("b")]).toEqual(["completed", "completed"]);
});

still("a suspect whose worker survives for two leases is delivered with other packets again", async ({ time }) => {
  const { trigger, statusOf } = await suspects(time, ["a"]);
  const { log, node, end } = bound(new Works());
  await time.runtime(document, { work: node }, { leaseMs, pollMs: 100 });
  await time.pass(100);
  await trigger("b");
  await time.pass(1000);
  expect(log).toEqual(["a"]);
  await time.pass(1200);
  expect(log).toEqual(["a", "a beside b"]);
  end("a");
  end("b");
  await time.pass(100);
  expect(await statusOf("a")).toBe("completed");
});

still("a suspect is returned to the queue while other deliveries take longer than a lease, and is delivered later", async ({ time }) => {
  const { log, node, end } = bound(new Works());
  const runtime = await time.runtime(document, { work: node }, { leaseMs, pollMs: 100, concurrency: 2 });
  for (const id of ["slow", "other"]) await runtime.trigger("flow", "In", { id });
  await time.pass(100);
  // This worker has no capacity for the packets of the workers that die.
  const { trigger, statusOf } = await suspects(time, ["a"]);
  end("other");
  await time.pass(200);
  await trigger("quick");
  await time.pass(500);
  // New packets wait for the suspect, which waits for the slow delivery.
  expect(log).toEqual(["slow", "slow beside other"]);
  await time.pass(1000);
  expect(log.slice(2)).toEqual(["slow beside quick"]);
  end("slow");
  end("quick");
  await time.pass(7 * leaseMs);
  expect(log.slice(3)).toEqual(["a"]);
  end("a");
  await time.pass(100);
  expect(await statusOf("a")).toBe("completed");
});

still("a suspect that fails permanently becomes a dead letter, and its alert names the packet", async ({ time }) => {
  const alerting = oneEdge(
    "{ mode: durable }",
    ', x-alerts: { onDeadLetter: { webhook: "http://127.0.0.1:1/", message: "about {{ packet.id }}" } }',
  );
  const { statusOf } = await suspects(time, ["a"], alerting);
  const fails = () => {
    throw new NodeError("PERMANENT", "no");
  };
  const runtime = await time.runtime(alerting, { work: fails }, { leaseMs, pollMs: 100 });
  await time.pass(200);
  expect(await statusOf("a")).toBe("dead");
  expect((await runtime.deadLetters()).map(({ error }) => error.code)).toEqual(["PERMANENT"]);
});

still("a packet for a subworkflow node whose code kills its workers becomes a dead letter", async ({ time }) => {
  const document = flow({
    nodes: "In: { operationId: take, kind: source }\nWork: { operationId: work, kind: subworkflow }",
    edges: "- { from: In, to: Work, delivery: { mode: durable } }",
  });
  const sender = await time.runtime(document, { work: hangs }, { work: false });
  const { executionId = "" } = await sender.trigger("flow", "In", { id: "a" });
  let deaths = 0;
  for (let isCalled = true; isCalled && deaths < 10; ) {
    isCalled = false;
    const dying = mortal(await time.open());
    const dies = () => {
      isCalled = true;
      return hangs();
    };
    await createRuntime({ store: dying.store, documents: [document], nodes: { work: dies }, leaseMs, crashMax: 2 });
    await time.pass(10);
    if (!isCalled) break;
    deaths += 1;
    dying.die();
    await time.pass(leaseMs + 500);
  }
  expect(await sender.execution(executionId)).toMatchObject({ status: "dead" });
  expect(deaths).toBe(5);
});

still("a worker that always has deliveries longer than a lease still delivers a suspect", async ({ time }) => {
  const running = new Map<string, { readonly untilAt: number; readonly end: () => void }>();
  let [now, isDelivered] = [0, false];
  const node: FlowNode = async (input) => {
    const id = String(input.packet("in").data["id"]);
    if (id === "a") isDelivered = true;
    else await new Promise<void>((end) => running.set(id, { untilAt: now + 2.5 * leaseMs, end }));
  };
  const runtime = await time.runtime(document, { work: node }, { leaseMs, pollMs: 100, concurrency: 3 });
  for (const id of ["x", "y", "z"]) await runtime.trigger("flow", "In", { id });
  await time.pass(100);
  // This worker has no capacity for the packet of the workers that die.
  const { trigger, statusOf } = await suspects(time, ["a"]);
  for (; now < 60 * leaseMs && !isDelivered; now += leaseMs) {
    const [oldest] = running;
    if (oldest !== undefined && (running.size === 3 || oldest[1].untilAt <= now)) {
      running.delete(oldest[0]);
      oldest[1].end();
    }
    if (running.size < 2) await trigger(String(now));
    await time.pass(leaseMs);
  }
  expect(now).toBeGreaterThan(2 * leaseMs);
  expect(await statusOf("a")).toBe("completed");
});

function bound(works: Works) {
  return { log: works.log, node: works.node, end: (id: string) => works.end(id) };
}
