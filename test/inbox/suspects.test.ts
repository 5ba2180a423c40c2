import { expect } from "vitest";
import { newOwner } from "../../src/core/ledger/owner.js";

import { boom, onEveryPlace, paymentOf, statuses } from "./places.js";

onEveryPlace("a suspect of an inbox", (at) => {
  const { on, inboxOf } = at;

  /** Writes what a process leaves that died in its handler: an attempt whose lease is not renewed. */
  async function diesAt(consumer: string, attempt: number, aloneMs?: number): Promise<void> {
    const id = { scope: `inbox ${consumer}`, key: "o-1-charge" };
    const begin = {
      ...{ verb: "begin" as const, ...id, owner: newOwner(aloneMs), fingerprint: null, effect: "idempotent" as const },
      ...{ leaseMs: 60, retentionMs: 60_000, horizonMs: 0, reconcileAfterMs: 0, over: null, progress: null },
    };
    await expect
      .poll(async () => await at.store.commit({ ledger: begin }), { timeout: 60_000 })
      .toMatchObject({ kind: "started", attempt });
    at.store.release(begin.owner, id);
  }

  on("makes a message that killed its process too often a dead letter without running it again", async (consumer) => {
    const inbox = inboxOf(consumer, { attemptsMax: 2, leaseMs: 60 });
    const message = paymentOf("o-1", "m-1");
    for (const attempt of [1, 2]) await diesAt(consumer, attempt);
    for (const attempt of [3, 4]) await diesAt(consumer, attempt, 60);
    const handled = await inbox.handle(message, () => expect.unreachable("it would kill this process, too"));
    expect(handled).toMatchObject({ status: "dead", attempt: 5, error: { code: "ATTEMPTS_EXHAUSTED" } });
    const letter = await inbox.deadLetter("o-1-charge");
    expect(letter?.attempts.map(({ verdict }) => verdict)).toEqual([...Array(4).fill("lapsed"), "failed"]);
    expect(letter?.message).toEqual(message);
  });

  on("does not count a death against a message that was handled with others, as 0.1.0 did", async (consumer) => {
    const inbox = inboxOf(consumer, { attemptsMax: 2, leaseMs: 60 });
    for (let attempt = 1; attempt <= 3; attempt += 1) await diesAt(consumer, attempt);
    // The process lived longer than the message was alone.
    for (const attempt of [4, 5]) await diesAt(consumer, attempt, 59);
    expect(await inbox.handle(paymentOf("o-1", "m-1"), () => "done")).toMatchObject({ status: "processed", attempt: 7, result: "done" });
    expect(await inbox.deadLetters()).toEqual([]);
  });

  on("clears a suspect when its attempt ends, with or without an error", async (consumer) => {
    const inbox = inboxOf(consumer, { attemptsMax: 5, leaseMs: 60, backoffMs: 0 });
    for (const attempt of [1, 2]) await diesAt(consumer, attempt);
    const message = paymentOf("o-1", "m-1");
    expect(await inbox.handle(message, boom)).toMatchObject({ status: "retry", attempt: 4 });
    await diesAt(consumer, 5);
    // One death since then, so it is not handled alone.
    expect(await inbox.handle(message, () => "done")).toMatchObject({ status: "processed", attempt: 6 });
  });

  on("handles a suspect alone: running messages end first, and new messages wait", async (consumer) => {
    const inbox = inboxOf(consumer, { leaseMs: 5000 });
    for (const attempt of [1, 2]) await diesAt(consumer, attempt);
    const events: string[] = [];
    const ends: (() => void)[] = [];
    const until = (name: string) => async () => {
      events.push(`${name} begins`);
      await new Promise<void>((end) => void ends.push(end));
      events.push(`${name} ends`);
    };
    const first = inbox.handle(paymentOf("o-2"), until("first"));
    await expect.poll(() => events).toEqual(["first begins"]);
    const suspect = inbox.handle(paymentOf("o-1", "m-1"), until("suspect"));
    const record = async () => (await at.store.read({ scope: `inbox ${consumer}`, key: "o-1-charge" }))?.record;
    await expect.poll(record, { timeout: 60_000 }).toMatchObject({ state: "free", attempt: 3 });
    const late = inbox.handle(paymentOf("o-3"), until("late"));
    ends.shift()?.();
    await expect.poll(() => events, { timeout: 60_000 }).toEqual(["first begins", "first ends", "suspect begins"]);
    ends.shift()?.();
    await expect.poll(() => events, { timeout: 60_000 }).toContain("late begins");
    ends.shift()?.();
    expect(statuses(await Promise.all([first, suspect, late]))).toEqual(Array(3).fill("processed"));
    expect(events.slice(3)).toEqual(["suspect ends", "late begins", "late ends"]);
  });

  on("handles other messages again if a suspect takes long", async (consumer) => {
    const inbox = inboxOf(consumer, { leaseMs: 60 });
    for (const attempt of [1, 2]) await diesAt(consumer, attempt);
    let end = () => {};
    let began = false;
    const suspect = inbox.handle(paymentOf("o-1", "m-1"), async () => {
      began = true;
      await new Promise<void>((go) => {
        end = go;
      });
    });
    await expect.poll(() => began, { timeout: 60_000 }).toBe(true);
    expect(await inbox.handle(paymentOf("o-2"), () => end())).toMatchObject({ status: "processed" });
    expect((await suspect).status).toBe("processed");
  });

  on("lets other messages continue if they take longer than the suspect can wait", async (consumer) => {
    const inbox = inboxOf(consumer, { leaseMs: 60 });
    for (const attempt of [1, 2]) await diesAt(consumer, attempt);
    let end = () => {};
    let began = false;
    const first = inbox.handle(paymentOf("o-2"), async () => {
      began = true;
      await new Promise<void>((go) => {
        end = go;
      });
    });
    await expect.poll(() => began).toBe(true);
    const message = paymentOf("o-1", "m-1");
    expect(await inbox.handle(message, boom)).toEqual({ status: "held", forMs: 360 });
    expect(await inbox.handle(paymentOf("o-3"), () => "done")).toMatchObject({ status: "processed" });
    end();
    expect((await first).status).toBe("processed");
    expect(await inbox.handle(message, () => "done")).toMatchObject({ status: "processed" });
  });
});
