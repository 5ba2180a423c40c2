import { randomUUID } from "node:crypto";
import { key, once, resolve } from "onceflow";
import { type DynamoClient, dynamoStore, type Store } from "onceflow/store";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { clientOf } from "../../servers/dynamodb/tables.js";

const server = inject("dynamodb");

/** dynalite and older emulators answer so: a failed condition comes without the existing item. */
describe.skipIf(!server.ok)("a DynamoDB server that does not send the old item with its refusal", () => {
  const { client, close } = clientOf(server.ok ? server.url : "dynamodb://none/");
  const silent = {
    async send(...asked: Parameters<typeof client.send>) {
      try {
        return await (client.send as (...all: unknown[]) => Promise<unknown>)(...asked);
      } catch (error) {
        if (error instanceof Error && error.name === "ConditionalCheckFailedException") delete (error as { Item?: unknown }).Item;
        throw error;
      }
    },
  } as unknown as DynamoClient;
  const table = `onceflow_test_${randomUUID()}`;
  let stores: readonly [Store, Store];

  beforeAll(async () => {
    const opened = () => dynamoStore({ client: silent, table, create: true });
    stores = [await opened(), await opened()];
  });
  afterAll(async () => {
    for (const store of stores) await store.close();
    close();
  });

  test("duplicates are replayed, and another input is refused", async () => {
    const [store, other] = stores;
    let effects = 0;
    const calls = [store, other, store].map((one) => once(one, { key: key.of("order") }, () => ++effects));
    expect((await Promise.all(calls)).map(({ value }) => value)).toEqual([1, 1, 1]);
    expect(effects).toBe(1);
    await once(store, { key: key.of("input"), input: { amount: 1 } }, () => 1);
    await expect(once(other, { key: key.of("input"), input: { amount: 2 } }, () => 2)).rejects.toMatchObject({ code: "MISMATCH" });
  });

  test("an unknown outcome is reported and can be resolved; a late settle changes nothing", async () => {
    const [store, other] = stores;
    const strict = { key: key.of("strict"), effect: "atMostOnce" } as const;
    const failing = once(store, strict, () => Promise.reject(new Error("connection lost")));
    await expect(failing).rejects.toThrow();
    expect(await once(other, strict, () => 1)).toMatchObject({ status: "unknown", attempt: 1 });
    await resolve(other, { scope: "", key: "strict", attempt: 1 }, { completed: "looked up" });
    expect(await once(store, strict, () => 2)).toMatchObject({ status: "replayed", value: "looked up" });
    const settle = { verb: "settle", scope: "", key: "nothing", owner: "late", attempt: 1, note: null } as const;
    expect(await store.commit({ ledger: { ...settle, to: { state: "completed", outcome: null } } })).toMatchObject({ kind: "stale" });
  });
});
