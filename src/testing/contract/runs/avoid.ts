import assert from "node:assert/strict";
import type { Store } from "../../../core/store/store.js";
import type { ContractGroup } from "../contract-case.js";
import { newOwner } from "../ledger/operations.js";
import { shortMs } from "../ledger/scene.js";
import { names } from "../name.js";
import { reach, runCase, timeOf, unchanged } from "./run-case.js";
import {
  append,
  begin,
  claim,
  claimedIds,
  create,
  longMs,
  numbers,
  ownedOf,
  post,
  released,
  runOf,
  suspect,
  take,
} from "./run-operations.js";

interface Avoid {
  readonly workers: readonly string[];
  readonly until: number;
}

/** Diverged: the workers in `avoid` have the wrong code for it. */
async function diverge(store: Store, id: string, avoid: Avoid, wakeAt: number | null = 0) {
  return await append(store, await begin(store, { id }), { next: released({ status: "diverged", trouble: "why", wakeAt, avoid }) });
}

export const avoiding: ContractGroup = {
  verb: "avoid",
  cases: [
    runCase("an avoided worker cannot claim the run before its time, which the claim returns; other workers can at once", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const [old, young] = [newOwner(), newOwner()];
      const until = (await timeOf(store)) + longMs;
      await diverge(store, "run", { workers: [newOwner(), old], until });
      const { avoid, avoidUntil } = await runOf(other);
      assert.deepEqual([avoid.includes(old), avoid.length, avoidUntil], [true, 2, until]);
      const { claimed, nextAt } = await unchanged(store, ["run"], () => claim(store, { owner: old }));
      assert.deepEqual([claimed.length, nextAt], [0, until]);
      const { run } = await take(other, "run", { owner: young });
      assert.equal(run.owner, young);
    }),

    runCase("when that time has come, the avoided worker can claim the run", async (scene) => {
      const store = await scene.store();
      const old = newOwner();
      const until = (await timeOf(store)) + 2 * shortMs;
      await diverge(store, "run", { workers: [old], until });
      await scene.until("it is claimed", async () => {
        const { claimed, now, nextAt } = await claim(store, { owner: old });
        if (claimed.length === 0) assert.ok(now < until && nextAt === until);
        else assert.ok(now >= until);
        return claimed.length === 1;
      });
      assert.equal((await runOf(store)).owner, old);
    }),

    runCase("no worker can claim the run before it is due", async (scene) => {
      const store = await scene.store();
      const old = newOwner();
      const now = await timeOf(store);
      await diverge(store, "run", { workers: [old], until: now + longMs }, now + 2 * longMs);
      for (const owner of [old, newOwner()]) {
        const { claimed, nextAt } = await claim(store, { owner });
        assert.deepEqual([claimed.length, nextAt], [0, now + 2 * longMs]);
      }
      await diverge(store, "no timer", { workers: [old], until: now + longMs }, null);
      for (const owner of [old, newOwner()]) assert.equal((await claim(store, { owner })).nextAt, now + 2 * longMs);
    }),

    runCase("mail ends the avoidance: every worker may claim the run at once", async (scene) => {
      const store = await scene.store();
      const old = newOwner();
      for (const wakeAt of [null, 0, (await timeOf(store)) + longMs]) {
        const id = `due at ${wakeAt}`;
        await diverge(store, id, { workers: [old], until: (await timeOf(store)) + longMs }, wakeAt);
        await post(store, { to: { run: id }, kind: "wake" });
        const { avoid, avoidUntil } = await runOf(store, id);
        assert.deepEqual([avoid, avoidUntil], [[], null]);
        assert.equal((await take(store, id, { owner: old })).run.status, "running");
      }
    }),

    // Otherwise mail that the diverged code cannot consume would make the same worker claim the run again and again.
    runCase("mail from before the release wakes other workers, and does not end the avoidance", async (scene) => {
      const store = await scene.store();
      const old = newOwner();
      const until = (await timeOf(store)) + longMs;
      const owned = await begin(store);
      await post(store);
      await append(store, owned, { next: released({ wakeAt: until, avoid: { workers: [old], until } }) });
      assert.ok(((await runOf(store)).wakeAt ?? until) < until);
      const { claimed, nextAt } = await claim(store, { owner: old });
      assert.deepEqual([claimed.length, nextAt], [0, until]);
      await take(store, "run");
    }),

    runCase("a claim returns the avoided workers, and a release that names no worker ends the avoidance", async (scene) => {
      const store = await scene.store();
      const old = newOwner();
      const avoid = { workers: [old], until: (await timeOf(store)) + longMs };
      for (const [i, fields] of [{}, { consumed: 1 }, { hooks: [] }, { events: null }].entries()) {
        const id = `run ${i}`;
        await diverge(store, id, avoid);
        const claimed = await take(store, id);
        await post(store, { to: { run: id } });
        assert.deepEqual([claimed.run.avoid, claimed.run.avoidUntil, (await runOf(store, id)).avoid], [[old], avoid.until, [old]]);
        const owned = "events" in fields ? { ...ownedOf(claimed), seq: ownedOf(claimed).seq - 1 } : ownedOf(claimed);
        await append(store, owned, { ...fields, next: released({ wakeAt: 0 }) });
        const { avoid: left, avoidUntil } = await runOf(store, id);
        assert.deepEqual([left, avoidUntil], [[], null]);
        await take(store, id, { owner: old });
      }
    }),

    runCase("a release may name more workers than before, or others", async (scene) => {
      const store = await scene.store();
      const [one, two, three] = [newOwner(), newOwner(), newOwner()];
      const until = (await timeOf(store)) + longMs;
      await diverge(store, "run", { workers: [one], until });
      const again = (workers: readonly string[]) => released({ wakeAt: 0, avoid: { workers, until: until + 1 } });
      await append(store, ownedOf(await take(store, "run", { owner: two })), { next: again([one, two]) });
      for (const owner of [one, two]) assert.deepEqual((await claim(store, { owner })).nextAt, until + 1);
      await append(store, ownedOf(await take(store, "run", { owner: three })), { next: again([three]) });
      assert.deepEqual(await claimedIds(store, { owner: three }), []);
      assert.deepEqual(await claimedIds(store, { owner: one }), ["run"]);
    }),

    runCase("runs are claimed in order although many runs that the worker must avoid are due before them", async (scene) => {
      const store = await scene.store();
      const old = newOwner();
      const now = await timeOf(store);
      const avoid = { workers: [old], until: now + longMs };
      await Promise.all(numbers(40).map((i) => diverge(store, `run ${i}`, avoid, now - 1000 + i)));
      for (const i of numbers(3)) await append(store, await begin(store, { id: `healthy ${i}` }), { next: released({ wakeAt: now - i }) });
      assert.deepEqual(await claimedIds(store, { owner: old, limit: 2 }), ["healthy 2", "healthy 3"]);
      const { claimed, nextAt } = await claim(store, { owner: old });
      assert.deepEqual([claimed.map(({ run }) => run.id), nextAt], [["healthy 1"], now + longMs]);
      const others = (await claim(store, { limit: 3 })).claimed.map(({ run }) => run.id);
      assert.deepEqual(others, ["run 1", "run 2", "run 3"]);
      assert.equal((await claim(store)).claimed.length, 37);
    }),

    runCase("a run may be a suspect and to be avoided", async (scene) => {
      const store = await scene.store();
      const old = newOwner();
      const until = (await timeOf(store)) + longMs;
      await suspect(store, "run", 0);
      await append(store, ownedOf(await take(store, "run")), { next: released({ wakeAt: 0, avoid: { workers: [old], until } }) });
      assert.deepEqual([(await claim(store, { suspects: false })).nextAt, (await claim(store, { owner: old })).nextAt], [null, until]);
      assert.equal((await claim(store, { owner: old, suspects: false })).nextAt, null);
      assert.equal((await take(store, "run")).run.deaths, 2);
    }),

    runCase("names of workers that differ only in case, accents, spaces, separators or wildcards stay apart", async (scene) => {
      const store = await scene.store();
      const until = (await timeOf(store)) + longMs;
      const [odd, even] = [names.filter((_, i) => i % 2 === 1), names.filter((_, i) => i % 2 === 0)];
      await diverge(store, "run", { workers: odd, until });
      assert.deepEqual((await runOf(store)).avoid, odd);
      for (const owner of odd) assert.equal((await claim(store, { owner })).nextAt, until);
      const [owner] = even;
      assert.ok(owner !== undefined);
      await take(store, "run", { owner });
    }),

    runCase("a claim of one run by id ignores its workflow, and claims no other due run", async (scene) => {
      const store = await scene.store();
      for (const id of ["a", "b", "c"]) await create(store, { id, workflow: `workflow of ${id}` });
      const { claimed, nextAt } = await unchanged(store, ["a", "c"], () => claim(store, { run: "b", workflows: [] }));
      assert.deepEqual([claimed.map(({ run, lapsed }) => [run.id, run.epoch, lapsed]), nextAt], [[["b", 1, false]], null]);
      assert.deepEqual(await runOf(store, "b"), { ...claimed[0]?.run });
      assert.deepEqual(await claimedIds(store, { run: "c", workflows: ["workflow of a"] }), ["c"]);
      const missing = await claim(store, { run: "missing", workflows: ["workflow of a"] });
      assert.deepEqual([missing.claimed.length, missing.nextAt], [0, null]);
      assert.ok(missing.now > 0);
    }),

    runCase("a claim of one run by id follows the same rules: only when it is due and has no live owner", async (scene) => {
      const store = await scene.store();
      const [owner, old] = [newOwner(), newOwner()];
      const now = await timeOf(store);
      const one = async (run: string, fields: Parameters<typeof claim>[1] = {}) => {
        const { claimed, nextAt } = await claim(store, { run, workflows: [], ...fields });
        return [claimed.map((each) => each.run.deaths), nextAt];
      };
      await append(store, await begin(store, { id: "asleep" }), { next: released({ wakeAt: now + longMs }) });
      assert.deepEqual(await one("asleep"), [[], now + longMs]);
      await append(store, await begin(store, { id: "parked" }), { next: released({ status: "parked", trouble: "why" }) });
      assert.deepEqual(await one("parked"), [[], null]);
      await post(store, { to: { run: "parked" } });
      assert.deepEqual(await one("parked", { owner, leaseMs: shortMs }), [[0], null]);
      const { wakeAt } = await runOf(store, "parked");
      assert.deepEqual(await one("parked", { owner }), [[], null]);
      await reach(scene, store, wakeAt ?? 0);
      assert.deepEqual(await one("parked", { leaseMs: longMs }), [[1], null]);
      await suspect(store, "suspect", 0);
      assert.deepEqual(await one("suspect", { suspects: false }), [[], null]);
      assert.deepEqual(await one("suspect"), [[2], null]);
      await diverge(store, "diverged", { workers: [old], until: now + longMs });
      assert.deepEqual(await one("diverged", { owner: old }), [[], now + longMs]);
      assert.deepEqual(await one("diverged"), [[0], null]);
    }),

    runCase("of several workers that claim one run at once, one gets it", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const i of numbers(5)) {
        const run = `run ${i}`;
        await create(store, { id: run });
        const all = await Promise.all([store, other, store, other].map((handle) => claim(handle, { run })));
        assert.equal(all.flatMap(({ claimed }) => claimed).length, 1);
        assert.equal((await runOf(store, run)).epoch, 1);
      }
    }),
  ],
};
