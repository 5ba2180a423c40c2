import { describe, expect, onTestFinished, test, vi } from "vitest";
import { operation } from "../../core/ledger/named-operation.js";
import { createStore } from "../../core/store/create-store.js";
import { createMemoryLedger, memoryBackend } from "../../stores/memory/backend.js";
import { createInbox, type Inbox } from "../inbox.js";
import { type ConsumeOptions, Consumer } from "./consuming.js";
import { type Delivery, poll } from "./polling.js";
import { UnderWay } from "./under-way.js";

function openStore() {
  const store = createStore(memoryBackend(createMemoryLedger()));
  onTestFinished(() => store.close());
  return store;
}

/** A broker with a few messages, which records the calls it gets. */
function brokerOf(count: number, failing: { readonly done?: boolean; readonly take?: number } = {}) {
  const calls: string[] = [];
  const waiting = Array.from({ length: count }, (_, i) => `m${i}`);
  let failures = failing.take ?? 0;
  const deliveryOf = (id: string): Delivery<unknown> => ({
    message: { id, payload: id },
    done: () => {
      if (failing.done) throw new Error("not heard");
      calls.push(`done ${id}`);
    },
    again: () => void calls.push(`again ${id}`),
    extend: () => void calls.push(`at ${id}`),
  });
  async function* take(room: number, signal: AbortSignal) {
    if (failures-- > 0) throw new Error("the broker is away");
    for (const id of waiting.splice(0, room)) yield deliveryOf(id);
    if (waiting.length === 0) await new Promise((resolve) => signal.addEventListener("abort", resolve));
  }
  return { calls, take, left: () => waiting.length };
}

function polling(options: ConsumeOptions, broker: ReturnType<typeof brokerOf>) {
  const consuming = poll(new Consumer(options), { extendEveryMs: 60_000, take: broker.take });
  onTestFinished(() => consuming.stop());
  return consuming;
}

describe("a consumer", () => {
  test("handles at most `concurrency` messages at a time", async () => {
    const inbox = createInbox(openStore(), { consumer: "shop" });
    const broker = brokerOf(9);
    let underWay = 0;
    let most = 0;
    const handle = async () => {
      most = Math.max(most, ++underWay);
      await new Promise((resolve) => setImmediate(resolve));
      underWay -= 1;
    };
    polling({ inbox, handle, concurrency: 3 }, broker);
    await vi.waitFor(() => expect(broker.calls).toHaveLength(9));
    expect(most).toBe(3);
  });

  test("receives nothing after it is stopped, even if there is room", async () => {
    const inbox = createInbox(openStore(), { consumer: "shop" });
    const broker = brokerOf(3);
    const { promise, resolve } = promiseWithEnd();
    const consuming = polling({ inbox, handle: () => promise, concurrency: 1 }, broker);
    await vi.waitFor(() => expect(broker.left()).toBe(2));
    const stopped = consuming.stop();
    resolve();
    await stopped;
    expect(broker.calls).toEqual(["done m0"]);
    expect(broker.left()).toBe(2);
  });

  test("reports a failed acknowledgement and an unreachable broker, and continues", async () => {
    const inbox = createInbox(openStore(), { consumer: "shop" });
    const errors: unknown[] = [];
    polling(
      { inbox, handle: () => 1, onError: (error, message) => errors.push([(error as Error).message, message?.id]) },
      brokerOf(1, { done: true, take: 1 }),
    );
    await vi.waitFor(() => expect(errors).toHaveLength(2));
    expect(errors).toEqual([
      ["the broker is away", undefined],
      ["not heard", "m0"],
    ]);
    expect(inbox.metrics.processed).toBe(1);
  });

  test("emits a warning without onError, and if onError throws", async () => {
    const inbox = createInbox(openStore(), { consumer: "shop" });
    const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    onTestFinished(() => warned.mockRestore());
    const silent = brokerOf(1, { take: 1 });
    polling({ inbox, handle: () => 1 }, silent);
    await vi.waitFor(() => expect(silent.calls).toEqual(["done m0"]));
    expect(warned.mock.calls).toMatchObject([[expect.stringContaining("the broker is away"), { code: "ONCEFLOW_CONSUMER" }]]);
    const broken = brokerOf(1, { take: 1 });
    const onError = () => {
      throw new Error("no log either");
    };
    polling({ inbox: createInbox(openStore(), { consumer: "shop" }), handle: () => 1, onError }, broken);
    await vi.waitFor(() => expect(broken.calls).toEqual(["done m0"]));
    expect(warned.mock.calls.at(-1)).toMatchObject([expect.stringContaining("no log either"), { code: "ONCEFLOW_CONSUMER" }]);
  });

  test("runs the operation of an inbox that has one", async () => {
    const ran: unknown[] = [];
    const charge = operation({ name: "charge", key: (order: string) => order, run: (order) => void ran.push(order) });
    const inbox = createInbox(openStore(), { consumer: "shop", operation: charge });
    const broker = brokerOf(2);
    polling({ inbox }, broker);
    await vi.waitFor(() => expect(broker.calls).toHaveLength(2));
    expect(ran.sort()).toEqual(["m0", "m1"]);
    expect(() => new Consumer({ inbox, handle: () => 1 })).toThrow('handle: must be left out: this inbox runs its operation "charge"');
  });

  test("rejects wrong options before it receives anything", () => {
    const inbox = createInbox(openStore(), { consumer: "shop" });
    const handle = () => 1;
    expect(() => new Consumer({ inbox } as never)).toThrow("handle: must be a function");
    expect(() => new Consumer({ handle, inbox: {} as Inbox })).toThrow("inbox: must be an inbox created by createInbox");
    for (const concurrency of [0, 1.5, 1001, Number.NaN])
      expect(() => new Consumer({ inbox, handle, concurrency })).toThrow("concurrency: must be a whole number from 1 to 1000");
  });
});

test("UnderWay.room resolves as soon as there is room", async () => {
  const underWay = new UnderWay(1);
  const { promise, resolve } = promiseWithEnd();
  underWay.add(promise);
  let room = 0;
  const waiting = underWay.room().then((count) => {
    room = count;
  });
  await new Promise((turn) => setImmediate(turn));
  expect(room).toBe(0);
  resolve();
  await waiting;
  expect(room).toBe(1);
  await underWay.drained();
});

function promiseWithEnd() {
  let resolve = () => {};
  const promise = new Promise<void>((end) => {
    resolve = end;
  });
  return { promise, resolve };
}
