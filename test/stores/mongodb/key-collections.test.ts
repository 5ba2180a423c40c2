import { MongoClient } from "mongodb";
import { key, list, once, type Store } from "onceflow";
import { createRuntime, type FlowNode, NodeOutput, type Runtime } from "onceflow/graph";
import { mongoStore } from "onceflow/store";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { gate } from "../../kit/gate.js";
import { until } from "../../kit/until.js";
import { freshMongoDatabase } from "../../servers/mongodb/databases.js";
import type { FreshDatabase } from "../../servers/postgres/databases.js";

const server = inject("mongodb");

const documentOf = (flow: string, top = "") => ({
  file: "flow.yaml",
  text: `flowdsl: "1.0.0"
info: { title: Flow, version: "1.0.0" }
flows:
  "${flow}":
    ${top}
    nodes:
      In: { operationId: take, kind: source }
      Work: { operationId: work, kind: action }
    edges:
      - { from: In, to: Work, delivery: { mode: durable, store: mongo, idempotencyKey: "{{payload.id}}-work" } }
`,
});

/** What a person sees who looks into the database, not through a store. */
describe.skipIf(!server.ok)("the keys of a flow in MongoDB (emulator)", () => {
  let database: FreshDatabase;
  let client: MongoClient;
  beforeAll(async () => {
    database = await freshMongoDatabase(server.ok ? server.url : "");
    client = await new MongoClient(database.url).connect();
  });
  afterAll(async () => {
    await client?.close();
    await database?.drop();
  });

  async function running(
    flow: string,
    work: FlowNode,
    { top = "", prefix = "onceflow" } = {},
  ): Promise<{ store: Store; runtime: Runtime }> {
    const store = await mongoStore({ client, prefix, purgeEveryMs: 0 });
    const runtime = await createRuntime({ store, documents: [documentOf(flow, top)], nodes: { work } }).catch(async (error: unknown) => {
      await store.close();
      throw error;
    });
    return { store, runtime };
  }

  const keysIn = (collection: string) => client.db().collection<{ _id: string; status: string }>(collection).find().toArray();

  test("{flowId}.idempotency_keys has a document for each key: in_progress, then completed, and that decides", async () => {
    const held = gate();
    let calls = 0;
    const { store, runtime } = await running("orders", async () => {
      calls += 1;
      await held.opened;
      return new NodeOutput();
    });
    const first = await runtime.trigger("orders", "In", { id: "o-1" });
    await until("the node runs", () => calls === 1);
    expect(await keysIn("orders.idempotency_keys")).toMatchObject([{ _id: "o-1-work", key: "o-1-work", status: "in_progress" }]);
    held.open();
    await runtime.wait(first.executionId ?? "");
    expect(await keysIn("orders.idempotency_keys")).toMatchObject([{ _id: "o-1-work", status: "completed", attempt: 1 }]);
    expect((await keysIn("onceflow_records")).filter(({ _id }) => _id.includes("o-1-work"))).toEqual([]);

    const again = await runtime.trigger("orders", "In", { id: "o-1" });
    expect(await runtime.wait(again.executionId ?? "")).toMatchObject({ status: "completed", duplicates: 1 });
    // The document is what decides: without it the node is called again.
    await client.db().collection<{ _id: string }>("orders.idempotency_keys").deleteOne({ _id: "o-1-work" });
    const third = await runtime.trigger("orders", "In", { id: "o-1" });
    await runtime.wait(third.executionId ?? "");
    expect(calls).toBe(2);
    await store.close();
  });

  test("the ledger reads, lists and completes the same documents", async () => {
    const store = await mongoStore({ client, prefix: "mixed", purgeEveryMs: 0 });
    const scope = "mail.idempotency_keys";
    await once(store, { key: key.of("b"), scope }, () => 1);
    await once(store, { key: key.of("a"), scope: "another" }, () => 1);
    await once(store, { key: key.of("c"), scope: "zz" }, () => 1);
    expect(await keysIn("mixed.mail.idempotency_keys")).toMatchObject([{ _id: "b", status: "completed" }]);
    const { items } = await list(store, {});
    expect(items.map((item) => [item.scope, item.key])).toEqual([
      ["another", "a"],
      [scope, "b"],
      ["zz", "c"],
    ]);
    expect((await store.read({ scope, key: "b" }))?.record.state).toBe("completed");
    expect((await once(store, { key: key.of("b"), scope }, () => 2)).status).toBe("replayed");
    await store.close();
  });

  test("two stores with different prefixes do not share keys", async () => {
    const counts = { a: 0, b: 0 };
    for (const prefix of ["a", "b"] as const) {
      const work = () => {
        counts[prefix] += 1;
      };
      const { store, runtime } = await running("shared", work, { prefix });
      const { executionId = "" } = await runtime.trigger("shared", "In", { id: 1 });
      await runtime.wait(executionId);
      await store.close();
    }
    expect(counts).toEqual({ a: 1, b: 1 });
    expect(await keysIn("a.shared.idempotency_keys")).toHaveLength(1);
  });

  const asks = (name: string) => `x-runtime: { mongodb: { idempotencyKeys: ${name} } }`;

  test("the document names another collection, which belongs to that flow from then on", async () => {
    const { store, runtime } = await running("payments", () => {}, { top: asks("payment_keys") });
    const { executionId = "" } = await runtime.trigger("payments", "In", { id: "p" });
    await runtime.wait(executionId);
    expect(await keysIn("payment_keys")).toMatchObject([{ _id: "p-work", status: "completed" }]);
    await store.close();

    const refused = { code: "INVALID_COLLECTION" };
    await expect(running("refunds", () => {}, { top: asks("payment_keys") })).rejects.toMatchObject({
      ...refused,
      message: expect.stringContaining('holds the keys of flow "payments"'),
    });
    await expect(running("payments", () => {}, { top: asks("other_keys") })).rejects.toMatchObject({
      ...refused,
      message: expect.stringContaining('stores its keys in the collection "payment_keys"'),
    });
    // Without the setting the flow finds its collection again.
    const later = await running("payments", () => {});
    await later.store.close();
  });

  test.each([
    ["system.orders", "reserved by MongoDB"],
    ["pay$ments", "no $"],
    ["x".repeat(195), "bytes together"],
  ])("a flow whose id cannot be part of a collection's name is refused, and nothing is written: %s", async (flow, why) => {
    await expect(running(flow, () => {})).rejects.toMatchObject({ code: "INVALID_COLLECTION", message: expect.stringContaining(why) });
    expect(await client.db().collection("onceflow_key_collections").countDocuments({ flow })).toBe(0);
    // With a collection of its own it runs.
    const { store } = await running(flow, () => {}, { top: asks(`keys_of_${why.length}`) });
    await store.close();
  });
});
