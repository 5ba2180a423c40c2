import { type ClientSession, MongoClient } from "mongodb";
import type { Store, Tx } from "onceflow";
import { createRuntime } from "onceflow/graph";
import { createOutbox } from "onceflow/outbox";
import { mongoStore } from "onceflow/store";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { oneEdge } from "../../graph/documents.js";
import { freshMongoDatabase } from "../../servers/mongodb/databases.js";
import type { FreshDatabase } from "../../servers/postgres/databases.js";

const server = inject("mongodb");

describe.skipIf(!server.ok)("packets in the user's transaction on MongoDB (emulator)", () => {
  let database: FreshDatabase;
  let client: MongoClient;
  let store: Store;
  beforeAll(async () => {
    database = await freshMongoDatabase(server.ok ? server.url : "");
    client = await new MongoClient(database.url).connect();
    store = await mongoStore({ client, purgeEveryMs: 0 });
    // A collection that is created inside of a transaction would need a newer server.
    await client.db().createCollection("business");
  });
  afterAll(async () => {
    await store?.close();
    await client?.close();
    await database?.drop();
  });

  const insert = (tx: Tx, id: string) =>
    client
      .db()
      .collection<{ _id: string }>("business")
      .insertOne({ _id: id }, { session: tx as ClientSession });
  const has = async (id: string) => (await client.db().collection<{ _id: string }>("business").findOne({ _id: id })) !== null;

  test("a trigger is committed with the row, or not at all", async () => {
    const seen: unknown[] = [];
    const keyed = oneEdge('{ mode: durable, idempotencyKey: "{{payload.id}}-work" }');
    const runtime = await createRuntime({ store, documents: [keyed], nodes: { work: (input) => void seen.push(input.packet("in").data) } });
    const trigger = (id: string, fails: boolean) =>
      store.transact(async (tx) => {
        await insert(tx, id);
        const triggered = await runtime.trigger("flow", "In", { id }, { key: id, tx });
        if (fails) throw new Error("changed my mind");
        return triggered;
      });
    await expect(trigger("no", true)).rejects.toThrow("changed my mind");
    expect([await has("no"), await runtime.executions()]).toEqual([false, []]);
    const { executionId = "" } = await trigger("yes", false);
    await runtime.wait(executionId);
    expect([await has("yes"), seen]).toEqual([true, [{ id: "yes" }]]);
    await runtime.stop();
  });

  test("a message of an outbox is committed with the row, or not at all", async () => {
    const outbox = createOutbox<{ id: string }>(store, { name: "mail" });
    const add = (id: string, fails: boolean) =>
      store.transact(async (tx) => {
        await insert(tx, id);
        await outbox.add(tx, { payload: { id } });
        if (fails) throw new Error("changed my mind");
      });
    await expect(add("lost", true)).rejects.toThrow("changed my mind");
    await add("sent", false);
    const packets = await client
      .db()
      .collection("onceflow_packets")
      .find({ payload: /sent|lost/ })
      .toArray();
    expect([await has("lost"), await has("sent"), packets.map(({ payload }) => payload)]).toEqual([
      false,
      true,
      [expect.stringContaining("sent")],
    ]);
  });
});
