import { beforeEach, describe, expect, test } from "vitest";
import { StoreRefusedError, UnreachableError } from "../../src/core/errors/errors.js";
import { operation } from "../../src/core/ledger/named-operation.js";
import type { Operation } from "../../src/core/ledger/operation.js";
import type { Backend, Store } from "../../src/core/store/store.js";
import { createInbox, type Handled, type InboxOptions, type Message } from "../../src/exports/inbox.js";
import { settled } from "../kit/until.js";
import { storeWith } from "./memory-store.js";

const boom = () => {
  throw new Error("boom");
};
const statuses = (handled: readonly Handled[]) => handled.map(({ status }) => status);

let store: Store;
beforeEach(() => {
  store = storeWith().store;
});

const inboxOn = (options: Partial<InboxOptions> = {}) => createInbox(store, { consumer: "billing", ...options });

describe("invalid input is refused before anything is written", () => {
  test.each([
    [{ attemptMax: 3 }, /attemptMax: is not an option; did you mean "attemptsMax"/],
    [{ consumer: "" }, /^consumer/],
    [{ attemptsMax: 0 }, /^attemptsMax/],
    [{ attemptsMax: 1.5 }, /^attemptsMax/],
    [{ concurrency: 0 }, /^concurrency/],
    [{ order: "total" }, /^order/],
    [{ backoffMs: -1 }, /^backoffMs/],
    [{ backoffMsMax: Number.NaN }, /^backoffMsMax/],
    [{ waitMs: "1s" }, /^waitMs/],
    [{ timeoutMs: 0 }, /^timeoutMs/],
    [{ graceMs: -1 }, /^graceMs/],
    [{ leaseMs: 1 }, /^leaseMs/],
    [{ retentionMs: "long" }, /^retentionMs/],
    [{ horizonMs: -1 }, /^horizonMs/],
    [{ effect: "atMostOnce" }, /^effect/],
    [{ key: "id" }, /^key/],
    [{ fingerprint: true }, /^fingerprint/],
    [{ tx: false }, /^tx/],
    [{ tx: true }, /has no transactions/],
    [{ operation: {} }, /^operation/],
    [{ operation: operation({ name: "o", key: () => "k", run: () => 1 }), input: 1 }, /^input/],
    [{ consumer: "x".repeat(600) }, /^scope/],
  ])("option %o", (wrong, message) => {
    expect(() => createInbox(store, { consumer: "billing", ...wrong } as InboxOptions)).toThrow(message);
  });

  test.each([
    [null, /^message: must be an object/],
    [{ payload: 1 }, /^message.id/],
    [{ id: "", payload: 1 }, /^message.id/],
    [{ id: "m", payload: 1, key: 7 }, /^message.key/],
    [{ id: "m", payload: 1, orderKey: 7 }, /^message.orderKey/],
    // A dead letter without its message would be of no use.
    [{ id: "m", payload: { fn: () => {} } }, /^message.payload.fn/],
  ])("message %o", async (wrong, message) => {
    const { store: watched, flushes } = storeWith();
    const inbox = createInbox(watched, { consumer: "billing" });
    await expect(inbox.handle(wrong as Message, () => 1)).rejects.toThrow(message);
    expect(flushes).toEqual([]);
  });

  test("handlers, batches and pages", async () => {
    const inbox = inboxOn();
    const message = { id: "m", payload: 1 };
    await expect(inbox.handle(message, undefined as never)).rejects.toThrow(/^fn: must be a function/);
    await expect(inbox.handleBatch("no" as never, boom)).rejects.toThrow(/^messages: must be an array/);
    await expect(inbox.handleBatch(Array(10_001).fill(message), boom)).rejects.toThrow(/at most 10000/);
    await expect(inbox.deadLetters({ limit: 0 })).rejects.toThrow(/^limit/);
    await expect(inbox.retry("k", boom)).rejects.toThrow(/not a dead letter/);
    await inbox.handle(message, boom);
    await expect(inbox.retry("m", boom)).rejects.toThrow(/"m" is not a dead letter: its record is free/);
    await expect(inbox.discard("nobody")).rejects.toThrow(/not a dead letter/);
    const shared = createInbox(store, { consumer: "c", operation: operation({ name: "o", key: () => "k", run: () => 1 }) });
    await expect(shared.handle(message, boom as never)).rejects.toThrow(/^fn: must be left out/);
  });
});

describe("a key", () => {
  test("is the result of the key option, otherwise the producer's id, otherwise the broker's id", async () => {
    const inbox = inboxOn();
    const keys: string[] = [];
    const note = (_: Message, { key }: { key: string }) => void keys.push(key);
    await inbox.handle({ id: "m-1", payload: 1 }, note);
    await inbox.handle({ id: "m-2", key: "order-1", payload: 1 }, note);
    await inboxOn({ key: ({ headers }) => headers?.["id"] ?? "" }).handle({ id: "m-3", headers: { id: "h" }, payload: 1 }, note);
    expect(keys).toEqual(["m-1", "order-1", "h"]);
  });

  test("that is too long, or whose function throws, makes the message a dead letter", async () => {
    const inbox = inboxOn();
    const long = { id: "x".repeat(600), payload: 1 };
    expect(await inbox.handle(long, boom)).toMatchObject({ status: "dead", error: { field: "key" } });
    const [letter] = await inbox.deadLetters();
    expect(letter).toMatchObject({ key: expect.stringMatching(/^sha256:/), messageId: long.id });
    expect(await inboxOn({ key: boom }).handle({ id: "m", payload: 1 }, boom)).toMatchObject({
      status: "dead",
      error: { message: "boom" },
    });
    const picky = inboxOn({ fingerprint: ({ payload }) => (payload as { a: { b: number } }).a.b });
    expect(await picky.handle({ id: "n", payload: {} }, boom)).toMatchObject({ status: "dead", error: { name: "TypeError" } });
  });

  test("the same key with another payload is a dead letter: bytes by content, JSON in any order of properties; a message without payload matches any", async () => {
    const inbox = inboxOn();
    const handle = (id: string, payload: unknown) => inbox.handle({ id, payload }, () => 1);
    for (const [id, first, same, other] of [
      ["bytes", Buffer.from("ab"), new Uint8Array([97, 98]), Buffer.from("ac")],
      ["json", { a: 1, b: [2] }, { b: [2], a: 1 }, { a: 1, b: [3] }],
      ["dates", { at: new Date(1) }, { at: new Date(1) }, { at: new Date(2) }],
      ["text", "1", "1", 1],
    ] as const)
      expect(statuses([await handle(id, first), await handle(id, same), await handle(id, other)]), id).toEqual([
        ...["processed", "duplicate", "dead"],
      ]);
    expect(statuses([await handle("none", undefined), await handle("none", 1)])).toEqual(["processed", "duplicate"]);
  });
});

describe("a handler", () => {
  test("that hangs is aborted and retried", async () => {
    const inbox = inboxOn({ timeoutMs: 20, graceMs: 20 });
    let reason: unknown;
    const hang = (_: Message, { signal }: { signal: AbortSignal }) =>
      new Promise<never>(() =>
        signal.addEventListener("abort", () => {
          reason = signal.reason;
        }),
      );
    expect(await inbox.handle({ id: "m", payload: 1 }, hang)).toMatchObject({ status: "retry", error: { code: "HANDLER_TIMEOUT" } });
    expect(String(reason)).toMatch(/longer than 20 ms/);
    expect(await inbox.handle({ id: "m", payload: 1 }, () => "at last")).toMatchObject({ status: "processed", attempt: 2 });
  });

  test("can set the delay before the next attempt, otherwise the policy sets it, up to a maximum", async () => {
    const afterMs = async (id: string, options: Partial<InboxOptions>, error: Error, times = 1) => {
      const handled: Handled[] = [];
      for (let i = 0; i < times; i++)
        handled.push(
          await inboxOn({ attemptsMax: 50, ...options }).handle({ id, payload: 1 }, () => {
            throw error;
          }),
        );
      return handled.map((each) => (each as { afterMs: number }).afterMs);
    };
    const error = new Error("no");
    expect(await afterMs("a", {}, error, 4)).toEqual([1000, 2000, 4000, 8000]);
    expect(await afterMs("b", { backoffMsMax: 3000 }, error, 3)).toEqual([1000, 2000, 3000]);
    expect(await afterMs("c", { backoffMs: (attempt) => attempt * 7 }, error, 2)).toEqual([7, 14]);
    expect(await afterMs("d", { backoffMs: () => Number.NaN, backoffMsMax: 5 }, error)).toEqual([5]);
    expect(await afterMs("e", {}, Object.assign(new Error("wait"), { retryAfterMs: 77 }))).toEqual([77]);
  });

  test("that throws a value that is not an error, or undefined, has failed", async () => {
    const inbox = inboxOn({ attemptsMax: 1 });
    for (const [id, thrown] of [
      ["a", undefined],
      ["b", null],
      ["c", "text"],
    ] as const)
      expect(
        await inbox.handle({ id, payload: 1 }, () => {
          throw thrown;
        }),
      ).toEqual({ status: "dead", error: thrown, attempt: 1 });
    expect(await inbox.deadLetters()).toHaveLength(3);
  });

  test("that throws a stored error of another inbox has failed itself", async () => {
    const dead = inboxOn({ consumer: "other", attemptsMax: 1 });
    await dead.handle({ id: "m", payload: 1 }, boom);
    const [letter] = await dead.deadLetters();
    const inbox = inboxOn();
    const rethrow = () => {
      throw letter?.error;
    };
    expect(await inbox.handle({ id: "m", payload: 1 }, rethrow)).toMatchObject({ status: "retry", attempt: 1 });
    expect(inbox.metrics).toMatchObject({ retried: 1, duplicates: 0 });
  });

  test("whose result cannot be stored has processed its message", async () => {
    const inbox = inboxOn();
    expect(await inbox.handle({ id: "m", payload: 1 }, () => () => {})).toMatchObject({ status: "processed" });
    expect(await inbox.handle({ id: "m", payload: 1 }, boom)).toEqual({ status: "duplicate" });
  });
});

describe("a dead letter", () => {
  test("that is too long is kept without its message, with the reason, and is retried with a message that is passed in", async () => {
    store = storeWith({ valueBytesMax: 2000 }).store;
    const inbox = inboxOn({ attemptsMax: 1 });
    const message = { id: "m", payload: "x".repeat(3000) };
    await inbox.handle(message, boom);
    const [letter] = await inbox.deadLetters();
    expect(letter).toMatchObject({ messageId: "m", message: undefined, error: { message: "boom" } });
    expect(letter?.omitted).toMatch(/^its encoding has 3\d{3} bytes/);
    await expect(inbox.retry("m", () => 1)).rejects.toThrow(/^message: was not stored.*pass it/);
    expect(await inbox.retry<string, number>("m", ({ payload }) => payload.length, { message })).toMatchObject({ result: 3000 });
  });

  test("that the store refuses still keeps its error, and the message is not retried forever", async () => {
    const refusing = (backend: Backend): Backend => ({
      ...backend,
      async flush(operations) {
        for (const each of operations)
          if (each.verb === "settle" && "outcome" in each.to && (each.to.outcome?.length ?? 0) > 1000)
            throw new StoreRefusedError("too long for me");
        return await backend.flush(operations);
      },
    });
    store = storeWith({}, refusing).store;
    const inbox = inboxOn({ attemptsMax: 1 });
    expect(await inbox.handle({ id: "m", payload: "x".repeat(3000) }, boom)).toMatchObject({ status: "dead" });
    expect(await inbox.deadLetters()).toMatchObject([{ key: "m", message: undefined, error: { message: "boom" } }]);
  });

  test("is encrypted like all other data", async () => {
    const key = Buffer.alloc(32, 7).toString("base64");
    const { store: sealed, flushes } = storeWith({ encryption: { keys: [{ id: "k1", key }] } });
    const inbox = createInbox(sealed, { consumer: "billing", attemptsMax: 1 });
    const message = { id: "m", payload: { card: "4242" } };
    await inbox.handle(message, () => {
      throw new Error("card 4242");
    });
    expect(JSON.stringify(flushes)).toContain("k1");
    expect(JSON.stringify(flushes)).not.toContain("4242");
    expect(await inbox.deadLetters()).toMatchObject([{ message, error: { message: "card 4242" } }]);
    expect(await inbox.retry("m", () => 1)).toMatchObject({ status: "processed" });
  });

  test("is gone when its retention ends", async () => {
    const inbox = inboxOn({ attemptsMax: 1, retentionMs: 1 });
    await inbox.handle({ id: "m", payload: 1 }, boom);
    await expect.poll(() => inbox.deadLetters()).toEqual([]);
    expect(await inbox.deadLetter("m")).toBeUndefined();
    await expect(inbox.retry("m", boom)).rejects.toThrow(/"m" is not a dead letter: it has expired/);
    await inbox.handle({ id: "n", payload: 1 }, boom);
    await inboxOn({ attemptsMax: 1 }).handle({ id: "o", payload: 1 }, boom);
    // An expired dead letter that is not purged yet takes no place on a page.
    await expect.poll(async () => (await inbox.deadLetters({ limit: 1 })).map(({ key }) => key)).toEqual(["o"]);
  });
});

describe("a store that fails", () => {
  /** A store that is unreachable for keys that match. */
  const failingFor = (keys: RegExp) => {
    const { store: good } = storeWith();
    return Object.create(good, {
      commit: {
        value: (batch: { readonly ledger: Operation }) =>
          keys.test(batch.ledger.key) ? Promise.reject(new UnreachableError("no connection")) : good.commit(batch),
      },
      clock: { value: { ...good.clock, now: () => good.clock.now() + 3000 * asked++ } },
    }) as Store;
  };
  /** A fast clock, so that the test does not wait the ten seconds for which a begin is retried. */
  let asked = 0;

  test("makes handle() throw, so that the message is not acknowledged", async () => {
    store = failingFor(/./);
    await expect(inboxOn().handle({ id: "m", payload: 1 }, () => expect.unreachable())).rejects.toThrow(UnreachableError);
    await expect(inboxOn().handleBatch([{ id: "m", payload: 1 }], () => expect.unreachable())).rejects.toThrow(UnreachableError);
  });

  test("for some messages of a batch: these are to be redelivered, and the others have their outcome", async () => {
    store = failingFor(/^bad/);
    const messages = ["a", "bad", "b", "bad"].map((id) => ({ id, payload: 1 }));
    const handled = await inboxOn().handleBatch(messages, ({ id }) => id);
    expect(handled).toMatchObject([
      { status: "processed", result: "a" },
      { status: "retry", attempt: 0, error: { code: "STORE_UNREACHABLE" } },
      { status: "processed", result: "b" },
      { status: "retry", attempt: 0 },
    ]);
  });
});

test("holds the message while another process is writing its dead letter", async () => {
  const overtaken = Object.create(store, {
    commit: {
      value: (batch: { readonly ledger: Operation }) =>
        batch.ledger.verb === "settle" ? Promise.resolve({ kind: "stale", record: undefined }) : store.commit(batch),
    },
  }) as Store;
  // If the message were acknowledged now and the other process died, the message would be lost.
  const inbox = createInbox(overtaken, { consumer: "billing", key: boom });
  expect(await inbox.handle({ id: "m", payload: 1 }, boom)).toMatchObject({ status: "held" });
});

describe("a batch", () => {
  test("begins in one write", async () => {
    const { store: watched, flushes } = storeWith();
    const inbox = createInbox(watched, { consumer: "billing", concurrency: 500 });
    const messages = Array.from({ length: 500 }, (_, i) => ({ id: `m-${i % 400}`, payload: 1 }));
    const handled = await inbox.handleBatch(messages, async () => await settled(1));
    expect(statuses(handled)).toEqual([...Array(400).fill("processed"), ...Array(100).fill("duplicate")]);
    const begins = flushes.map((operations) => operations.filter(({ verb }) => verb === "begin").length);
    expect(begins.filter((count) => count > 0)).toEqual([400]);
  });

  test("handles at most `concurrency` messages at a time", async () => {
    let [now, most] = [0, 0];
    const messages = Array.from({ length: 20 }, (_, i) => ({ id: `m-${i}`, payload: 1 }));
    const handled = await inboxOn({ concurrency: 3 }).handleBatch(messages, async () => {
      now += 1;
      most = Math.max(most, now);
      await settled(1);
      now -= 1;
      if (most > 3) boom();
    });
    expect(statuses(handled)).toEqual(Array(20).fill("processed"));
    expect(most).toBe(3);
  });

  test("keeps the order of a key if the option is set, also when a message fails", async () => {
    const seen: string[] = [];
    const inbox = inboxOn({ order: "perKey" });
    const messages = ["a1", "b1", "a2", "b2", "a3"].map((id) => ({ id, orderKey: id.slice(0, 1), payload: 1 }));
    const fn = async ({ id }: Message) => {
      await settled(id.endsWith("1") ? 20 : 1);
      seen.push(id);
      if (id === "a2" && seen.filter((each) => each === id).length === 1) boom();
    };
    expect(statuses(await inbox.handleBatch(messages, fn))).toEqual(["processed", "processed", "retry", "processed", "held"]);
    expect(seen.filter((id) => id.startsWith("a"))).toEqual(["a1", "a2"]);
    expect(statuses(await inbox.handleBatch(messages, fn))).toEqual(["duplicate", "duplicate", "processed", "duplicate", "processed"]);
    expect(seen.filter((id) => id.startsWith("a"))).toEqual(["a1", "a2", "a2", "a3"]);
    expect(inbox.metrics).toEqual({ processed: 5, duplicates: 3, held: 1, retried: 1, dead: 0, deadLettersRetried: 0, redriven: 0 });
  });
});

test("the context of a message has the same signal at every access", async () => {
  const signals = new Set<AbortSignal>();
  await inboxOn().handle({ id: "m", payload: 1 }, (_, context) => {
    for (let access = 0; access < 3; access++) signals.add(context.signal);
  });
  expect(signals.size).toBe(1);
});

test("a signal ends the wait", async () => {
  const inbox = inboxOn();
  let end = () => {};
  const first = inbox.handle({ id: "m", payload: 1 }, () => {
    return new Promise<void>((go) => {
      end = go;
    });
  });
  const stop = new AbortController();
  const second = inbox.handle({ id: "m", payload: 1 }, boom, { signal: stop.signal });
  const refused = expect(second).rejects.toThrow("shutting down");
  stop.abort(new Error("shutting down"));
  await refused;
  end();
  expect((await first).status).toBe("processed");
});
