import { InvalidInputError, type Store, type Tx } from "onceflow";
import type { Runtime, Triggered } from "onceflow/graph";
import { expect } from "vitest";
import { durableStores, onStores, type Scene } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { statement } from "../outbox/scene.js";
import { oneEdge } from "./documents.js";
import { eventsOf, expectAtRest, recorder, running } from "./runtimes.js";

const keyed = oneEdge('{ mode: durable, idempotencyKey: "{{payload.id}}-work" }');

/** A runtime that polls every half minute or when it is notified, and a user's table beside its packets. */
async function shop(scene: Scene) {
  const work = recorder();
  const store = await scene.open();
  const other = await scene.open();
  const table = scene.name("business").replace(" ", "_");
  await store.transact((tx) => statement(tx, `CREATE TABLE ${table} (id TEXT)`));
  const runtime = await running(scene, keyed, { work: work.node }, { store: other, pollMs: 30_000, leaseMs: 3_600_000 });
  // The process that triggers is not the one that delivers.
  const sender = await running(scene, keyed, {}, { store, work: false });
  await runtime.idle();
  const insert = (tx: Tx, id: string) => statement(tx, `INSERT INTO ${table} VALUES (?)`, id);
  const rows = async () => (await store.transact((tx) => statement(tx, `SELECT id FROM ${table}`))).length;
  return { store, runtime, sender, seen: work.seen, insert, rows };
}

const within = (store: Store, runtime: Runtime, payload: Record<string, unknown>, key = "k") =>
  store.transact((tx) => runtime.trigger("flow", "In", payload, { key, tx }));

onStores("a trigger in the user's transaction", durableStores, (test) => {
  test("is committed together with the row, and a waiting runtime is notified only after the commit", async ({ scene }) => {
    const { store, runtime, sender, seen, insert, rows } = await shop(scene);
    const events = eventsOf(sender, "triggered");
    const { executionId = "", status } = await store.transact(async (tx) => {
      await insert(tx, "o");
      const triggered = await sender.trigger("flow", "In", { id: "o" }, { key: "k", tx });
      // The other runtime polls now and finds nothing.
      if (scene.on === "postgres") await runtime.idle();
      expect([seen, await runtime.execution(triggered.executionId ?? "")]).toEqual([[], undefined]);
      return triggered;
    });
    expect([status, events]).toEqual(["started", []]);
    expect(await runtime.wait(executionId)).toMatchObject({ status: "completed", key: "k", outputs: [{ data: { id: "o" } }] });
    expect([seen, await rows()]).toEqual([[{ id: "o" }], 1]);
  });

  test("of a runtime that also delivers: nothing is delivered before the commit, and a rollback leaves no reserved capacity", async ({
    scene,
  }) => {
    const { runtime, seen } = await shop(scene);
    const never = runtime.store.transact(async (tx) => {
      await runtime.trigger("flow", "In", { id: "never" }, { tx });
      throw new Error("changed my mind");
    });
    await expect(never).rejects.toThrow("changed my mind");
    await expectAtRest(runtime);
    const { executionId = "" } = await within(runtime.store, runtime, { id: "o" });
    expect((await runtime.wait(executionId)).status).toBe("completed");
    expect(seen).toEqual([{ id: "o" }]);
    await expectAtRest(runtime);
  });

  test("disappears with the row when the transaction is rolled back, and the key is free", async ({ scene }) => {
    const { store, runtime, sender, seen, insert, rows } = await shop(scene);
    let never: Triggered | undefined;
    const rolledBack = store.transact(async (tx) => {
      await insert(tx, "o");
      never = await sender.trigger("flow", "In", { id: "o" }, { key: "k", tx });
      throw new Error("changed my mind");
    });
    await expect(rolledBack).rejects.toThrow("changed my mind");
    expect([await rows(), await runtime.executions(), await runtime.counts()]).toEqual([0, [], []]);
    expect(await runtime.execution(never?.executionId ?? "")).toBeUndefined();
    const { executionId = "", status } = await within(store, sender, { id: "o" });
    expect([status, (await runtime.wait(executionId)).status, seen.length]).toEqual(["started", "completed", 1]);
  });

  test("with a used key returns the same execution and sends nothing, and reports a mismatch for another payload", async ({ scene }) => {
    const { store, runtime, sender, seen, insert, rows } = await shop(scene);
    const first = await sender.trigger("flow", "In", { id: "o" }, { key: "k" });
    const again = await store.transact(async (tx) => {
      await insert(tx, "o");
      return await sender.trigger("flow", "In", { id: "o" }, { key: "k", tx });
    });
    expect(again).toEqual({ executionId: first.executionId, status: "duplicate", mismatch: false });
    expect(await within(store, sender, { id: "other" })).toMatchObject({ executionId: first.executionId, mismatch: true });
    await runtime.wait(first.executionId ?? "");
    expect([await rows(), seen, (await runtime.executions()).length]).toEqual([1, [{ id: "o" }], 1]);
  });

  test("starts one execution if many transactions use the same key", async ({ scene }) => {
    const { store, runtime, sender, seen } = await shop(scene);
    const elsewhere = await running(scene, keyed, {}, { work: false });
    const both = [sender, elsewhere].flatMap((from) => Array.from({ length: 4 }, () => from));
    const all = await Promise.all(both.map((from) => within(from === sender ? store : from.store, from, { id: "o" })));
    expect(new Set(all.map(({ executionId }) => executionId)).size).toBe(1);
    expect(all.filter(({ status }) => status === "started")).toHaveLength(1);
    await runtime.wait(all[0]?.executionId ?? "");
    expect(seen).toEqual([{ id: "o" }]);
  });

  test("starts its own execution if several run concurrently in one transaction, and one execution per key", async ({ scene }) => {
    const { store, runtime, sender, seen } = await shop(scene);
    const keys = ["a", "b", "c", "a"];
    const all = await store.transact((tx) => Promise.all(keys.map((key) => sender.trigger("flow", "In", { id: key }, { key, tx }))));
    expect(all.map(({ status }) => status)).toEqual(["started", "started", "started", "duplicate"]);
    expect(all[3]?.executionId).toBe(all[0]?.executionId);
    for (const { executionId = "" } of all) await runtime.wait(executionId);
    expect(seen.map(({ id }) => id).sort()).toEqual(["a", "b", "c"]);
  });

  test("leaves the transaction unchanged when it is refused", async ({ scene }) => {
    const { store, runtime, sender, seen, insert, rows } = await shop(scene);
    const { executionId = "" } = await store.transact(async (tx) => {
      await insert(tx, "o");
      await expect(sender.trigger("flow", "Elsewhere", { id: "o" }, { tx })).rejects.toThrow(InvalidInputError);
      await expect(sender.trigger("flow", "In", "text" as never, { tx })).rejects.toThrow(InvalidInputError);
      return await sender.trigger("flow", "In", { id: "o" }, { tx });
    });
    await runtime.wait(executionId);
    await sender.archive("flow");
    const archived = store.transact(async (tx) => {
      await insert(tx, "late");
      await sender.trigger("flow", "In", { id: "late" }, { tx });
    });
    await expect(archived).rejects.toThrow(/is archived/);
    expect([await rows(), seen.length]).toEqual([1, 1]);
  });

  test("is refused if `tx` is not a transaction or if the flow stores nothing", async ({ scene }) => {
    const { store, runtime, sender } = await shop(scene);
    await expect(sender.trigger("flow", "In", { id: "o" }, { tx: {} as Tx })).rejects.toThrow(/tx/);
    let over: Tx = {};
    await store.transact(async (tx) => {
      over = tx;
    });
    if (scene.on === "sqlite") await expect(sender.trigger("flow", "In", { id: "o" }, { tx: over })).rejects.toThrow(/has ended/);
    const direct = { text: oneEdge("{ mode: direct }").text.replace("title: Flow", "title: Direct") };
    const quick = await running(scene, direct, { work: recorder().node });
    await expect(store.transact((tx) => quick.trigger("direct", "In", {}, { tx }))).rejects.toThrow(/stores nothing/);
    expect(await runtime.executions()).toEqual([]);
  });
});

onStores("a trigger in a transaction", ["memory"], (test) => {
  test("is refused if the store has no transactions", async ({ scene }) => {
    const runtime = await running(scene, keyed, { work: recorder().node });
    await expect(runtime.trigger("flow", "In", { id: "o" }, { tx: {} as Tx })).rejects.toMatchObject({ code: "MISSING_CAPABILITY" });
    await until("no delivery is in flight", () => runtime.metrics.inFlight === 0);
    expect(await runtime.executions()).toEqual([]);
  });
});
