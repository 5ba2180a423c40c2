import assert from "node:assert/strict";
import type { WorkerRecord } from "../../../core/runs/run.js";
import type { Store } from "../../../core/store/store.js";
import { type ContractGroup, needsDurability, needsVirtualTime } from "../contract-case.js";
import { dayMs, newOwner } from "../ledger/operations.js";
import { shortMs } from "../ledger/scene.js";
import { names } from "../name.js";
import { needsSharedClock, wrongBy } from "../opening.js";
import { reach, runCase, timeOf, unchanged } from "./run-case.js";
import { claim, create, longMs, runOf } from "./run-operations.js";

const hourMs = 3_600_000;
const signOfLife = { workflows: ["order", "refund"], version: "1.2.3" };

const beat = (store: Store, owner: string, leaseMs = longMs, fields = {}) =>
  store.runs.renew({ owner, leaseMs, signOfLife: { ...signOfLife, ...fields } });

async function workersOf(store: Store): Promise<WorkerRecord[]> {
  return (await store.runs.workers()).map((worker) => ({ ...worker, workflows: [...worker.workflows] }));
}

export const knowingWorkers: ContractGroup = {
  verb: "worker",
  cases: [
    runCase("a heartbeat registers the worker for all handles, with its workflows and its version", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      assert.deepEqual(await other.runs.workers(), []);
      const owner = newOwner();
      const before = await timeOf(store);
      assert.deepEqual(await beat(store, owner), []);
      const [worker, ...rest] = await workersOf(other);
      assert.ok(worker !== undefined && rest.length === 0);
      const { startedAt, seenAt } = worker;
      assert.deepEqual(worker, { id: owner, workflows: ["order", "refund"], version: "1.2.3", startedAt, seenAt, live: true });
      assert.ok(startedAt >= before && startedAt === seenAt && seenAt <= (await timeOf(store)));
    }),

    runCase("each heartbeat updates the time last seen, and keeps the time first seen", async (scene) => {
      const store = await scene.store();
      const owner = newOwner();
      await beat(store, owner);
      const [first] = await workersOf(store);
      assert.ok(first);
      await reach(scene, store, first.seenAt + 5);
      await beat(store, owner, longMs, { workflows: [], version: null });
      const [second] = await workersOf(store);
      assert.deepEqual(second, { ...first, workflows: [], version: null, seenAt: second?.seenAt });
      assert.ok((second?.seenAt ?? 0) >= first.seenAt + 5);
    }),

    runCase("a renewal without a heartbeat writes nothing about a worker", async (scene) => {
      const store = await scene.store();
      const [known, unknown] = [newOwner(), newOwner()];
      await beat(store, known);
      const before = await workersOf(store);
      await reach(scene, store, (before[0]?.seenAt ?? 0) + 5);
      for (const owner of [known, unknown]) await store.runs.renew({ owner, leaseMs: 2 * longMs });
      assert.deepEqual(await workersOf(store), before);
    }),

    runCase("a heartbeat extends the worker's runs as every renewal does", async (scene) => {
      const store = await scene.store();
      const owner = newOwner();
      for (const id of ["a", "b"]) await create(store, { id });
      await claim(store, { owner, leaseMs: 1000 });
      await create(store, { id: "pending" });
      const before = await timeOf(store);
      const renewed = await unchanged(store, ["pending"], () => beat(store, owner));
      assert.deepEqual(renewed.map(({ id }) => id).sort(), ["a", "b"]);
      for (const id of ["a", "b"]) assert.ok(((await runOf(store, id)).wakeAt ?? 0) >= before + longMs);
      assert.equal((await workersOf(store)).length, 1);
    }),

    runCase("the runs of a worker are those that it owns now, up to a limit", async (scene) => {
      const store = await scene.store();
      const [owner, other] = [newOwner(), newOwner()];
      for (const id of ["a", "b", "c"]) await create(store, { id });
      await claim(store, { owner });
      await create(store, { id: "theirs" });
      await claim(store, { owner: other });
      await create(store, { id: "pending" });
      const ids = async (worker: string, limit: number) => (await store.runs.held(worker, limit)).map(({ id }) => id).sort();
      assert.deepEqual(await ids(owner, 10), ["a", "b", "c"]);
      assert.deepEqual(await ids(other, 10), ["theirs"]);
      assert.deepEqual(await ids(newOwner(), 10), []);
      assert.equal((await ids(owner, 2)).length, 2);
      const { workflow } = await runOf(store, "a");
      assert.deepEqual(await store.runs.held(other, 1), [{ id: "theirs", workflow }]);
    }),

    runCase("the names of workflows that have runs, in order, a page at a time", async (scene) => {
      const store = await scene.store();
      assert.deepEqual(await store.runs.workflows("", 10), []);
      for (const [i, workflow] of ["order", "alpha", "order", "refund", "Order", "écru"].entries())
        await create(store, { id: `r${i}`, workflow });
      const all = ["Order", "alpha", "order", "refund", "écru"];
      assert.deepEqual(await store.runs.workflows("", 10), all);
      assert.deepEqual(await store.runs.workflows("", 2), all.slice(0, 2));
      assert.deepEqual(await store.runs.workflows("alpha", 2), all.slice(2, 4));
      assert.deepEqual(await store.runs.workflows("b", 10), all.slice(2));
      assert.deepEqual(await store.runs.workflows("écru", 10), []);
    }),

    runCase("a worker is live as long as its lease; the list has live workers first, last seen first", async (scene) => {
      const store = await scene.store();
      const [first, second, third] = [newOwner(), newOwner(), newOwner()];
      const pass = async () => reach(scene, store, (await timeOf(store)) + 2);
      await beat(store, first);
      await pass();
      await beat(store, second);
      await pass();
      await beat(store, third, shortMs);
      await scene.until("the lease of one is over", async () => (await workersOf(store)).some(({ live }) => !live));
      const found = await workersOf(store);
      assert.deepEqual(
        found.map(({ id, live }) => [id, live]),
        [
          [second, true],
          [first, true],
          [third, false],
        ],
      );
      assert.ok((await timeOf(store)) >= (found[2]?.seenAt ?? 0) + shortMs);
      await beat(store, third, longMs);
      assert.deepEqual(
        (await workersOf(store)).map(({ id, live }) => [id, live]),
        [third, second, first].map((id) => [id, true]),
      );
    }),

    runCase("a worker that leaves is removed from the list; its runs are not changed", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const [owner, stays] = [newOwner(), newOwner()];
      await create(store);
      await claim(store, { owner });
      for (const each of [owner, stays]) await beat(store, each);
      await unchanged(store, ["run"], () => other.runs.leave(owner));
      await other.runs.leave(owner);
      await other.runs.leave("missing");
      assert.deepEqual(
        (await workersOf(store)).map(({ id }) => id),
        [stays],
      );
      assert.equal((await runOf(store)).owner, owner);
    }),

    runCase("names are returned unchanged", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owners = names.filter((_, i) => i % 6 === 0);
      for (const owner of owners) await beat(store, owner, longMs, { workflows: names, version: owner });
      const found = await workersOf(other);
      assert.deepEqual(found.map(({ id }) => id).sort(), [...owners].sort());
      for (const { id, version, workflows } of found) assert.deepEqual([version, workflows], [id, names]);
      for (const owner of owners.slice(1)) await store.runs.leave(owner);
      assert.deepEqual(
        (await workersOf(other)).map(({ id }) => id),
        owners.slice(0, 1),
      );
    }),

    runCase("heartbeats of one worker at once make one worker", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owner = newOwner();
      await Promise.all([store, other, store, other].map((handle) => beat(handle, owner)));
      assert.equal((await workersOf(store)).length, 1);
    }),

    runCase(
      "the store's clock decides, not the worker's",
      async (scene) => {
        const store = await scene.store();
        for (const ms of [dayMs, -dayMs]) await beat(await scene.open({ clock: wrongBy(ms) }), newOwner());
        const now = await timeOf(store);
        for (const { seenAt, live } of await workersOf(store)) assert.ok(live && Math.abs(now - seenAt) < longMs);
      },
      needsSharedClock,
    ),

    runCase(
      "workers are listed after the handle is closed and another one is opened",
      async (scene) => {
        const first = await scene.open();
        const owner = newOwner();
        await beat(first, owner);
        await first.close();
        const [worker] = await workersOf(await scene.open());
        assert.deepEqual([worker?.id, worker?.live], [owner, true]);
      },
      needsDurability,
    ),

    runCase(
      "a worker that was silent for an hour is not listed, and a purge forgets it",
      async (scene) => {
        const store = await scene.store();
        const [silent, alive] = [newOwner(), newOwner()];
        await beat(store, silent);
        await scene.pass(hourMs - 1);
        assert.equal(await store.runs.purge(10), 0);
        assert.deepEqual(
          (await workersOf(store)).map(({ id, live }) => [id, live]),
          [[silent, false]],
        );
        await beat(store, alive);
        await scene.pass(1);
        assert.deepEqual(
          (await workersOf(store)).map(({ id }) => id),
          [alive],
        );
        assert.equal(await store.runs.purge(10), 0);
        await beat(store, silent);
        const [again] = (await workersOf(store)).filter(({ id }) => id === silent);
        assert.equal(again?.startedAt, again?.seenAt);
      },
      needsVirtualTime,
    ),
  ],
};
