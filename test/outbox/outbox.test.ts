import { randomUUID } from "node:crypto";
import { open, type Store } from "onceflow";
import { createOutbox, type Outbox, type OutboxOptions, type OutboxRelay, type RelayOptions } from "onceflow/outbox";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { gate } from "../kit/gate.js";
import { settled, until } from "../kit/until.js";
import { Broker, type Place, places } from "./scene.js";

const range = (count: number) => Array.from({ length: count }, (_, i) => i);

describe.each(Object.keys(places))("an outbox on %s", (name) => {
  let place: Place | undefined;
  let missing = "";
  let store: Store;
  let relays: OutboxRelay[] = [];
  beforeAll(async () => {
    const at = await (places[name] as (typeof places)[string])();
    if (typeof at === "string") missing = at;
    else {
      place = at;
      store = await open(at.url);
    }
  });
  afterEach(async () => {
    await Promise.all(relays.map((relay) => relay.stop()));
    relays = [];
  });
  afterAll(async () => {
    await store?.close();
    await place?.drop();
  });
  const on = (title: string, body: (box: (options?: Partial<OutboxOptions>) => Outbox, broker: Broker) => Promise<void>) =>
    test(title, async ({ skip }) => {
      if (place === undefined) return skip(missing);
      const own = randomUUID();
      await body((options = {}) => createOutbox(store, { name: own, backoffMs: 10, ...options }), new Broker());
    });
  const relay = (outbox: Outbox, broker: Broker, options: RelayOptions = {}) => {
    const relaying = outbox.relay(broker.publish, { pollMs: 100, ...options });
    relays.push(relaying);
    return relaying;
  };
  const empty = { due: 0, waiting: 0, publishing: 0, dead: 0 };
  const isEmpty = (outbox: Outbox) =>
    until("the outbox is empty", async () => JSON.stringify(await outbox.pending()) === JSON.stringify(empty));

  on("publishes what was added, once, and is empty afterwards", async (box, broker) => {
    const outbox = box();
    const payload = { at: new Date(5), big: 12n, text: "ü" };
    const id = await outbox.add(undefined, { key: "k", topic: "orders", payload, headers: { trace: "t-1" } });
    const given = await outbox.add(store, { id: "mine", payload: null });
    expect(given).toBe("mine");
    expect(await outbox.pending()).toEqual({ ...empty, due: 2 });
    const seen: unknown[] = [];
    relays.push(
      outbox.relay((message, { attempt, signal }) => {
        seen.push({ ...message, attempt, aborted: signal.aborted });
      }),
    );
    await isEmpty(outbox);
    const common = { attempt: 1, redelivered: false, aborted: false, createdAt: expect.any(Date) };
    expect(seen).toHaveLength(2);
    expect(seen).toContainEqual({ ...common, id, key: "k", topic: "orders", payload, headers: { trace: "t-1" } });
    expect(seen).toContainEqual({ ...common, id: "mine", key: undefined, topic: undefined, payload: null, headers: {} });
    await until("nothing is in flight", () => outbox.metrics.inFlight === 0);
    expect(outbox.metrics).toEqual({ added: 2, published: 2, retried: 0, dead: 0, stale: 0, leasesLost: 0, inFlight: 0 });
    expect(broker.deliveries).toEqual([]);
  });

  on("keeps the order within a key, also of several relays, and works on several keys at a time", async (box, broker) => {
    const outbox = box();
    for (const i of range(12)) await Promise.all(["a", "b", "c"].map((key) => outbox.add(undefined, { key, payload: i })));
    const others = [box(), box()];
    for (const each of [outbox, ...others]) relay(each, broker, { concurrency: 4 });
    await broker.has(36);
    await isEmpty(outbox);
    for (const key of ["a", "b", "c"]) expect(broker.payloadsOf(key)).toEqual(range(12));
    expect(broker.overlapped).toBe(false);
    expect(broker.inFlightMax).toBeGreaterThan(1);
    expect(broker.inFlightMax).toBeLessThanOrEqual(12);
    expect(new Set(broker.deliveries.map(({ id }) => id)).size).toBe(36);
  });

  on("does not go beyond its concurrency", async (box, broker) => {
    const outbox = box();
    await Promise.all(range(20).map((payload) => outbox.add(undefined, { payload })));
    relay(outbox, broker, { concurrency: 2 });
    await broker.has(20);
    expect(broker.inFlightMax).toBeLessThanOrEqual(2);
  });

  on("while the broker is down: waits, loses nothing, and keeps the order", async (box, broker) => {
    const outbox = box({ attemptsMax: "unlimited", backoffMsMax: 30 });
    let down = true;
    let refused = 0;
    broker.refuse = () => {
      if (!down) return;
      refused += 1;
      throw new Error("connection refused");
    };
    relay(outbox, broker);
    for (const i of range(6)) await Promise.all(["a", "b"].map((key) => outbox.add(undefined, { key, payload: i })));
    // More often than the default attemptsMax allows.
    await until("the broker has refused 25 times", () => refused > 24);
    expect(broker.deliveries).toEqual([]);
    expect(await outbox.deadLetters()).toEqual([]);
    down = false;
    await isEmpty(outbox);
    for (const key of ["a", "b"]) expect(broker.payloadsOf(key)).toEqual(range(6));
    const heads = broker.deliveries.filter(({ payload }) => payload === 0);
    for (const { attempt, redelivered } of heads) {
      expect(attempt).toBeGreaterThan(1);
      expect(redelivered).toBe(true);
    }
    expect(outbox.metrics.retried).toBe(refused);
  });

  on(
    "a message that fails too often blocks only its own key; retried, it comes before the messages that waited behind it",
    async (box, broker) => {
      const outbox = box({ attemptsMax: 3 });
      let poisonous = true;
      broker.refuse = ({ payload }) => {
        if (poisonous && payload === "poison") throw new RangeError("no such topic");
      };
      const id = await outbox.add(undefined, { key: "a", topic: "t", payload: "poison" });
      for (const payload of ["a2", "a3"]) await outbox.add(undefined, { key: "a", payload });
      relay(outbox, broker);
      await until("1 of the messages is dead", async () => (await outbox.pending()).dead === 1);
      for (const payload of ["b1", "b2"]) await outbox.add(undefined, { key: "b", payload });
      await outbox.add(undefined, { key: "a", payload: "a4" });
      await broker.has(2);
      expect(broker.payloads).toEqual(["b1", "b2"]);
      expect(await outbox.pending()).toMatchObject({ waiting: 3, dead: 1 });
      const [letter, ...others] = await outbox.deadLetters();
      expect(others).toEqual([]);
      expect(letter).toMatchObject({
        id,
        key: "a",
        attempts: 3,
        message: { id, key: "a", topic: "t", payload: "poison" },
        unreadable: undefined,
      });
      expect(letter?.history.map(({ attempt, code, message }) => [attempt, code, message])).toEqual(
        [1, 2, 3].map((attempt) => [attempt, "ERROR", "no such topic"]),
      );
      expect(outbox.metrics).toMatchObject({ retried: 2, dead: 1 });

      expect(await outbox.retry("unknown")).toBe(false);
      // Attempts are counted from zero again: one failure does not make it a dead letter.
      let once = true;
      broker.refuse = ({ payload }) => {
        if (payload === "poison" && once) {
          once = false;
          throw new Error("not yet");
        }
      };
      poisonous = false;
      expect(await outbox.retry(id)).toBe(true);
      await isEmpty(outbox);
      expect(broker.payloadsOf("a")).toEqual(["poison", "a2", "a3", "a4"]);
      expect(broker.deliveries.find(({ payload }) => payload === "poison")).toMatchObject({ id, attempt: 5, redelivered: true });
      // The deprecated name of `retry`.
      expect([await outbox.retry(id), await outbox.redrive(id)]).toEqual([false, false]);
    },
  );

  on("a discarded dead letter is removed, and the messages that it blocked are published", async (box, broker) => {
    const outbox = box({ attemptsMax: 1 });
    broker.refuse = ({ payload }) => {
      if (payload === "poison") throw new Error("never");
    };
    const id = await outbox.add(undefined, { key: "a", payload: "poison" });
    await outbox.add(undefined, { key: "a", payload: "next" });
    relay(outbox, broker);
    await until("1 of the messages is dead", async () => (await outbox.pending()).dead === 1);
    expect(await outbox.discard("nobody")).toBe(false);
    expect(await outbox.discard(id)).toBe(true);
    await isEmpty(outbox);
    expect(broker.payloads).toEqual(["next"]);
    expect(await outbox.discard(id)).toBe(false);
  });

  on("with deadBlocks: false a dead letter does not block its key, and comes last when it is retried", async (box, broker) => {
    const outbox = box({ attemptsMax: 1, deadBlocks: false });
    let poisonous = true;
    broker.refuse = ({ payload }) => {
      if (poisonous && (payload === "p1" || payload === "p2")) throw new Error("never");
    };
    for (const payload of ["p1", "p2", "next"]) await outbox.add(undefined, { key: "a", payload });
    relay(outbox, broker);
    await broker.has(1);
    await until("2 of the messages are dead", async () => (await outbox.pending()).dead === 2);
    poisonous = false;
    // The deprecated name of `retryAll`.
    expect(await outbox.redriveAll()).toBe(2);
    await isEmpty(outbox);
    expect(broker.payloads).toEqual(["next", "p1", "p2"]);
  });

  on("an error with retryable: false makes a dead letter at once; retryAll retries all of them", async (box, broker) => {
    const outbox = box();
    let refused = true;
    broker.refuse = () => {
      if (refused) throw Object.assign(new Error("too large"), { retryable: false });
    };
    await Promise.all(range(104).map((i) => outbox.add(undefined, { id: `m-${i}`, payload: i })));
    relay(outbox, broker, { concurrency: 64 });
    await until("104 of the messages are dead", async () => (await outbox.pending()).dead === 104);
    expect(outbox.metrics).toMatchObject({ retried: 0, dead: 104 });
    const first = await outbox.deadLetters({ limit: 60 });
    const second = await outbox.deadLetters({ limit: 60, before: first.at(-1)?.id ?? "" });
    expect(new Set([...first, ...second].map(({ id }) => id)).size).toBe(104);
    await expect(outbox.deadLetters({ before: "unknown" })).rejects.toThrow(/not a dead letter/);
    await expect(outbox.deadLetters({ limit: 0 })).rejects.toThrow(/limit/);
    refused = false;
    expect(await outbox.retryAll()).toBe(104);
    await isEmpty(outbox);
    expect(new Set(broker.payloads).size).toBe(104);
  });

  on("a publisher that hangs is aborted, and the message is published again", async (box) => {
    const outbox = box();
    await outbox.add(undefined, { key: "a", payload: "slow" });
    const signals: AbortSignal[] = [];
    const attempts: number[] = [];
    relays.push(
      outbox.relay(
        (_, { attempt, signal }) => {
          attempts.push(attempt);
          signals.push(signal);
          return attempt === 1 ? new Promise(() => {}) : undefined;
        },
        { timeoutMs: 30, graceMs: 10 },
      ),
    );
    await isEmpty(outbox);
    expect(attempts).toEqual([1, 2]);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  });

  on("with retentionMs an id that was added again is published once", async (box, broker) => {
    const outbox = box({ retentionMs: 60_000 });
    for (const payload of ["first", "again"]) await outbox.add(undefined, { id: "m-1", key: "a", payload });
    await outbox.add(undefined, { id: "m-2", key: "a", payload: "other" });
    relay(outbox, broker);
    await isEmpty(outbox);
    await outbox.add(undefined, { id: "m-1", payload: "much later" });
    await isEmpty(outbox);
    expect(broker.payloads).toEqual(["first", "other"]);
  });

  on("a relay that stops finishes the current message and claims no more; another relay continues at once", async (box, broker) => {
    const outbox = box();
    for (const i of range(4)) await outbox.add(undefined, { key: "a", payload: i });
    let go = () => {};
    const held = new Promise<void>((resolve) => {
      go = resolve;
    });
    const seen: unknown[] = [];
    const first = outbox.relay(
      async ({ payload }) => {
        seen.push(payload);
        await held;
      },
      { leaseMs: 3_600_000 },
    );
    await until("one message is being published", () => seen.length === 1);
    const stopping = first.stop();
    go();
    await stopping;
    await first.stop();
    expect(seen).toEqual([0]);
    relay(outbox, broker);
    await isEmpty(outbox);
    expect(broker.payloads).toEqual([1, 2, 3]);
    expect(outbox.metrics.stale).toBe(0);
  });

  on("refuses invalid messages and options, and writes nothing", async (box) => {
    const outbox = box();
    const wrong: [unknown, RegExp][] = [
      [undefined, /message: must be an object/],
      [{}, /message\.payload: is missing/],
      [{ payload: () => {} }, /payload|function/],
      [{ payload: 1, id: "" }, /message\.id/],
      [{ payload: 1, id: 7 }, /message\.id/],
      [{ payload: 1, key: "k".repeat(600) }, /message\.key: is 600 bytes long/],
      [{ payload: 1, key: "a\nb" }, /message\.key: has control characters/],
      [{ payload: 1, topic: 5 }, /message\.topic/],
      [{ payload: 1, headers: { n: 1 } }, /message\.headers\.n/],
      [{ payload: 1, headers: ["a"] }, /message\.headers/],
      [{ payload: "x".repeat(5 * 1024 * 1024) }, /bytes/],
    ];
    for (const [message, text] of wrong) await expect(outbox.add(undefined, message as never)).rejects.toThrow(text);
    expect(await outbox.pending()).toEqual(empty);
    for (const options of [
      { name: "" },
      { name: 5 },
      { name: "n".repeat(600) },
      { name: "n", attemptsMax: 0 },
      { name: "n", backoffMs: -1 },
      { name: "n", deadBlocks: "no" },
      { name: "n", retentionMs: 0.5 },
    ])
      expect(() => createOutbox(store, options as never)).toThrow(/must be|bytes long/);
    expect(() => createOutbox(store, { name: "n", attemptMax: 3 } as never)).toThrow(
      /attemptMax: is not an option; did you mean "attemptsMax"/,
    );
    expect(() => outbox.relay(() => {}, { concurency: 3 } as never)).toThrow(/concurency: is not an option; did you mean "concurrency"/);
    expect(() => createOutbox(undefined as never, { name: "n" })).toThrow(/store: must be a store/);
    expect(() => outbox.relay(undefined as never)).toThrow(/publisher: must be a function/);
    for (const options of [{ concurrency: 0 }, { leaseMs: 1 }, { pollMs: 0 }, { timeoutMs: 0 }, { onTrouble: 1 }])
      expect(() => outbox.relay(() => {}, options as never)).toThrow(/must be/);
    await expect(outbox.retry("")).rejects.toThrow(/id: must be/);
  });

  on("two outboxes share no messages", async (box, broker) => {
    const one = box();
    const other = createOutbox(store, { name: randomUUID() });
    await one.add(undefined, { key: "k", payload: "one" });
    await other.add(undefined, { key: "k", payload: "other" });
    relay(one, broker);
    await isEmpty(one);
    expect(broker.payloads).toEqual(["one"]);
    expect(await other.pending()).toEqual({ ...empty, due: 1 });
  });
});

test("a store without transactions or packets is refused, and the error names it", async () => {
  const store = await open("memory:");
  const outbox = createOutbox(store, { name: "o" });
  await expect(store.transact(async (tx) => outbox.add(tx, { payload: 1 }))).rejects.toMatchObject({ code: "MISSING_CAPABILITY" });
  await expect(outbox.add({}, { payload: 1 })).rejects.toMatchObject({ code: "MISSING_CAPABILITY" });
  const bare = Object.create(store, {
    name: { value: "redis" },
    capabilities: { value: { ...store.capabilities, packets: false } },
  }) as Store;
  expect(() => createOutbox(bare, { name: "o" })).toThrow(/\[redis\] this store does not support packets/);
  await store.close();
  expect(() => outbox.relay(() => {})).toThrow(/the store is closed/);
  await expect(outbox.add(undefined, { payload: 1 })).rejects.toThrow(/closed/);
});

test("a store that closes stops its relays first", async () => {
  const store = await open("memory:");
  const outbox = createOutbox(store, { name: "o" });
  await outbox.add(undefined, { payload: 1 });
  let [ended, closed] = [false, false];
  const [began, free] = [gate(), gate()];
  outbox.relay(async () => {
    began.open();
    await free.opened;
    ended = true;
  });
  await began.opened;
  const closing = store.close().then(() => {
    closed = true;
  });
  await settled();
  expect(closed).toBe(false);
  free.open();
  await closing;
  expect(ended).toBe(true);
  expect(outbox.metrics).toMatchObject({ published: 1, inFlight: 0 });
});

test("encrypted messages: a process without the key reports them as unreadable, and another process can retry them", async () => {
  const at = await (places.SQLite as (typeof places)[string])();
  if (typeof at === "string") throw new Error(at);
  const withKey = (fill: number) => open(at.url, { encryption: { keys: [{ id: `k${fill}`, key: Buffer.alloc(32, fill) }] } });
  const store = await withKey(1);
  const outbox = createOutbox(store, { name: "o", attemptsMax: 2, backoffMs: 1 });
  await outbox.add(undefined, { id: "m-1", key: "k", payload: { secret: "sesame" } });
  const otherKey = await withKey(2);
  const blind = createOutbox(otherKey, { name: "o", attemptsMax: 2, backoffMs: 1 });
  const broker = new Broker();
  const relaying = blind.relay(broker.publish);
  await until("1 of the messages is dead", async () => (await blind.pending()).dead === 1);
  await relaying.stop();
  expect(broker.deliveries).toEqual([]);
  const [letter] = await blind.deadLetters();
  expect(letter).toMatchObject({ id: "m-1", key: "k", message: undefined });
  expect(letter?.unreadable).toMatch(/k1/);
  expect(await outbox.retry("m-1")).toBe(true);
  const readable = outbox.relay(broker.publish);
  await broker.has(1);
  await readable.stop();
  expect(broker.payloads).toEqual([{ secret: "sesame" }]);
  await Promise.all([store.close(), otherKey.close()]);
  await at.drop();
});
