import assert from "node:assert/strict";
import type { ContractGroup } from "../contract-case.js";
import { dayMs, newOwner } from "../ledger/operations.js";
import { shortMs } from "../ledger/scene.js";
import { names } from "../name.js";
import { needsSharedClock, wrongBy } from "../opening.js";
import { lapse, picture, plain, reach, runCase, timeOf, unchanged } from "./run-case.js";
import {
  append,
  begin,
  claim,
  claimedIds,
  create,
  ended,
  firstOf,
  hookOf,
  longMs,
  numbers,
  ownedOf,
  play,
  post,
  released,
  runOf,
  take,
  workflow,
} from "./run-operations.js";

export const claiming: ContractGroup = {
  verb: "claim",
  cases: [
    runCase("only runs of the workflows that were asked for", async (scene) => {
      const store = await scene.store();
      for (const name of ["a", "b", "c"]) await create(store, { id: `run of ${name}`, workflow: name });
      assert.deepEqual(await claimedIds(store, { workflows: ["a", "c", "missing"] }), ["run of a", "run of c"]);
      assert.deepEqual(await claimedIds(store, { workflows: ["a", "c"] }), []);
      assert.deepEqual(await claimedIds(store, { workflows: ["b"] }), ["run of b"]);
    }),

    runCase("workflows that differ only in case, accents, spaces, separators or wildcards stay apart", async (scene) => {
      const store = await scene.store();
      await Promise.all(names.map((name) => create(store, { id: `run of ${name}`, workflow: name })));
      for (const name of names) assert.deepEqual(await claimedIds(store, { workflows: [name] }), [`run of ${name}`]);
    }),

    runCase("a claim without workflows returns only the time", async (scene) => {
      const store = await scene.store();
      await create(store);
      const { claimed, nextAt, now } = await claim(store, { workflows: [] });
      assert.deepEqual([claimed.length, nextAt], [0, null]);
      assert.ok(now <= (await timeOf(store)));
      assert.equal((await runOf(store)).status, "pending");
    }),

    runCase("the run that has been due longest comes first, and at most `limit` runs", async (scene) => {
      const store = await scene.store();
      const now = await timeOf(store);
      for (const i of [3, 1, 5, 2, 4])
        await append(store, await begin(store, { id: `run ${i}` }), { next: released({ wakeAt: now - 1000 + i }) });
      const ids = async (limit: number) => (await claim(store, { limit })).claimed.map(({ run }) => run.id);
      assert.deepEqual(await ids(2), ["run 1", "run 2"]);
      assert.deepEqual(await ids(1), ["run 3"]);
      assert.deepEqual(await ids(5), ["run 4", "run 5"]);
    }),

    runCase("pending runs are claimed in the order in which they were created", async (scene) => {
      const store = await scene.store();
      for (const i of numbers(4)) {
        await create(store, { id: `run ${9 - i}` });
        await reach(scene, store, (await timeOf(store)) + 2);
      }
      for (const i of numbers(4)) assert.deepEqual(await claimedIds(store, { limit: 1 }), [`run ${9 - i}`]);
    }),

    runCase("a claim raises the epoch, and gives the run to its owner for the lease", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await append(store, await begin(store), { next: released({ wakeAt: 0 }) });
      const before = await runOf(store);
      const owner = newOwner();
      const { claimed, now } = await claim(other, { owner, leaseMs: 50_000 });
      const { run, lapsed } = claimed[0] ?? assert.fail("nothing was claimed");
      assert.deepEqual(await runOf(store), { ...run });
      const { wakeAt } = run;
      assert.deepEqual({ ...run }, { ...before, owner, epoch: 2, wakeAt });
      assert.ok(wakeAt !== null && Math.abs(wakeAt - (now + 50_000)) <= 1000, `${wakeAt} is 50 s after ${now}`);
      assert.equal(lapsed, false);
      assert.deepEqual(await claimedIds(store), []);
    }),

    runCase("a claim returns journal, mail and hooks of each run, and does not mix up runs", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const i of numbers(6)) {
        const id = `run ${i}`;
        let owned = await begin(store, { id, input: `input ${i}`, first: firstOf({ events: `${id} entry 1` }) });
        for (const j of numbers(i)) await post(other, { to: { run: id }, payload: `${id} mail ${j}` });
        for (const j of numbers(6 - i)) owned = await append(store, owned, { events: `${id} entry ${j + 1}` });
        const hooks = numbers(i % 4).map((j) => hookOf(`${id} token ${j}`));
        await append(store, owned, { events: "last", hooks, consumed: 1, next: released({ wakeAt: 0 }) });
      }
      const { claimed } = await claim(other);
      assert.equal(claimed.length, 6);
      for (const { run, journal, mail, hooks } of claimed) {
        const found = await picture(store, run.id);
        assert.deepEqual({ ...run }, found.run);
        assert.deepEqual(plain(journal), found.journal);
        assert.deepEqual(plain(mail), found.mail.slice(1));
        assert.deepEqual(
          plain(hooks).sort((a, b) => (a.token < b.token ? -1 : 1)),
          found.hooks,
        );
        const i = Number(run.id.split(" ")[1]);
        assert.deepEqual([journal.length, mail.length, hooks.length, run.input], [8 - i, i - 1, i % 4, `input ${i}`]);
      }
    }),

    runCase("the data of a claim can be loaded again, with everything that has arrived since", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await begin(store, { first: firstOf({ hooks: [hookOf("token")] }) });
      for (let i = 0; i < 3; i++) await post(store);
      await append(store, owned, { consumed: 2, next: released() });
      const { lapsed: _, ...claimed } = await take(store, "run");
      const load = async (handle: typeof store) => {
        const { lapsed: __, ...loaded } = (await handle.runs.load("run")) ?? assert.fail("it can be loaded");
        return loaded;
      };
      for (const handle of [store, other]) assert.deepEqual(await load(handle), claimed);
      await post(other, { payload: "since" });
      assert.deepEqual(
        (await load(store)).mail.map(({ seq }) => seq),
        [3, 4],
      );
    }),

    runCase("a run of a live owner is claimed only when the lease has expired, and the claim says so", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const leaseMs = 150;
      await begin(store, { first: firstOf({}, leaseMs) });
      const { wakeAt, startedAt } = await runOf(store);
      assert.equal(wakeAt, (startedAt ?? 0) + leaseMs);
      await scene.until("it is claimed", async () => {
        const { claimed, now } = await claim(other);
        if (claimed.length === 0) return false;
        assert.ok(now >= (wakeAt ?? 0), `claimed at ${now}, while its lease was until ${wakeAt}`);
        assert.deepEqual([claimed[0]?.lapsed, claimed[0]?.run.epoch], [true, 2]);
        return true;
      });
      assert.deepEqual(await claimedIds(store), []);
    }),

    runCase("a sleeping run is not claimed before its time", async (scene) => {
      const store = await scene.store();
      const wakeAt = (await timeOf(store)) + 150;
      await append(store, await begin(store), { next: released({ wakeAt }) });
      await scene.until("it is claimed", async () => {
        const { claimed, now, nextAt } = await claim(store);
        if (claimed.length === 0) {
          assert.equal(nextAt, wakeAt);
          return false;
        }
        assert.ok(now >= wakeAt, `claimed at ${now}, although it slept until ${wakeAt}`);
        assert.deepEqual([claimed[0]?.lapsed, claimed[0]?.run.epoch], [false, 2]);
        return true;
      });
    }),

    runCase(
      "a worker whose clock is a day off claims nothing too early, and nothing too late",
      async (scene) => {
        const store = await scene.store();
        const wrong = [await scene.open({ clock: wrongBy(dayMs) }), await scene.open({ clock: wrongBy(-dayMs) })];
        const now = await timeOf(store);
        await append(store, await begin(store, { id: "asleep" }), { next: released({ wakeAt: now + 3_600_000 }) });
        await begin(store, { id: "held" });
        for (const [i, handle] of wrong.entries()) {
          assert.ok(Math.abs((await timeOf(handle)) - now) < 60_000, "it goes by the store's clock");
          await create(handle, { id: `created ${i}` });
          assert.deepEqual(await claimedIds(handle), [`created ${i}`]);
          await begin(handle, { id: `lapsed ${i}`, first: firstOf({}, shortMs) });
          await lapse(scene, store, `lapsed ${i}`);
          assert.deepEqual(await claimedIds(handle), [`lapsed ${i}`]);
        }
      },
      needsSharedClock,
    ),

    runCase("a claim that lapses is claimed again, in yet another epoch", async (scene) => {
      const store = await scene.store();
      await create(store);
      for (const epoch of [1, 2, 3]) {
        const { run, lapsed } = await take(store, "run", { leaseMs: shortMs });
        assert.deepEqual([run.epoch, lapsed], [epoch, epoch > 1]);
        await lapse(scene, store);
      }
    }),

    runCase("an owner does not claim its own run, even when the lease has expired", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store, { first: firstOf({}, shortMs) });
      await create(store, { id: "new" });
      await lapse(scene, store);
      const { claimed, nextAt } = await unchanged(store, ["run"], () => claim(store, { owner: owned.owner }));
      assert.deepEqual(
        claimed.map(({ run }) => run.id),
        ["new"],
      );
      assert.equal(nextAt, null);
      assert.deepEqual(await claimedIds(store), ["run"]);
    }),

    runCase("an owner may claim a run again that it has released", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store);
      await append(store, owned, { next: released({ wakeAt: 0 }) });
      const { run, lapsed } = await take(store, "run", { owner: owned.owner });
      assert.deepEqual([run.epoch, lapsed], [2, false]);
    }),

    runCase("nextAt is when the next run can be claimed: a timer, the end of a lease, or at once", async (scene) => {
      const store = await scene.store();
      assert.equal((await claim(store)).nextAt, null);
      const now = await timeOf(store);
      await append(store, await begin(store, { id: "mail only" }), { next: released() });
      await play(store, { id: "over" });
      assert.equal((await claim(store)).nextAt, null);
      await append(store, await begin(store, { id: "late" }), { next: released({ wakeAt: now + 2 * dayMs }) });
      assert.equal((await claim(store)).nextAt, now + 2 * dayMs);
      await append(store, await begin(store, { id: "early" }), { next: released({ wakeAt: now + dayMs }) });
      assert.equal((await claim(store)).nextAt, now + dayMs);
      await begin(store, { id: "stranger", workflow: "another's" });
      assert.equal((await claim(store)).nextAt, now + dayMs);
      const held = await begin(store, { id: "held" });
      assert.equal((await claim(store)).nextAt, (await runOf(store, "held")).wakeAt);
      assert.equal((await claim(store, { owner: held.owner })).nextAt, now + dayMs);
      for (const id of ["a", "b"]) await create(store, { id });
      const some = await claim(store, { limit: 1, owner: held.owner });
      assert.ok(some.claimed.length === 1 && some.nextAt !== null && some.nextAt <= some.now);
      assert.equal((await claim(store, { owner: held.owner })).nextAt, now + dayMs);
    }),

    runCase("200 runs, claimed at once by workers on two handles: each by one of them, and none left", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await Promise.all(numbers(200).map((i) => create(store, { id: `run ${i}` })));
      const taken: string[] = [];
      const work = async (handle: typeof store) => {
        for (let idle = 0; idle < 2; ) {
          const owner = newOwner();
          const { claimed } = await claim(handle, { owner, limit: 17 });
          idle = claimed.length === 0 ? idle + 1 : 0;
          for (const { run } of claimed) {
            assert.deepEqual([run.owner, run.epoch], [owner, 1]);
            taken.push(run.id);
          }
        }
      };
      await Promise.all([store, other, store, other].map(work));
      assert.deepEqual(
        taken.sort(),
        numbers(200)
          .map((i) => `run ${i}`)
          .sort(),
      );
      const left = await store.runs.list({ workflow, status: "pending", limit: 1000 });
      assert.deepEqual(left.length, 0);
    }),

    runCase("several claims of one owner at once never get the same run", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await Promise.all(numbers(30).map((i) => create(store, { id: `run ${i}` })));
      const owner = newOwner();
      const claims = await Promise.all([store, other, store, other].map((handle) => claim(handle, { owner, limit: 10 })));
      const taken = claims.flatMap(({ claimed }) => claimed.map(({ run }) => run.id));
      assert.equal(new Set(taken).size, taken.length);
      for (const id of taken) assert.equal((await runOf(store, id)).epoch, 1);
    }),

    runCase("a pending run becomes running when it is claimed, and keeps the time of its first claim", async (scene) => {
      const store = await scene.store();
      await create(store);
      const before = await timeOf(store);
      const claimed = await take(store, "run");
      const { status, startedAt, createdAt } = claimed.run;
      assert.equal(status, "running");
      assert.ok(startedAt !== null && startedAt >= before && startedAt <= (await timeOf(store)) && startedAt >= createdAt);
      await append(store, ownedOf(claimed), { next: released({ wakeAt: 0 }) });
      await reach(scene, store, startedAt + 5);
      assert.equal((await take(store, "run")).run.startedAt, startedAt);
    }),

    runCase("unknown, diverged and parked runs wait for mail or their time, and the claim clears their trouble", async (scene) => {
      const store = await scene.store();
      const expectAwake = async (id: string) => {
        const { run, lapsed } = await take(store, id);
        assert.deepEqual([run.status, run.trouble, run.epoch, lapsed], ["running", null, 2, false]);
        assert.deepEqual(await runOf(store, id), { ...run });
      };
      for (const status of ["unknown", "diverged", "parked"] as const) {
        const id = `${status}, mail`;
        await append(store, await begin(store, { id }), { next: released({ status, trouble: "in words" }) });
        assert.deepEqual(await claimedIds(store), []);
        assert.deepEqual([(await runOf(store, id)).status, (await runOf(store, id)).trouble], [status, "in words"]);
        await post(store, { to: { run: id }, kind: "resolve" });
        assert.equal((await runOf(store, id)).status, status);
        await expectAwake(id);
      }
      for (const status of ["unknown", "diverged", "parked"] as const) {
        const id = `${status}, timer`;
        const wakeAt = (await timeOf(store)) + shortMs;
        await append(store, await begin(store, { id }), { next: released({ status, trouble: "in words", wakeAt }) });
        await reach(scene, store, wakeAt);
        await expectAwake(id);
      }
    }),

    runCase("an ended run is never claimed", async (scene) => {
      const store = await scene.store();
      for (const status of ["completed", "failed", "cancelled"] as const)
        await play(store, { id: status, first: firstOf({}, shortMs) }, ended(status));
      await scene.until("their leases would be over", async () => {
        assert.deepEqual(await claimedIds(store), []);
        return (await timeOf(store)) > (await runOf(store, "cancelled")).createdAt + 2 * shortMs;
      });
    }),

    runCase("a claim returns a long journal completely and in order", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store, { first: firstOf({ events: "1" }) });
      const writes = numbers(60).map((i) =>
        append(store, { ...owned, seq: i }, { events: `${i + 1}`, next: i === 60 ? released({ wakeAt: 0 }) : { kind: "hold" } }),
      );
      await Promise.all(writes);
      const { journal } = await take(store, "run", { leaseMs: longMs });
      assert.deepEqual(
        journal.map(({ seq, events }) => [seq, events]),
        numbers(61).map((i) => [i, `${i}`]),
      );
    }),
  ],
};
