import { NodeError } from "onceflow/graph";
import { EffectLedger } from "onceflow/testing";
import { expect } from "vitest";
import { gate } from "../kit/gate.js";
import { onStores } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { oneEdge } from "./documents.js";
import { doomed, eventsOf, expectAtRest, packetStores, recorder, running, triggered } from "./runtimes.js";

const keyed = oneEdge('{ mode: durable, idempotencyKey: "{{payload.messageId}}-sms-alert" }');
const scope = "flow.idempotency_keys";

onStores("the five steps of a keyed delivery", packetStores, (test) => {
  test("1. before delivering a packet, the runtime computes the idempotency key", async ({ scene }) => {
    const keys: unknown[] = [];
    const runtime = await running(scene, keyed, { work: ({ context }) => void keys.push(context.idempotencyKey) });
    await triggered(runtime, { messageId: "m-1" });
    expect(keys).toEqual(["m-1-sms-alert"]);
  });

  test("2. it looks for a record of that key in the scope of the flow", async ({ scene }) => {
    const store = await scene.open();
    const work = recorder();
    const runtime = await running(scene, keyed, { work: work.node }, { store });
    await triggered(runtime, { messageId: "m-1" });
    const [record] = await store.list({ scope, limit: 10 });
    expect(record?.record).toMatchObject({ scope, key: "m-1-sms-alert", state: "completed" });
  });

  test("3. completed: acknowledged without calling the node", async ({ scene }) => {
    const work = recorder();
    const runtime = await running(scene, keyed, { work: work.node });
    const events = eventsOf(runtime, "processed", "acknowledged");
    await triggered(runtime, { messageId: "m-1" });
    const second = await triggered(runtime, { messageId: "m-1" });
    expect(work.seen).toHaveLength(1);
    expect(second).toMatchObject({ status: "completed", duplicates: 1, dead: 0 });
    expect(second.notes.map(({ kind, about }) => [kind, about])).toEqual([["duplicate", "m-1-sms-alert"]]);
    expect(events).toEqual(["processed In 1", "processed Work 1", "processed In 1", "acknowledged Work"]);
    await expectAtRest(runtime);
  });

  test("4. in progress: held until that execution completes, then acknowledged", async ({ scene }) => {
    const [begun, go] = [gate(), gate()];
    let calls = 0;
    const runtime = await running(scene, keyed, {
      work: async () => {
        calls += 1;
        begun.open();
        await go.opened;
      },
    });
    const first = await runtime.trigger("flow", "In", { messageId: "m-1" });
    await begun.opened;
    const second = await runtime.trigger("flow", "In", { messageId: "m-1" });
    await until("the second packet is held", async () => (await runtime.counts()).some(({ held }) => held === 1));
    expect((await runtime.execution(second.executionId ?? ""))?.status).toBe("running");
    go.open();
    expect((await runtime.wait(first.executionId ?? "")).duplicates).toBe(0);
    expect((await runtime.wait(second.executionId ?? "")).duplicates).toBe(1);
    expect(calls).toBe(1);
    await expectAtRest(runtime);
  });

  test("5. not found: delivered, and marked completed only after the node has returned", async ({ scene }) => {
    const store = await scene.open();
    const during: unknown[] = [];
    const look = async () => (await store.list({ scope, limit: 10 })).map(({ record }) => record.state);
    const runtime = await running(scene, keyed, { work: async () => void during.push(await look()) }, { store });
    expect(await look()).toEqual([]);
    await triggered(runtime, { messageId: "m-1" });
    expect(during).toEqual([["running"]]);
    expect(await look()).toEqual(["completed"]);
  });
});

onStores("keys of edges", packetStores, (test) => {
  test("a held packet is delivered as its own first attempt when the other packet fails permanently", async ({ scene }) => {
    const [begun, go] = [gate(), gate()];
    const attempts: string[] = [];
    const runtime = await running(scene, keyed, {
      work: async ({ context }) => {
        attempts.push(`${context.executionId} ${context.attempt}`);
        if (attempts.length > 1) return;
        begun.open();
        await go.opened;
        throw new NodeError("PERMANENT", "no such number");
      },
    });
    const first = await runtime.trigger("flow", "In", { messageId: "m-1" });
    await begun.opened;
    const second = await runtime.trigger("flow", "In", { messageId: "m-1" });
    await until("the second packet is held", async () => (await runtime.counts()).some(({ held }) => held === 1));
    go.open();
    expect((await runtime.wait(first.executionId ?? "")).status).toBe("dead");
    expect((await runtime.wait(second.executionId ?? "")).status).toBe("completed");
    expect(attempts).toEqual([`${first.executionId} 1`, `${second.executionId} 1`]);
    await expectAtRest(runtime);
  });

  test("a packet that waits for its retry keeps the key", async ({ scene }) => {
    const edge =
      '{ mode: durable, idempotencyKey: "{{payload.id}}-op", retryPolicy: { maxAttempts: 3, initialDelay: PT0.2S, backoff: fixed } }';
    let calls = 0;
    const runtime = await running(scene, oneEdge(edge), {
      work: () => {
        calls += 1;
        if (calls === 1) throw new NodeError("TEMPORARY", "busy");
      },
    });
    const events = eventsOf(runtime, "retrying", "acknowledged");
    const first = await runtime.trigger("flow", "In", { id: "o-1" });
    await until("the first packet waits for its retry", () => events.includes("retrying Work 1"));
    const second = await runtime.trigger("flow", "In", { id: "o-1" });
    for (const { executionId = "" } of [first, second]) await runtime.wait(executionId);
    expect([calls, events]).toEqual([2, ["retrying Work 1", "acknowledged Work"]]);
  });

  test("if the process that runs the key dies, another process delivers its packet and acknowledges the held one", async ({ scene }) => {
    const effects = new EffectLedger({ honoursKeys: true });
    const begun = gate();
    const { runtime: first, mortal } = await doomed(scene, keyed, {
      work: async ({ context }) => {
        await effects.call(context.idempotencyKey ?? "", { result: "sent" });
        begun.open();
        await new Promise(() => {});
      },
    });
    const one = await first.trigger("flow", "In", { messageId: "m-1" });
    await begun.opened;
    const runtime = await running(
      scene,
      keyed,
      {
        work: async ({ context }) => {
          expect(context.attempt).toBe(2);
          await effects.call(context.idempotencyKey ?? "", { result: "sent" });
        },
      },
      { pollMs: 100 },
    );
    const two = await runtime.trigger("flow", "In", { messageId: "m-1" });
    mortal.die();
    expect(await runtime.wait(one.executionId ?? "", { timeoutMs: 30_000 })).toMatchObject({ status: "completed", duplicates: 0 });
    expect(await runtime.wait(two.executionId ?? "", { timeoutMs: 30_000 })).toMatchObject({ status: "completed", duplicates: 1 });
    expect([effects.rawCalls("m-1-sms-alert"), effects.applied("m-1-sms-alert")]).toEqual([2, 1]);
    await expectAtRest(runtime);
  });

  test("a key that was completed with another payload: the packet is acknowledged with a note, or a dead letter if onMismatch says so", async ({
    scene,
  }) => {
    const work = recorder();
    const runtime = await running(scene, keyed, { work: work.node });
    await triggered(runtime, { messageId: "m-1", text: "a" });
    const other = await triggered(runtime, { messageId: "m-1", text: "b" });
    expect([other.status, other.notes.map(({ kind }) => kind)]).toEqual(["completed", ["mismatch"]]);
    const strict = await running(scene, keyed, { work: work.node }, { onMismatch: "deadLetter" });
    await runtime.stop();
    const dead = await triggered(strict, { messageId: "m-1", text: "c" });
    expect(dead).toMatchObject({ status: "dead", dead: 1 });
    const [letter] = await strict.deadLetters();
    expect(letter).toMatchObject({ key: "m-1-sms-alert", error: { code: "MISMATCH" } });
    expect(work.seen).toHaveLength(1);
    await expectAtRest(strict);
  });

  test.for([
    ["{{payload.orderId}}-charge-payment", "o-1-charge-payment"],
    ["{{payload.messageId}}-sms-alert", "m-1-sms-alert"],
    ["{{payload.documentId}}-summarize-v2", "d-1-summarize-v2"],
    ["{{payload.orderId}}", "o-1"],
    ["{{payload.id}}", "i-1"],
    ["{{flowId}}/{{operationId}}/{{payload.nested.id}}", "flow/work/n-1"],
  ])("the key %s is %s", async ([template = "", key], { scene }) => {
    const keys: unknown[] = [];
    const document = oneEdge(`{ mode: durable, idempotencyKey: "${template}" }`);
    const runtime = await running(scene, document, { work: ({ context }) => void keys.push(context.idempotencyKey) });
    await triggered(runtime, { orderId: "o-1", messageId: "m-1", documentId: "d-1", id: "i-1", nested: { id: "n-1" } });
    expect(keys).toEqual([key]);
  });

  test("a missing field of the key makes a VALIDATION dead letter instead of a key with the text undefined", async ({ scene }) => {
    const work = recorder();
    const runtime = await running(scene, keyed, { work: work.node });
    for (const payload of [{}, { messageId: undefined }, { messageId: null }, { messageId: { a: 1 } }, { messageId: "" }]) {
      const execution = await triggered(runtime, { ...payload });
      expect(execution).toMatchObject({ status: "dead", dead: 1 });
    }
    const letters = await runtime.deadLetters();
    expect(letters).toHaveLength(5);
    for (const letter of letters) {
      expect([letter.error.code, letter.key, letter.attempts]).toEqual(["VALIDATION", undefined, 0]);
      expect(letter.error.message).toContain("idempotencyKey {{payload.messageId}}-sms-alert: payload.messageId");
      expect(letter.error.message).not.toContain("undefined-");
    }
    expect([work.seen, await (await scene.open()).list({ scope, limit: 10 })]).toEqual([[], []]);
    await expectAtRest(runtime);
  });
});
