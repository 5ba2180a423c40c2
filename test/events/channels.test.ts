import { key, once, open, type Store } from "onceflow";
import { eventNames, subscribe } from "onceflow/events";
import { idempotent } from "onceflow/http";
import { createInbox } from "onceflow/inbox";
import { createOutbox } from "onceflow/outbox";
import { memoryTarget } from "onceflow/testing";
import { step, work, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { channels } from "../../src/core/events/channels.js";
import { gate } from "../kit/gate.js";
import { attemptLeases } from "./attempt-leases.js";
import { eventually, heard } from "./heard.js";

let store: Store;
beforeEach(async () => {
  store = await open("memory:");
  onTestFinished(() => store.close());
});

test("a call of once, its duplicate, a waiting one, another input, and a handler that throws", async () => {
  const events = heard("onceflow:once");
  const ask = (input: string, onRunning: "wait" | "return" = "wait") =>
    once(store, { key: key.of("k"), scope: "s", input, onRunning }, async () => {
      if (input === "first") expect((await ask("first", "return")).status).toBe("running");
      return "the result";
    });
  await ask("first");
  await ask("first");
  await expect(ask("other")).rejects.toThrow();
  await expect(once(store, { key: key.of("t") }, () => Promise.reject(new Error("the message")))).rejects.toThrow();
  expect(events).toMatchObject([
    { store: "memory", scope: "s", key: "k", answer: "running", attempt: 1 },
    { answer: "executed", attempt: 1 },
    { answer: "replayed", attempt: 1 },
    { answer: "mismatch", attempt: 1 },
    { key: "t", answer: "threw", attempt: 1 },
  ]);
  for (const { ms } of events) expect(ms).toBeGreaterThanOrEqual(0);
  expect(JSON.stringify(events)).not.toMatch(/first|other|result|message/);
});

test("a stored failure is replayed, and an error of a nested call counts as thrown by the handler", async () => {
  const events = heard("onceflow:once");
  const fail = () => once(store, { key: key.of("f"), keepFailures: true }, () => Promise.reject(new Error("kept")));
  await expect(fail()).rejects.toThrow("kept");
  await expect(fail()).rejects.toThrow("kept");
  await once(store, { key: key.of("g"), input: 1 }, () => 1);
  const outer = once(store, { key: key.of("outer") }, () => once(store, { key: key.of("g"), input: 2 }, () => 1));
  await expect(outer).rejects.toThrow();
  expect(events.map((event) => `${event.key} ${event.answer}`)).toEqual([
    "f threw",
    "f replayed",
    "g executed",
    "g mismatch",
    "outer threw",
  ]);
});

test("a flush with its members, and one that failed", async () => {
  const events = heard("onceflow:flush");
  await Promise.all(["a", "b", "c"].map((name) => once(store, { key: key.of(name) }, () => name)));
  expect(events[0]).toMatchObject({ store: "memory", kind: "record", members: 3, ok: true });
});

test("messages that an inbox handles: a new one, a copy, one that fails", async () => {
  const events = heard("onceflow:message");
  const inbox = createInbox(store, { consumer: "billing" });
  await inbox.handle({ id: "m1", payload: "secret" }, () => "done");
  await inbox.handle({ id: "m1", payload: "secret" }, () => "done");
  await inbox.handle({ id: "m2", payload: "secret" }, () => Promise.reject(new Error("secret")));
  expect(events).toMatchObject([
    { type: "handled", store: "memory", inbox: "billing", id: "m1", outcome: "processed", attempt: 1 },
    { outcome: "duplicate", id: "m1" },
    { outcome: "retry", id: "m2", attempt: 1 },
  ]);
  expect(JSON.stringify(events)).not.toContain("secret");
});

test("messages that a relay publishes, with a retry", async () => {
  const events = heard("onceflow:message");
  const outbox = createOutbox(store, { name: "orders", backoffMs: 1 });
  let tries = 0;
  const relay = outbox.relay(() => {
    tries += 1;
    if (tries === 1) throw new Error("the broker is away");
  });
  await outbox.add(undefined, { id: "o1", payload: "secret" });
  await eventually(() => expect(events).toHaveLength(2));
  await relay.stop();
  expect(events).toMatchObject([
    { type: "published", store: "memory", outbox: "orders", id: "o1", outcome: "retry", attempt: 1 },
    { outcome: "done", attempt: 2 },
  ]);
});

test("requests: executed, replayed, refused", async () => {
  const events = heard("onceflow:request");
  const handle = idempotent(() => new Response("made", { status: 201 }), { store, scope: "me" });
  const post = (body: string) =>
    handle(new Request("http://shop.example/orders", { method: "POST", headers: { "idempotency-key": "r1" }, body }));
  await post("{}");
  await post("{}");
  await post('{"other":1}');
  expect(events).toMatchObject([
    { store: "memory", method: "POST", status: 201, executed: true },
    { status: 201, executed: false },
    { status: 422, executed: false },
  ]);
});

test("leases of keys and of packets are renewed", async () => {
  const place = await memoryTarget({ time: "virtual" }).create();
  onTestFinished(() => place.remove());
  const still = await place.open();
  onTestFinished(() => still.close());
  const events = heard("onceflow:lease");
  await once(still, { key: key.of("slow"), scope: "s", leaseMs: 9000 }, () => place.pass?.(4000));
  expect(events).toMatchObject([{ type: "renewed", store: "memory", of: "key", scope: "s", key: "slow", attempt: 1 }]);
  const outbox = createOutbox(still, { name: "leased" });
  const published = gate();
  const relay = outbox.relay(() => published.open(), { leaseMs: 9000 });
  await outbox.add(undefined, { payload: 1 });
  await published.opened;
  await place.pass?.(4000);
  expect(events.at(-1)).toMatchObject({ type: "renewed", of: "packets", worker: expect.any(Number) });
  await relay.stop();
});

test("the lease of a key that could not be renewed is lost, with one event", async () => {
  const events = heard("onceflow:lease");
  await attemptLeases().expire();
  expect(events).toEqual([{ type: "lost", store: "test", of: "key", scope: "", key: "k", attempt: 1 }]);
});

test("without a subscriber no event is made", async () => {
  const spies = Object.values(channels).map((channel) => vi.spyOn(channel, "publish"));
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore();
  });
  const worker = await work(store, {});
  const add = step("unheard add", async (a: number) => a + 1);
  const run = workflow("unheard", async () => await add(1));
  expect(await (await start(run, [], { store })).returnValue).toBe(2);
  await once(store, { key: key.of("unheard") }, () => 1);
  await createInbox(store, { consumer: "unheard" }).handle({ id: "m", payload: 1 }, () => 1);
  await worker.stop();
  for (const spy of spies) expect(spy).not.toHaveBeenCalled();
  expect(Object.values(channels).every(({ hasSubscribers }) => !hasSubscribers)).toBe(true);
});

test("a subscriber that throws harms no operation: Node reports its error in a later turn", async () => {
  const errors: unknown[] = [];
  const before = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", (error) => void errors.push(error));
  onTestFinished(() => {
    process.removeAllListeners("uncaughtException");
    for (const listener of before) process.on("uncaughtException", listener);
  });
  onTestFinished(
    subscribe("onceflow:once", () => {
      throw new Error("the subscriber fails");
    }),
  );
  expect(await once(store, { key: key.of("harmless") }, () => 1)).toMatchObject({ status: "executed", value: 1 });
  await eventually(() => expect(errors).toHaveLength(1));
});

test("subscribe refuses a channel that does not exist, names those that do, and ends once", async () => {
  expect(() => subscribe("onceflow:runs" as never, () => {})).toThrow(/no channel "onceflow:runs"; channels: onceflow:run, /);
  expect(() => subscribe("onceflow:run", undefined as never)).toThrow(/listener/);
  expect(eventNames).toHaveLength(8);
  let [first, second] = [0, 0];
  const count = () => {
    first += 1;
  };
  const countOther = () => {
    second += 1;
  };
  const stops = [subscribe("onceflow:once", count), subscribe("onceflow:once", count), subscribe("onceflow:once", countOther)];
  stops[0]?.();
  await once(store, { key: key.of("counted") }, () => 1);
  for (const stop of stops) stop();
  await once(store, { key: key.of("not counted") }, () => 1);
  expect([first, second]).toEqual([1, 1]);
});
