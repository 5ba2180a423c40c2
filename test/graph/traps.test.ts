import { NotKnownError, type Store, StoreRefusedError } from "onceflow";
import { BaseNode, createRuntime, type FlowNode, NodeOutput, type Runtime } from "onceflow/graph";
import { expect, test } from "vitest";
import type { Batch } from "../../src/core/ledger/operation.js";
import type { PacketOperation } from "../../src/core/packets/operation.js";
import { gate } from "../kit/gate.js";
import { onStores } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { flow, oneEdge } from "./documents.js";
import { eventsOf, expectAtRest, running, still, triggered } from "./runtimes.js";

const once = "{ mode: durable, retryPolicy: { maxAttempts: 1 } }";

/** This runtime also runs After, so it reserves capacity for the packet that Work sends. */
const chain = flow({
  nodes: `In: { operationId: take, kind: source }
Work: { operationId: work, kind: action }
After: { operationId: after, kind: action }`,
  edges: `- { from: In, to: Work, delivery: ${once} }\n- { from: Work, to: After, delivery: ${once} }`,
});

async function lastError(runtime: Runtime): Promise<readonly [string, string] | undefined> {
  const [letter] = await runtime.deadLetters();
  return letter && [letter.error.code, letter.error.message];
}

onStores("a node", ["memory"], (test) => {
  test.for<[string, FlowNode, string, RegExp]>([
    [
      "returns a plain object",
      (() => ({ a: 1 })) as never,
      "PERMANENT",
      /must return a NodeOutput or nothing, not something of type object/,
    ],
    ["returns null", (() => null) as never, "PERMANENT", /not null/],
    ["throws a text", () => raise("boom"), "ERROR", /^boom$/],
    ["throws nothing", () => raise(undefined), "ERROR", /undefined/],
    ["throws an object without a prototype", () => raise(Object.create(null)), "ERROR", /./],
    ["throws what has no text", () => raise({ toString: () => raise("no") }), "ERROR", /./],
    ["throws an error whose message is no text", () => raise(Object.assign(new Error(), { message: { a: 1 } })), "ERROR", /./],
    ["throws a lone surrogate", () => raise(new Error("\ud800")), "ERROR", /\ufffd/],
    ["sends a function", () => new NodeOutput().send("out", { f: () => 1 }), "PERMANENT", /function/],
    [
      "sends a cyclic value, which cannot be stored",
      () => new NodeOutput().send("out", new Proxy({}, { ownKeys: () => raise(new Error("no keys")) })),
      "PERMANENT",
      /./,
    ],
    [
      "sends more than a packet may hold",
      () => new NodeOutput().send("out", { text: "x".repeat(3_000_000) }),
      "PERMANENT",
      /valueBytesMax/,
    ],
  ])(
    "that %s causes a dead letter after one attempt, and its reserved capacity is released",
    async ([, node, code, message], { scene }) => {
      let calls = 0;
      const work: FlowNode = (input) => {
        calls += 1;
        return (node as (given: typeof input) => never)(input);
      };
      const patient = chain.text.replace("{ maxAttempts: 1 }", "{ maxAttempts: 3, initialDelay: PT0S }");
      const text = code === "ERROR" ? chain.text : patient;
      const runtime = await running(scene, { text }, { work, after: () => {} }, { store: await scene.open({ valueBytesMax: 100_000 }) });
      expect((await triggered(runtime, { id: 1 })).status).toBe("dead");
      const error = await lastError(runtime);
      expect([error?.[0], calls]).toEqual([code, 1]);
      expect(error?.[1]).toMatch(message);
      await expectAtRest(runtime);
    },
  );

  test("cannot change a packet after it was sent", async ({ scene }) => {
    const seen: unknown[] = [];
    const work: FlowNode = () => {
      const data = { list: [1], member: { a: 1 } };
      const output = new NodeOutput().send("out", data);
      queueMicrotask(() => {
        data.list.push(2);
        data.member.a = 2;
      });
      return output;
    };
    const after: FlowNode = (input) => {
      seen.push(input.packet("in").data);
    };
    const runtime = await running(scene, chain, { work, after });
    await triggered(runtime, { id: 1 });
    expect(seen).toEqual([{ list: [1], member: { a: 1 } }]);
  });

  test("whose output the store refuses causes a dead letter, nothing is sent, and the reserved capacity is released", async ({ scene }) => {
    const document = flow({
      nodes: `In: { operationId: take, kind: source }
Work: { operationId: work, kind: action }
After: { operationId: after, kind: action }
Aside: { operationId: aside, kind: action }`,
      edges: `- { from: In, to: Work, delivery: ${once} }
- { from: Work, to: After, delivery: ${once} }
- { from: Work, to: Aside, delivery: { mode: ephemeral } }`,
    });
    const store = refusing(
      await scene.open(),
      (batch) => batch.packet?.verb === "settlePacket" && batch.packet.packets.some(({ queue }) => queue.includes("After")),
    );
    const calls: string[] = [];
    const nodes = {
      work: () => new NodeOutput().send("out", { a: 1 }),
      after: () => void calls.push("after"),
      aside: () => void calls.push("aside"),
    };
    const runtime = await running(scene, document, nodes, { store });
    const events = eventsOf(runtime, "processed", "dead");
    expect((await triggered(runtime, {})).status).toBe("dead");
    expect(await lastError(runtime)).toEqual(["PERMANENT", "the database says no"]);
    await expectAtRest(runtime);
    expect([calls, events]).toEqual([[], ["processed In 1", "dead Work 1"]]);
    expect(runtime.metrics).toMatchObject({ processed: 1, dead: 1 });
  });

  test("whose dead letter the store refuses as well is reported, and the reserved capacity is released", async ({ scene }) => {
    const store = refusing(
      await scene.open(),
      (batch) => batch.packet?.verb === "settlePacket" && batch.packet.attempt > 0 && batch.packet.to.kind !== "release" && refused,
    );
    let refused = false;
    const runtime = await running(
      scene,
      chain,
      {
        work: () => {
          refused = true;
          return new NodeOutput().send("out", {});
        },
        after: () => {},
      },
      { store },
    );
    const events = eventsOf(runtime, "storeTrouble");
    await runtime.trigger("flow", "In", {});
    await until("the failure is reported", () => events.length > 0);
    await until("the capacity is released", () => runtime.metrics.inFlight === 0);
  });

  test("gets the packets of a claim whose reply was lost as a first attempt, after they were returned to the queue", async ({ scene }) => {
    const inner = await scene.open();
    let lost = 0;
    const packets = Object.create(inner.packets, {
      claim: {
        value: async (query: never) => {
          const claims = await inner.packets.claim(query);
          if (claims.claimed.length === 0 || lost > 0) return claims;
          lost += 1;
          throw new NotKnownError("the reply was lost");
        },
      },
    });
    const store = Object.create(inner, { packets: { value: packets } }) as Store;
    const attempts: number[] = [];
    const sender = await running(scene, oneEdge(once), {}, { work: false });
    const { executionId = "" } = await sender.trigger("flow", "In", {});
    const runtime = await running(scene, oneEdge(once), { work: ({ context }) => void attempts.push(context.attempt) }, { store });
    expect(await runtime.wait(executionId, { timeoutMs: 20_000 })).toMatchObject({ status: "completed", dead: 0 });
    expect([lost, attempts]).toEqual([1, [1]]);
    await expectAtRest(runtime);
  });

  test("is never called beyond the concurrency limit while triggers and polls overlap, and the count never becomes negative", async ({
    scene,
  }) => {
    let [now, most] = [0, 0];
    const document = oneEdge("{ mode: durable, maxInFlight: 2 }", ", execution: { concurrency: 2 }");
    const runtime = await running(
      scene,
      document,
      {
        work: async () => {
          now += 1;
          most = Math.max(most, now);
          await new Promise<void>((resolve) => setImmediate(resolve));
          now -= 1;
        },
      },
      { concurrency: 4 },
    );
    const all = await Promise.all(Array.from({ length: 60 }, (_, id) => runtime.trigger("flow", "In", { id })));
    for (const { executionId = "" } of all) expect((await runtime.wait(executionId)).status).toBe("completed");
    expect(most).toBe(2);
    await expectAtRest(runtime);
  });

  test("with a concurrency of 1 and two incoming edges gets one packet at a time", async ({ scene }) => {
    const document = flow({
      nodes: `A: { operationId: a, kind: source }
B: { operationId: b, kind: source }
Work: { operationId: work, kind: action, execution: { concurrency: 1 } }`,
      edges: `- { from: A, to: Work, delivery: { mode: durable } }\n- { from: B, to: Work, delivery: { mode: durable } }`,
    });
    const sender = await running(scene, document, {}, { work: false });
    const ids = [];
    for (let i = 0; i < 10; i++) ids.push((await sender.trigger("flow", i % 2 === 0 ? "A" : "B", { i })).executionId ?? "");
    let [now, most] = [0, 0];
    const runtime = await running(scene, document, {
      work: async () => {
        now += 1;
        most = Math.max(most, now);
        await new Promise<void>((resolve) => setImmediate(resolve));
        now -= 1;
      },
    });
    for (const id of ids) expect((await runtime.wait(id)).status).toBe("completed");
    expect(most).toBe(1);
    await expectAtRest(runtime);
  });
});

still("a trigger that the store refuses and one whose reply is lost permanently reserve no capacity", async ({ time }) => {
  const inner = await time.open();
  const handled: string[] = [];
  let fault: "refuse" | "lose" | undefined = "refuse";
  const commit = async (batch: Batch) => {
    if (!("packet" in batch) || batch.packet.verb !== "sendPackets" || fault === undefined) return await inner.commit(batch as never);
    if (fault === "refuse") throw new StoreRefusedError("the database says no");
    await inner.commit(batch as never);
    throw new NotKnownError("the reply was lost");
  };
  const store = Object.create(inner, { commit: { value: commit } }) as Store;
  const runtime = await time.runtime(oneEdge(once), { work: ({ context }) => void handled.push(context.executionId) }, { store });
  await expect(runtime.trigger("flow", "In", {})).rejects.toThrow("the database says no");
  expect(runtime.metrics.inFlight).toBe(0);
  fault = "lose";
  const failed = runtime.trigger("flow", "In", {}).catch((error: unknown) => error);
  await time.pass(10_000);
  expect(await failed).toBeInstanceOf(NotKnownError);
  // The packet was written and claimed for this process, which does not know that: it is returned to the queue and delivered.
  fault = undefined;
  await time.pass(1000);
  expect([handled.length, runtime.metrics.inFlight]).toEqual([1, 0]);
});

function raise(error: unknown): never {
  throw error;
}

/** The same store, except that it refuses the commits that `which` selects. */
function refusing(store: Store, which: (batch: { readonly packet?: Extract<Batch, { packet: unknown }>["packet"] }) => boolean): Store {
  const commit = async (batch: Batch) => {
    if (which(batch as never)) throw new StoreRefusedError("the database says no");
    return await store.commit(batch as never);
  };
  return Object.create(store, { commit: { value: commit } }) as Store;
}

test("invalid options are refused before anything is opened", async () => {
  class Two extends BaseNode {
    readonly operationId = "work";
    handle(): void {}
  }
  const { open } = await import("onceflow");
  const store = await open("memory:");
  const good = { store, documents: [oneEdge()], nodes: { work: () => {} } };
  const refused: [object, RegExp][] = [
    [{ store: undefined }, /store: must be a store from open/],
    [{ documents: "x" }, /documents: must be a list/],
    [{ documents: [null] }, /source: must be a path/],
    [{ documents: [5] }, /source: must be a path/],
    [{ documents: ["/nowhere.yaml"] }, /FLOW_UNREADABLE/],
    [{ documents: [oneEdge("{ mode: nonsense }")] }, /FLOW_BAD_VALUE/],
    [{ documents: [oneEdge(), oneEdge()] }, /two documents define flow "flow"/],
    [{ nodes: {} }, /missing nodes: work \(flow flow\)/],
    [{ nodes: { work: 5 } }, /nodes.work must be a function/],
    [{ nodes: [null] }, /BaseNode/],
    [{ nodes: [new Two(), new Two()] }, /two nodes have the operationId "work"/],
    [{ documents: [oneEdge("{ mode: stream, topic: t }")] }, /flow documents use fields that this runtime does not support/],
    [{ timeoutMS: 5 }, /timeoutMS: is not an option; did you mean "timeoutMs"/],
    [{ concurrency: 0 }, /concurrency: must be a whole number from 1/],
    [{ leaseMs: 1 }, /leaseMs/],
    [{ pollMs: 0 }, /pollMs/],
    [{ timeoutMs: -1 }, /timeoutMs/],
    [{ graceMs: Number.NaN }, /graceMs/],
    [{ crashMax: 1.5 }, /crashMax/],
    [{ joinWaitMs: "1d" }, /joinWaitMs/],
    [{ onMismatch: "ignore" }, /onMismatch/],
    [{ streams: "kafka" }, /streams/],
    [{ retentionMs: -5 }, /retentionMs/],
    [{ deadLetterRetentionMs: "month" }, /deadLetterRetentionMs/],
  ];
  for (const [wrong, message] of refused)
    await expect(createRuntime({ ...good, ...wrong } as never), String(message)).rejects.toThrow(message);
  await store.close();
});

test("a store without packet support is refused, and the error names the store", async () => {
  const { open } = await import("onceflow");
  const store = await open("memory:");
  const bare = Object.create(store, { packets: { value: undefined } }) as Store;
  await expect(createRuntime({ store: bare, documents: [] })).rejects.toThrow("[memory] this store does not support packets");
  await store.close();
});

still("capacity that was reserved for a duplicate trigger is available at once, even if nothing else happens", async ({ time }) => {
  const open = await time.open();
  // These commits are stored, and their replies arrive when the gates open.
  const [settled, again] = [gate(), gate()];
  let delays = true;
  const commit = async ({ packet }: { readonly packet: PacketOperation }) => {
    const answer = await open.commit({ packet });
    if (packet.verb === "settlePacket" && delays) await settled.opened;
    if (answer.kind === "triggered") await again.opened;
    return answer;
  };
  const store = new Proxy(open, { get: (target, name) => (name === "commit" ? commit : Reflect.get(target, name, target)) });
  const seen: unknown[] = [];
  const take: FlowNode = (input) => void seen.push(input.packet("in").get("id"));
  const runtime = await time.runtime(oneEdge(), { take, work: () => {} }, { store, concurrency: 1 });
  await runtime.trigger("flow", "In", { id: 1 }, { key: "one" });
  await time.pass(100);
  // The node has returned, so the next trigger can reserve its capacity.
  const duplicate = runtime.trigger("flow", "In", { id: 1 }, { key: "one" });
  await runtime.trigger("flow", "In", { id: 2 });
  delays = false;
  settled.open();
  await time.pass(100);
  expect([seen, runtime.metrics.inFlight]).toEqual([[1], 1]);
  again.open();
  expect((await duplicate).status).toBe("duplicate");
  await time.pass(100);
  expect([seen, runtime.metrics.inFlight]).toEqual([[1, 2], 0]);
});
