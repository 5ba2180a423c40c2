import { beforeEach, describe, expect, test } from "vitest";
import { operation } from "../../src/core/ledger/named-operation.js";
import { once } from "../../src/core/ledger/once.js";
import { resolve } from "../../src/core/ledger/resolve.js";
import type { Store } from "../../src/core/store/store.js";
import { createInbox } from "../../src/exports/inbox.js";
import { storeWith } from "./memory-store.js";

let store: Store;
beforeEach(() => {
  store = storeWith().store;
});

describe("an operation", () => {
  const charges = (calls: string[], options: { readonly effect?: "atMostOnce"; readonly keepFailures?: boolean } = {}) =>
    operation({
      name: "charge",
      scope: ({ tenant }: { tenant: string; order: string }) => tenant,
      key: ({ order }) => order,
      run: ({ order }, { effectKey }) => {
        calls.push(effectKey);
        if (order.startsWith("bad")) throw new Error("declined");
        return `charged ${order}`;
      },
      ...options,
    });
  const message = (order: string, tenant = "t") => ({ id: `m-${order}`, payload: { tenant, order } });

  test("has dead letters in its own scopes, and a retry has the same effect key", async () => {
    const calls: string[] = [];
    const charge = charges(calls);
    const inbox = createInbox(store, { consumer: "billing", operation: charge, attemptsMax: 1 });
    expect(await inbox.handle(message("bad-1"))).toMatchObject({ status: "dead" });
    expect(await inbox.deadLetters()).toEqual([]);
    expect(await inbox.deadLetters({ scope: "t" })).toMatchObject([{ key: "bad-1", scope: "operation charge t" }]);
    const ref = { key: "bad-1", scope: "t" };
    expect((await inbox.deadLetter(ref))?.message).toEqual(message("bad-1"));
    // Other callers of the operation get the error of the dead letter.
    await expect(charge.once(store, message("bad-1").payload)).rejects.toThrow("declined");
    expect(await inbox.retry(ref)).toMatchObject({ status: "dead", attempt: 2 });
    expect(new Set(calls).size).toBe(1);
    expect(calls).toHaveLength(2);
    await inbox.discard(ref);
    expect(await inbox.deadLetters({ scope: "t" })).toEqual([]);
  });

  test("that may have taken effect is held until it is resolved", async () => {
    const inbox = createInbox(store, { consumer: "billing", operation: charges([], { effect: "atMostOnce" }) });
    for (let i = 0; i < 2; i++) expect(await inbox.handle(message("bad-1"))).toMatchObject({ status: "held", unknown: true });
    await resolve(store, { scope: "operation charge t", key: "bad-1", attempt: 1 }, { completed: "it had happened" });
    expect(await inbox.handle(message("bad-1"))).toEqual({ status: "duplicate", result: "it had happened" });
  });

  test("that stores its failures itself has no message to retry with", async () => {
    const charge = charges([], { keepFailures: true });
    await expect(charge.once(store, message("bad-1").payload)).rejects.toThrow("declined");
    const inbox = createInbox(store, { consumer: "billing", operation: charge });
    expect(await inbox.handle(message("bad-1"))).toMatchObject({ status: "dead", replayed: true });
    expect(await inbox.deadLetters({ scope: "t" })).toMatchObject([
      { message: undefined, omitted: expect.stringMatching(/only its error/) },
    ]);
  });

  test("an inbox, `once` and an operation with the same name do not share keys", async () => {
    const calls: string[] = [];
    await createInbox(store, { consumer: "charge", key: () => "o-1" }).handle(message("o-1"), () => void calls.push("inbox"));
    await once(store, { scope: "charge", key: "o-1" as never }, () => void calls.push("once"));
    await createInbox(store, { consumer: "charge", operation: charges(calls) }).handle(message("o-1"));
    expect(calls).toHaveLength(3);
  });
});
