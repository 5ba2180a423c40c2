import { Hono } from "hono";
import { key, once, open } from "onceflow";
import { create } from "onceflow/flow";
import { createRuntime, NodeOutput } from "onceflow/graph";
import { currentAttempt, idempotent } from "onceflow/http";
import { idempotency } from "onceflow/http/hono";
import { createInbox } from "onceflow/inbox";
import { createOutbox } from "onceflow/outbox";
import { deliver, deliverTwice, EffectLedger, mockNodeInput, testWorkflows } from "onceflow/testing";
import { getStepMetadata, step, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Store } from "../core/store/store.js";
import type { DeliverTwiceOptions } from "./deliver-twice.js";

let store: Store;
let effects: EffectLedger;

beforeEach(async () => {
  store = await open("memory:");
  // Without honoursKeys every call is an effect, so a duplicate call cannot hide.
  effects = new EffectLedger({ honoursKeys: false });
});
afterEach(async () => {
  await store.close();
});

async function charge(): Promise<string> {
  await new Promise((resolve) => void setImmediate(resolve));
  return effects.call("charge", { result: "ch_1" });
}

describe.each<Required<DeliverTwiceOptions>>([{ mode: "concurrent" }, { mode: "sequential" }])("$mode deliveries", (options) => {
  const concurrent = options.mode === "concurrent";

  test("of a call of once", async () => {
    const results = await deliverTwice(() => once(store, { key: key.of("charge:o-1") }, charge), options);
    expect(results.map(({ status, value }) => [status, value])).toEqual([
      ["executed", "ch_1"],
      ["replayed", "ch_1"],
    ]);
    expect(effects.applied("charge")).toBe(1);
  });

  test("of a flow", async () => {
    const payment = create<string>("payment", { idempotency: store }).step("charge", charge);
    const results = await deliverTwice(() => payment.run("o-1", { key: "payment:o-1", onRunning: "wait" }), options);
    expect(results.map(({ status }) => status)).toEqual(["completed", "completed"]);
    expect(effects.applied("charge")).toBe(1);
  });

  test("of the start of a run", async () => {
    await using t = await testWorkflows({ effects });
    const chargeStep = step("twice: charge", async () => t.effects.call(getStepMetadata().stepId, { result: "ch_1" }));
    const checkout = workflow("twice: checkout", async () => await chargeStep());
    const [first, second] = await deliverTwice(() => start(checkout, [], { id: "checkout:o-1" }), options);
    expect(first.id).toBe(second.id);
    expect(await t.result(first)).toBe("ch_1");
    t.expectCalls(chargeStep, 1);
  });

  test("of a request to a Fetch handler", async () => {
    const handler = idempotent(async () => Response.json({ id: await charge(), attempt: currentAttempt()?.number }, { status: 201 }), {
      store,
      scope: "ann",
    });
    const request = () => new Request("http://shop.test/orders", { method: "POST", headers: { "Idempotency-Key": "o-1" }, body: "{}" });
    const responses = await deliverTwice(() => handler(request()), options);
    expect(responses.map(({ status }) => status)).toEqual(concurrent ? [201, 409] : [201, 201]);
    expect(effects.applied("charge")).toBe(1);
  });

  test("of a request to a framework", async () => {
    const app = new Hono();
    app.use(idempotency({ store, scope: () => "ann", onRunning: "wait" }));
    app.post("/orders", async (c) => c.json({ id: await charge() }, 201));
    const headers = { "Idempotency-Key": "o-1" };
    const send = async () => app.request("/orders", { method: "POST", headers, body: "{}" });
    const [first, second] = await deliverTwice(send, options);
    expect([first.status, second.status, second.headers.get("Idempotent-Replayed")]).toEqual([201, 201, "true"]);
    expect(await second.text()).toBe(await first.text());
    expect(effects.applied("charge")).toBe(1);
  });

  test("of a message to an inbox", async () => {
    const inbox = createInbox(store, { consumer: "billing" });
    const handled = await deliverTwice(() => inbox.handle({ id: "m-1", payload: "o-1" }, charge), options);
    expect(handled.map(({ status }) => status)).toEqual(["processed", "duplicate"]);
    expect(effects.applied("charge")).toBe(1);
  });

  test("of a packet to a node", async () => {
    const node = async () => {
      await charge();
      return new NodeOutput();
    };
    const input = mockNodeInput("in", { id: "o-1" }, { idempotencyKey: "o-1-charge" });
    const delivered = await deliverTwice(() => deliver(node, input, { store }), options);
    expect(delivered.map(({ status }) => status)).toEqual(["processed", "acknowledged"]);
    expect(effects.applied("charge")).toBe(1);
  });

  test("of a trigger of a flow graph", async () => {
    const text = `
flowdsl: "1.0"
info: { title: Orders, version: "1.0.0" }
nodes:
  Take: { operationId: take, kind: source }
  Charge: { operationId: charge, kind: action }
edges:
  - { from: Take, to: Charge, delivery: { mode: durable, idempotencyKey: "{{payload.id}}-charge" } }
`;
    const runtime = await createRuntime({ store, documents: [{ text }], nodes: { charge: async () => void (await charge()) } });
    const triggered = await deliverTwice(() => runtime.trigger("orders", "Take", { id: "o-1" }, { key: "o-1" }), options);
    expect(triggered.map(({ status }) => status)).toEqual(["started", "duplicate"]);
    expect((await runtime.wait(triggered[0].executionId ?? "")).status).toBe("completed");
    expect(effects.applied("charge")).toBe(1);
    await runtime.stop();
  });

  test("of a message to an outbox", async () => {
    const outbox = createOutbox<string>(store, { name: "orders", retentionMs: 60_000 });
    const ids = await deliverTwice(() => outbox.add(undefined, { id: "o-1-placed", payload: "o-1" }), options);
    expect(ids).toEqual(["o-1-placed", "o-1-placed"]);
    const published: string[] = [];
    const relay = outbox.relay(({ payload }) => void published.push(payload));
    await expect.poll(() => outbox.pending()).toEqual({ due: 0, waiting: 0, publishing: 0, dead: 0 });
    expect(published).toEqual(["o-1"]);
    await relay.stop();
  });

  test("have two effects where no key protects them", async () => {
    await deliverTwice(charge, options);
    expect(effects.applied("charge")).toBe(2);
  });
});

describe("deliverTwice", () => {
  test("begins the second delivery before the first has ended, or after it", async () => {
    const events: string[] = [];
    const work = async () => {
      events.push("begin");
      await Promise.resolve();
      events.push("end");
    };
    await deliverTwice(work);
    await deliverTwice(work, { mode: "sequential" });
    expect(events).toEqual(["begin", "begin", "end", "end", "begin", "end", "begin", "end"]);
  });

  test("throws what a delivery throws: after both have ended, or at once", async () => {
    let calls = 0;
    const failing = () => Promise.reject(new Error(`call ${++calls}`));
    await expect(deliverTwice(failing)).rejects.toThrow("call 1");
    expect(calls).toBe(2);
    await expect(deliverTwice(failing, { mode: "sequential" })).rejects.toThrow("call 3");
    expect(calls).toBe(3);
  });

  test("rejects options that it does not have", async () => {
    await expect(deliverTwice(charge, { mod: "sequential" } as never)).rejects.toThrow('did you mean "mode"?');
    await expect(deliverTwice(charge, { mode: "later" } as never)).rejects.toThrow('must be "concurrent" or "sequential"');
    await expect(deliverTwice("charge" as never)).rejects.toThrow("needs a function");
    expect(effects.applied("charge")).toBe(0);
  });
});
