import assert from "node:assert/strict";
import type { ContractGroup } from "../contract-case.js";
import { newOwner } from "../ledger/operations.js";
import { type Scene, shortMs } from "../ledger/scene.js";
import { lapse, reach, runCase, takenOver, timeOf, unchanged } from "./run-case.js";
import {
  after,
  append,
  appendOf,
  begin,
  claim,
  claimedIds,
  create,
  ended,
  expectAnswer,
  firstOf,
  longMs,
  numbers,
  type Owned,
  ownedOf,
  released,
  runOf,
  submit,
  suspect,
  take,
} from "./run-operations.js";

const clean = { deaths: 0, crashes: 0, alone: false };

/** Deaths, crashes and alone, as the store has them now. */
async function trialOf(store: Parameters<typeof runOf>[0], id = "run") {
  const { deaths, crashes, alone } = await runOf(store, id);
  return { deaths, crashes, alone };
}

/** The owner writes this about the run and falls silent; the next worker claims the run for a short time. */
async function dieAndClaim(scene: Scene, owned: Owned, fields: Parameters<typeof append>[2] = {}): Promise<Owned> {
  const store = await scene.store();
  await append(store, owned, fields);
  await lapse(scene, store, owned.id);
  return ownedOf(await take(store, owned.id, { leaseMs: shortMs }));
}

export const suspecting: ContractGroup = {
  verb: "suspect",
  cases: [
    runCase("a claim of a run whose owner fell silent counts one death, in the claim's own write", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      let owned = await begin(store, { first: firstOf({}, shortMs) });
      for (const deaths of [1, 2, 3]) {
        await lapse(scene, store);
        const claimed = await take(store, "run", { leaseMs: shortMs });
        assert.deepEqual([claimed.lapsed, claimed.run.deaths, claimed.run.crashes], [true, deaths, 0]);
        assert.deepEqual(await runOf(other), { ...claimed.run });
        owned = ownedOf(claimed);
      }
      assert.equal(owned.epoch, 4);
    }),

    runCase("a claim of a run that is pending or was released counts nothing", async (scene) => {
      const store = await scene.store();
      await create(store);
      let owned = ownedOf(await take(store, "run"));
      assert.deepEqual(await trialOf(store), clean);
      for (const trial of [{ deaths: 1, crashes: 0, alone: false }, { deaths: 3, crashes: 2, alone: true }, clean]) {
        owned = await append(store, owned, { trial, next: released({ wakeAt: 0 }) });
        assert.deepEqual(await trialOf(store), trial);
        owned = ownedOf(await take(store, "run"));
        assert.deepEqual(await trialOf(store), { ...trial, alone: false });
      }
    }),

    runCase("only the death of an owner that executed the run alone counts as a crash", async (scene) => {
      const store = await scene.store();
      const first = await begin(store, { first: firstOf({}, shortMs) });
      const second = await dieAndClaim(scene, first, { trial: { ...clean, alone: true } });
      assert.deepEqual(await trialOf(store), { deaths: 1, crashes: 1, alone: false });
      const third = await dieAndClaim(scene, second);
      assert.deepEqual(await trialOf(store), { deaths: 2, crashes: 1, alone: false });
      await dieAndClaim(scene, third, { trial: { deaths: 2, crashes: 1, alone: true } });
      assert.deepEqual(await trialOf(store), { deaths: 3, crashes: 2, alone: false });
    }),

    runCase("an owner sets deaths, crashes and alone with any entry; left out, they stay", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      let owned = await begin(store, { first: firstOf({ trial: { deaths: 7, crashes: 6, alone: true } }) });
      assert.deepEqual(await trialOf(other), { deaths: 7, crashes: 6, alone: true });
      owned = await append(store, owned, { trial: { deaths: 1, crashes: 4, alone: false } });
      assert.deepEqual(await trialOf(other), { deaths: 1, crashes: 4, alone: false });
      owned = await append(store, owned);
      owned = await append(store, owned, { consumed: 0 });
      assert.deepEqual(await trialOf(other), { deaths: 1, crashes: 4, alone: false });
      expectAnswer(await submit(store, appendOf(owned, { events: null, trial: { deaths: 2, crashes: 5, alone: true } })), "appended");
      assert.deepEqual(await trialOf(other), { deaths: 2, crashes: 5, alone: true });
      owned = await append(store, owned, { next: released({ wakeAt: 0 }) });
      assert.deepEqual(await trialOf(other), { deaths: 2, crashes: 5, alone: true });
      const next = ownedOf(await take(store, "run"));
      await append(store, next, { trial: { deaths: 3, crashes: 3, alone: true }, next: ended() });
      assert.deepEqual(await trialOf(other), { deaths: 3, crashes: 3, alone: true });
    }),

    runCase("the crash counts of a late owner are refused with its entry", async (scene) => {
      const store = await scene.store();
      const { late, next } = await takenOver(scene, store);
      await append(store, next);
      const trial = { deaths: 0, crashes: 9, alone: true };
      for (const events of ["late", null])
        expectAnswer(await unchanged(store, ["run"], () => submit(store, appendOf(late, { events, trial }))), "overtaken");
      assert.deepEqual(await trialOf(store), { deaths: 1, crashes: 0, alone: false });
    }),

    runCase("an entry that is sent again does not set deaths again", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      const asked = appendOf(owned, { trial: { deaths: 5, crashes: 5, alone: true } });
      expectAnswer(await submit(store, asked), "appended");
      await append(store, after(owned), { trial: clean });
      expectAnswer(await unchanged(store, ["run"], () => submit(store, asked)), "appended");
      assert.deepEqual(await trialOf(store), clean);
    }),

    runCase("after two deaths a run is claimed as a suspect: one at a time, the oldest first", async (scene) => {
      const store = await scene.store();
      const now = await timeOf(store);
      for (const i of [2, 1, 3]) await suspect(store, `suspect ${i}`, now - 1000 + i);
      for (const i of numbers(3)) {
        const { claimed, nextAt } = await claim(store);
        assert.deepEqual(
          claimed.map(({ run }) => [run.id, run.deaths]),
          [[`suspect ${i}`, 2]],
        );
        // A worker that executes a suspect does not poll for another one, otherwise it would poll without a pause.
        assert.ok(nextAt === null || nextAt > now + 1000, `the next one at ${nextAt}`);
      }
      assert.deepEqual(await claimedIds(store), []);
    }),

    runCase("one death does not make a suspect: all runs of a worker that died are claimed at once", async (scene) => {
      const store = await scene.store();
      await Promise.all(numbers(12).map((i) => begin(store, { id: `run ${i}`, first: firstOf({}, shortMs) })));
      for (const i of numbers(12)) await lapse(scene, store, `run ${i}`);
      const { claimed } = await claim(store);
      assert.deepEqual(
        claimed.map(({ run }) => run.deaths),
        numbers(12).map(() => 1),
      );
    }),

    runCase("a worker that takes no suspects gets none, and no due time of one", async (scene) => {
      const store = await scene.store();
      const now = await timeOf(store);
      await suspect(store, "due", now - 1000);
      await suspect(store, "due later", now + longMs);
      const without = await unchanged(store, ["due", "due later"], () => claim(store, { suspects: false }));
      assert.deepEqual([without.claimed.length, without.nextAt], [0, null]);
      await create(store, { id: "healthy" });
      const sleeps = now + 2 * longMs;
      await append(store, await begin(store, { id: "asleep" }), { next: released({ wakeAt: sleeps }) });
      const healthy = await claim(store, { suspects: false, leaseMs: 10 * longMs });
      assert.deepEqual([healthy.claimed.map(({ run }) => run.id), healthy.nextAt], [["healthy"], sleeps]);
      const one = await claim(store, { leaseMs: 10 * longMs });
      assert.deepEqual([one.claimed.map(({ run }) => run.id), one.nextAt], [["due"], sleeps]);
      const none = await claim(store, { leaseMs: 10 * longMs });
      assert.deepEqual([none.claimed.length, none.nextAt], [0, now + longMs]);
    }),

    runCase("healthy runs are claimed although many suspects are due before them", async (scene) => {
      const store = await scene.store();
      const now = await timeOf(store);
      await Promise.all(numbers(60).map((i) => suspect(store, `suspect ${i}`, now - 1000 + i)));
      for (const i of numbers(4)) await append(store, await begin(store, { id: `healthy ${i}` }), { next: released({ wakeAt: now - i }) });
      assert.deepEqual(await claimedIds(store, { suspects: false, limit: 2 }), ["healthy 3", "healthy 4"]);
      assert.deepEqual(await claimedIds(store), ["healthy 1", "healthy 2", "suspect 1"]);
      const { claimed, nextAt } = await claim(store, { suspects: false });
      assert.equal(claimed.length, 0);
      assert.ok(nextAt === null || nextAt > now + 1000, `the next one at ${nextAt}`);
    }),

    runCase("a suspect counts for the limit, and waits its turn", async (scene) => {
      const store = await scene.store();
      const now = await timeOf(store);
      await append(store, await begin(store, { id: "older" }), { next: released({ wakeAt: now - 20 }) });
      await suspect(store, "suspect", now - 10);
      await append(store, await begin(store, { id: "younger" }), { next: released({ wakeAt: now - 5 }) });
      const { claimed, nextAt } = await claim(store, { limit: 1 });
      assert.deepEqual([claimed.map(({ run }) => run.id), nextAt], [["older"], now - 10]);
      assert.deepEqual(await claimedIds(store, { limit: 1 }), ["suspect"]);
      assert.deepEqual(await claimedIds(store, { limit: 1 }), ["younger"]);
    }),

    runCase("a suspect of a live owner is not claimed until the lease has expired", async (scene) => {
      const store = await scene.store();
      await suspect(store, "run", 0);
      const owner = newOwner();
      await take(store, "run", { owner, leaseMs: 150 });
      const { wakeAt } = await runOf(store);
      const { claimed, nextAt, now } = await claim(store);
      if (claimed.length === 0) assert.equal(nextAt, wakeAt);
      else assert.ok(now >= (wakeAt ?? 0));
      assert.deepEqual(await store.runs.renew({ owner: newOwner(), leaseMs: longMs }), []);
      if (claimed.length > 0) return;
      await reach(scene, store, wakeAt ?? 0);
      assert.equal((await claim(store, { suspects: false })).claimed.length, 0);
      const { run, lapsed } = await take(store, "run");
      assert.deepEqual([run.deaths, lapsed], [3, true]);
    }),

    runCase("a suspect's owner renews it as every other run", async (scene) => {
      const store = await scene.store();
      await suspect(store, "run", 0);
      const { run } = await take(store, "run", { leaseMs: longMs });
      const renewed = await store.runs.renew({ owner: run.owner ?? "", leaseMs: 2 * longMs });
      assert.deepEqual(
        renewed.map(({ id, epoch }) => [id, epoch]),
        [["run", 2]],
      );
      assert.ok(((await runOf(store)).wakeAt ?? 0) > (run.wakeAt ?? 0));
    }),

    runCase("a run that its owner has cleared is no longer a suspect", async (scene) => {
      const store = await scene.store();
      for (const id of ["a", "b", "c"]) {
        await suspect(store, id, 0);
        await append(store, ownedOf(await take(store, id, { run: id })), {
          trial: clean,
          next: released({ wakeAt: (await timeOf(store)) + shortMs }),
        });
      }
      for (const id of ["a", "b", "c"]) await lapse(scene, store, id);
      assert.deepEqual(await claimedIds(store), ["a", "b", "c"]);
    }),

    runCase("workers that claim at once get one suspect each, and no run goes to two of them", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await Promise.all(numbers(20).map((i) => suspect(store, `suspect ${i}`, 0)));
      await Promise.all(numbers(20).map((i) => create(store, { id: `healthy ${i}` })));
      const taken: string[] = [];
      await scene.until("all are claimed", async () => {
        for (const { claimed } of await Promise.all([store, other, store, other].map((handle) => claim(handle, { limit: 5 })))) {
          assert.ok(claimed.filter(({ run }) => run.deaths >= 2).length <= 1);
          taken.push(...claimed.map(({ run }) => run.id));
        }
        return taken.length >= 40;
      });
      assert.equal(new Set(taken).size, 40);
    }),
  ],
};
