import assert from "node:assert/strict";
import type { ContractGroup } from "../contract-case.js";
import { newOwner } from "../ledger/operations.js";
import { shortMs } from "../ledger/scene.js";
import { lapse, runCase, takenOver, timeOf, unchanged } from "./run-case.js";
import { append, begin, claim, claimedIds, create, ended, firstOf, longMs, post, released, runOf } from "./run-operations.js";

export const renewing: ContractGroup = {
  verb: "renew",
  cases: [
    runCase("a renewal extends all runs of its owner, and no others", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owner = newOwner();
      for (const id of ["a", "b", "c"]) await create(store, { id });
      await claim(store, { owner, leaseMs: 1000 });
      await begin(store, { id: "neighbour" });
      await create(store, { id: "pending" });
      const before = await timeOf(store);
      const renewed = await unchanged(store, ["neighbour", "pending"], () => other.runs.renew({ owner, leaseMs: 50_000 }));
      const now = await timeOf(store);
      assert.deepEqual(renewed.map(({ id }) => id).sort(), ["a", "b", "c"]);
      for (const id of ["a", "b", "c"]) {
        const { wakeAt, owner: has, epoch } = await runOf(store, id);
        assert.ok(wakeAt !== null && wakeAt >= before + 50_000 && wakeAt <= now + 50_000);
        assert.deepEqual([has, epoch], [owner, 1]);
      }
    }),

    runCase("a renewal returns the creator and the epoch of each run, and its newest mail", async (scene) => {
      const store = await scene.store();
      const { next } = await takenOver(scene, store, "a");
      for (let i = 0; i < 3; i++) await post(store, { to: { run: "a" } });
      await append(store, next, { consumed: 2 });
      const { creator } = await create(store, { id: "b" });
      await claim(store, { owner: next.owner });
      const renewed = await store.runs.renew({ owner: next.owner, leaseMs: longMs });
      const byId = renewed.map((one) => ({ ...one })).sort((x, y) => (x.id < y.id ? -1 : 1));
      assert.deepEqual(byId, [
        { id: "a", creator: next.creator, epoch: 2, mail: 3 },
        { id: "b", creator, epoch: 1, mail: 0 },
      ]);
    }),

    runCase("a run that was taken over, released or ended is not in the answer, and stays as it is", async (scene) => {
      const store = await scene.store();
      const { late, next } = await takenOver(scene, store);
      const renew = (owner: string) =>
        unchanged(store, ["run", "released", "ended"], () => store.runs.renew({ owner, leaseMs: 5 * longMs }));
      assert.deepEqual(await renew(late.owner), []);
      const sleeper = await begin(store, { id: "released" });
      await append(store, sleeper, { next: released({ wakeAt: (await timeOf(store)) + longMs }) });
      assert.deepEqual(await renew(sleeper.owner), []);
      const over = await begin(store, { id: "ended" });
      await append(store, over, { next: ended() });
      assert.deepEqual(await renew(over.owner), []);
      assert.equal((await runOf(store)).owner, next.owner);
    }),

    runCase("a late renewal keeps a run that no other owner has claimed", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await begin(store, { first: firstOf({}, shortMs) });
      await lapse(scene, store);
      const renewed = await store.runs.renew({ owner: owned.owner, leaseMs: longMs });
      assert.deepEqual(
        renewed.map(({ id, epoch }) => [id, epoch]),
        [["run", 1]],
      );
      assert.deepEqual(await claimedIds(other), []);
      await append(store, owned, { next: ended() });
    }),

    runCase("a renewal of an owner without runs returns no runs", async (scene) => {
      const store = await scene.store();
      await create(store);
      assert.deepEqual(await unchanged(store, ["run"], () => store.runs.renew({ owner: newOwner(), leaseMs: longMs })), []);
    }),
  ],
};
