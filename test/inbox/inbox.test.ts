import { inspect, MismatchError, type Store } from "onceflow";
import { createInbox, type Handled, type Message, PermanentError } from "onceflow/inbox";
import { EffectLedger } from "onceflow/testing";
import { expect } from "vitest";
import { letTimePass } from "../kit/real-time.js";
import { settled } from "../kit/until.js";

import { boom, charge, onEveryPlace, type Payment, paymentOf, statuses } from "./places.js";

onEveryPlace("an inbox", (at) => {
  const { place, on, inboxOf } = at;

  on("handles a message once, and recognises its copies and resends", async (consumer) => {
    const inbox = inboxOf(consumer);
    const effects = new EffectLedger({ honoursKeys: false });
    const fn = ({ payload }: Message<Payment>, { effectKey, attempt }: { effectKey: string; attempt: number }) => {
      effects.call(effectKey, { attempt, result: undefined });
      return { charged: payload.amount, at: new Date(0) };
    };
    const first = await inbox.handle(paymentOf("o-1", "m-1"), fn);
    expect(first).toEqual({ status: "processed", attempt: 1, result: { charged: 10, at: new Date(0) } });
    const copy = await inbox.handle(paymentOf("o-1", "m-1"), fn);
    const resend = await inbox.handle(paymentOf("o-1", "m-2"), fn);
    expect([copy, resend]).toEqual(Array(2).fill({ status: "duplicate", result: { charged: 10, at: new Date(0) } }));
    expect((await inbox.handle(paymentOf("o-2"), fn)).status).toBe("processed");
    expect((await inboxOf(`${consumer}-other`).handle(paymentOf("o-1", "m-1"), fn)).status).toBe("processed");
    expect(effects.keys().map((each) => effects.rawCalls(each))).toEqual([1, 1, 1]);
    expect(inbox.metrics).toEqual({ processed: 2, duplicates: 2, held: 0, retried: 0, dead: 0, deadLettersRetried: 0, redriven: 0 });
  });

  on("handles one of many concurrent copies, and the others wait for its result", async (consumer) => {
    const inbox = inboxOf(consumer);
    let calls = 0;
    const message = paymentOf("o-1");
    const all = await Promise.all(
      Array.from({ length: 10 }, () =>
        inbox.handle(message, async () => {
          calls += 1;
          await letTimePass(20, "the other copies arrive while this one runs");
          return calls;
        }),
      ),
    );
    expect(calls).toBe(1);
    expect(statuses(all).sort()).toEqual([...Array(9).fill("duplicate"), "processed"]);
    expect(all.map((handled) => "result" in handled && handled.result)).toEqual(Array(10).fill(1));
  });

  on("counts attempts, and makes a message that fails too often a dead letter with its history", async (consumer) => {
    const inbox = inboxOf(consumer, { attemptsMax: 3, backoffMs: 100 });
    const seen: string[] = [];
    const fn = (_: Message, { effectKey }: { effectKey: string }) => {
      seen.push(effectKey);
      throw new RangeError("no such account");
    };
    const message = { ...paymentOf("o-1", "m-1"), headers: { trace: "t" }, orderKey: "k", source: "payments" };
    const handled: Handled[] = [];
    for (let i = 0; i < 5; i++) handled.push(await inbox.handle(message, fn));
    expect(handled).toMatchObject([
      { status: "retry", attempt: 1, afterMs: 100, error: { message: "no such account" } },
      { status: "retry", attempt: 2, afterMs: 200 },
      { status: "dead", attempt: 3, error: { message: "no such account" } },
      { status: "dead", attempt: 3, replayed: true, error: { message: "no such account" } },
      { status: "dead", attempt: 3, replayed: true },
    ]);
    expect(seen).toHaveLength(3);
    const [letter, ...more] = await inbox.deadLetters();
    expect(more).toEqual([]);
    expect(letter).toMatchObject({ key: "o-1-charge", effectKey: seen[0], attempt: 3, messageId: "m-1", message });
    expect(letter?.error).toBeInstanceOf(RangeError);
    const { attempts, retries, redrives } = (await inbox.deadLetter("o-1-charge")) ?? {};
    expect(attempts?.map(({ attempt, verdict, note }) => [attempt, verdict, note])).toEqual([
      [1, "threw", "RangeError"],
      [2, "threw", "RangeError"],
      [3, "failed", "RangeError"],
    ]);
    expect([retries, redrives]).toEqual([[], []]);
    expect(inbox.metrics).toMatchObject({ retried: 2, dead: 1, duplicates: 2, processed: 0 });
  });

  on("retries a dead letter with the same effect key; it stays a dead letter until that succeeds", async (consumer) => {
    const inbox = inboxOf(consumer, { attemptsMax: 1 });
    const message = paymentOf("o-1", "m-1");
    const seen = new Set<string>();
    await inbox.handle(message, (_, { effectKey }) => {
      seen.add(effectKey);
      boom();
    });
    expect(await inbox.retry("o-1-charge", boom)).toMatchObject({ status: "dead", attempt: 2, error: { message: "boom" } });
    expect(await inbox.deadLetter("o-1-charge")).toMatchObject({
      message,
      retries: [{ attempt: 2, verdict: "threw" }],
      redrives: [{ attempt: 2, verdict: "threw" }],
    });
    const retried = await inbox.retry<Payment, unknown>("o-1-charge", ({ id, payload }, { attempt, effectKey, key: own }) => {
      seen.add(effectKey);
      return { id, payload, attempt, own };
    });
    const result = { ...message, attempt: 3, own: "o-1-charge" };
    expect(retried).toEqual({ status: "processed", attempt: 3, result });
    expect(seen.size).toBe(1);
    expect(await inbox.deadLetters()).toEqual([]);
    expect(await inbox.deadLetter("o-1-charge")).toBeUndefined();
    // Its copies, and another retry, find the result; so does the deprecated name of `retry`.
    expect(await inbox.handle(message, boom)).toEqual({ status: "duplicate", result });
    expect(await inbox.retry("o-1-charge", boom)).toEqual({ status: "duplicate", result });
    expect(await inbox.redrive("o-1-charge", boom)).toEqual({ status: "duplicate", result });
    expect(inbox.metrics).toMatchObject({ dead: 1, deadLettersRetried: 1, redriven: 1, duplicates: 1 });
    await expect(inbox.retry("o-9-charge", boom)).rejects.toThrow(/"o-9-charge" is not a dead letter: no record with this key/);
  });

  on("retries a dead letter once if two calls are concurrent", async (consumer) => {
    const inbox = inboxOf(consumer, { attemptsMax: 1 });
    await inbox.handle(paymentOf("o-1"), boom);
    let calls = 0;
    let [ran, finish] = [() => {}, () => {}];
    const running = new Promise<void>((go) => {
      ran = go;
    });
    const finished = new Promise<void>((go) => {
      finish = go;
    });
    const retry = () =>
      inbox.retry("o-1-charge", async () => {
        calls += 1;
        ran();
        await finished;
        return calls;
      });
    const first = retry();
    await running;
    expect(await retry()).toMatchObject({ status: "held" });
    await expect(inbox.discard("o-1-charge")).rejects.toMatchObject({ code: "RUNNING" });
    finish();
    expect(await first).toMatchObject({ status: "processed", result: 1 });
    const both = await Promise.all([retry(), retry()]);
    expect(statuses(both)).toEqual(["duplicate", "duplicate"]);
    expect(calls).toBe(1);
  });

  on("a retry whose process died after the handler succeeded is not run again", async (consumer) => {
    const inbox = inboxOf(consumer, { attemptsMax: 1 });
    await inbox.handle(paymentOf("o-1"), boom);
    const died = new Error("died");
    // The last write of a retry is the one that makes the dead letter's record completed.
    const dying = Object.create(at.store, {
      commit: {
        value: (batch: Parameters<Store["commit"]>[0]) =>
          "ledger" in batch && (batch as { ledger: { verb: string } }).ledger.verb === "resolve"
            ? Promise.reject(died)
            : at.store.commit(batch as never),
      },
    }) as Store;
    let calls = 0;
    const charge1 = () => {
      calls += 1;
      return "charged";
    };
    await expect(createInbox(dying, { consumer, key: charge }).retry("o-1-charge", charge1)).rejects.toBe(died);
    expect(await inbox.deadLetters()).toHaveLength(1);
    expect(await inbox.retry("o-1-charge", charge1)).toEqual({ status: "duplicate", result: "charged" });
    expect(await inbox.handle(paymentOf("o-1"), charge1)).toEqual({ status: "duplicate", result: "charged" });
    expect([calls, (await inbox.deadLetters()).length]).toEqual([1, 0]);
  });

  on("discards a dead letter: nothing runs, and its copies are duplicates", async (consumer) => {
    const inbox = inboxOf(consumer, { attemptsMax: 1 });
    for (const order of ["o-1", "o-2", "o-3"]) await inbox.handle(paymentOf(order), boom);
    await inbox.discard("o-2-charge");
    await inbox.discard("o-2-charge");
    expect((await inbox.deadLetters()).map((letter) => letter.key)).toEqual(["o-1-charge", "o-3-charge"]);
    expect(await inbox.handle(paymentOf("o-2"), boom)).toEqual({ status: "duplicate" });
    const [first] = await inbox.deadLetters({ limit: 1 });
    const rest = await inbox.deadLetters({ limit: 10, after: first?.key ?? "" });
    expect([first?.key, ...rest.map((letter) => letter.key)]).toEqual(["o-1-charge", "o-3-charge"]);
    expect((await inspect(at.store, { scope: `inbox ${consumer}`, key: "o-2-charge" }))?.attempts.at(-1)).toMatchObject({
      note: "discarded",
    });
  });

  on("makes a message a dead letter at once if its handler throws a PermanentError", async (consumer) => {
    const inbox = inboxOf(consumer);
    const handled = await inbox.handle(paymentOf("o-1"), () => {
      throw new PermanentError("cancelled", { cause: new Error("by the customer") });
    });
    expect(handled).toMatchObject({ status: "dead", attempt: 1 });
    const own = await inbox.handle(paymentOf("o-2"), () => {
      throw Object.assign(new Error("refused"), { retryable: false });
    });
    expect(own.status).toBe("dead");
    const [letter] = await inbox.deadLetters();
    expect(letter?.error).toBeInstanceOf(PermanentError);
    expect(letter?.error.cause).toMatchObject({ message: "by the customer" });
  });

  on("makes a different message with a used key a dead letter, and leaves the first unchanged", async (consumer) => {
    const inbox = inboxOf(consumer);
    await inbox.handle(paymentOf("o-1", "m-1", 10), () => "ten");
    for (const replayed of [undefined, true]) {
      const other = await inbox.handle(paymentOf("o-1", "m-2", 11), () => "eleven");
      expect(other).toMatchObject({ status: "dead", attempt: 1, ...(replayed && { replayed }) });
      expect((other as { error: unknown }).error).toBeInstanceOf(MismatchError);
    }
    expect(await inbox.handle(paymentOf("o-1", "m-1", 10), boom)).toEqual({ status: "duplicate", result: "ten" });
    const [letter] = await inbox.deadLetters();
    expect(letter).toMatchObject({ key: expect.stringMatching(/^o-1-charge#[0-9a-f]{16}$/), message: { payload: { amount: 11 } } });
    expect(await inbox.retry<Payment, number>(letter?.key ?? "", ({ payload }) => payload.amount)).toMatchObject({ result: 11 });
    expect(inbox.metrics.dead).toBe(1);
    const lenient = inboxOf(consumer, { fingerprint: false });
    expect(await lenient.handle(paymentOf("o-1", "m-3", 12), boom)).toEqual({ status: "duplicate", result: "ten" });
  });

  on("makes a message whose key function fails a dead letter", async (consumer) => {
    const inbox = inboxOf(consumer);
    const message = { id: "m-1", payload: { amount: 1 } };
    const handled = await inbox.handle(message, boom);
    expect(handled).toMatchObject({ status: "dead", error: { code: "INVALID_INPUT", field: "payload.order" } });
    expect(await inbox.handle(message, boom)).toMatchObject({ status: "dead", replayed: true });
    expect(await inbox.deadLetters()).toMatchObject([{ key: "unkeyed:m-1", message }]);
    expect(await inbox.retry("unkeyed:m-1", () => "by hand")).toMatchObject({ status: "processed", result: "by hand" });
  });

  on("counts attempts from zero when the key's record has expired", async (consumer) => {
    const inbox = inboxOf(consumer, { attemptsMax: 2, retentionMs: 1 });
    expect(await inbox.handle(paymentOf("o-1"), boom)).toMatchObject({ status: "retry", attempt: 1 });
    expect(await inbox.handle(paymentOf("o-1"), () => 1)).toMatchObject({ status: "processed" });
    await expect.poll(() => inbox.handle(paymentOf("o-1"), boom), { timeout: 60_000 }).toMatchObject({ status: "retry" });
    expect(await inbox.handle(paymentOf("o-1"), boom)).toMatchObject({ status: "dead" });
  });

  on("holds a copy if the first takes longer than the copy can wait", async (consumer) => {
    const inbox = inboxOf(consumer, { waitMs: 0 });
    let end = () => {};
    let began = () => {};
    const running = new Promise<void>((go) => {
      began = go;
    });
    const message = paymentOf("o-1");
    const first = inbox.handle(message, async () => {
      began();
      await new Promise<void>((go) => {
        end = go;
      });
      return "done";
    });
    await running;
    const held = await inbox.handle(message, boom);
    expect(held.status).toBe("held");
    expect((held as { forMs: number }).forMs).toBeGreaterThan(0);
    expect((held as { forMs: number }).forMs).toBeLessThanOrEqual(30_000);
    end();
    expect((await first).status).toBe("processed");
    expect(await inbox.handle(message, boom)).toEqual({ status: "duplicate", result: "done" });
    expect(inbox.metrics).toMatchObject({ held: 1, processed: 1, duplicates: 1 });
  });

  on("handles a batch with one begin for all and an outcome for each, and a copy gets the outcome of the first", async (consumer) => {
    const inbox = inboxOf(consumer, { attemptsMax: 2 });
    const calls = new Map<string, number>();
    const messages = Array.from({ length: 60 }, (_, i) => paymentOf(`o-${i % 40}`, `m-${i}`));
    const before = at.store.metrics;
    const batch = [...messages, { id: "no-key", payload: {} as Payment }, paymentOf("o-1", "other", 99)];
    const handled = await inbox.handleBatch(batch, async ({ payload }) => {
      calls.set(payload.order, (calls.get(payload.order) ?? 0) + 1);
      // All begin before the first one ends, because they share a flush, which has room for 512.
      await settled();
      if (payload.order === "o-7") boom();
      return payload.order;
    });
    expect([...calls.values()]).toEqual(Array(40).fill(1));
    const expected = messages.map(({ payload }, i) =>
      payload.order === "o-7" ? { status: "retry", attempt: 1 } : { status: i < 40 ? "processed" : "duplicate", result: payload.order },
    );
    expect(handled).toMatchObject([...expected, { status: "dead" }, { status: "dead" }]);
    const flushes = at.store.metrics.flushes - before.flushes;
    const started = at.store.metrics.started - before.started;
    expect(started).toBe(42);
    // One flush for each begin and each settle would be 82.
    if (place !== "Redis") expect(flushes).toBeLessThan(60);
    expect(inbox.metrics).toMatchObject({ processed: 39, retried: 1, dead: 2 });
  });
});
