import assert from "node:assert/strict";
import type { ContractGroup } from "../contract-case.js";
import { dayMs } from "../ledger/operations.js";
import { shortMs } from "../ledger/scene.js";
import { eventsOf, lapse, picture, runCase, timeOf, unchanged } from "./run-case.js";
import {
  after,
  append,
  appendOf,
  begin,
  claimedIds,
  ended,
  expectAnswer,
  firstOf,
  hold,
  hookOf,
  numbers,
  type Owned,
  play,
  post,
  released,
  runOf,
  startOf,
  submit,
} from "./run-operations.js";

/** Numbers that SQL stores reject, and text that some stores reject. A store that accepts every value cannot have a poisoned batch. */
const poisons = [{ retentionMs: 0.5 }, { input: "a\u0000b" }];

export const appending: ContractGroup = {
  verb: "append",
  cases: [
    runCase("entries are in the journal in order, each with its epoch, time and text", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      let owned = await begin(store, { first: firstOf({ events: "entry 1" }) });
      const before = await timeOf(store);
      for (const i of [2, 3, 4, 5]) owned = await append(i % 2 === 0 ? store : other, owned, { events: `entry ${i}` });
      const { journal, run } = await picture(other, "run");
      assert.deepEqual(
        journal.map(({ seq, epoch, events }) => [seq, epoch, events]),
        [1, 2, 3, 4, 5].map((i) => [i, 1, `entry ${i}`]),
      );
      const times = journal.map(({ at }) => at);
      assert.deepEqual(times, times.toSorted());
      assert.ok((times[1] ?? 0) >= before && (times[4] ?? 0) <= (await timeOf(store)));
      assert.deepEqual([run?.status, run?.owner, run?.epoch], ["running", owned.owner, 1]);
    }),

    runCase("entries of one run that are submitted together are written in order", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store, { first: firstOf({ events: "1" }) });
      const all = numbers(10).map((i) => submit(store, appendOf(after(owned, i - 1), { events: `${i + 1}` })));
      for (const answer of await Promise.all(all)) expectAnswer(answer, "appended");
      assert.deepEqual(
        await eventsOf(store, "run"),
        numbers(11).map((i) => `${i}`),
      );
    }),

    runCase("an entry that would leave a gap is refused, and so is one with a number below 1", async (scene) => {
      const store = await scene.store();
      const owned = await append(store, await begin(store));
      for (const seq of [4, 5, 1000, 0]) {
        const asked = { ...appendOf(owned, { hooks: [hookOf("token")], next: ended() }), seq };
        expectAnswer(await unchanged(store, ["run"], () => submit(store, asked)), "overtaken");
      }
      assert.equal(await store.runs.hook("token"), undefined);
    }),

    runCase("the same entry, sent again in the same epoch, is recognised and written once", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await begin(store, { id: "parent" });
      const owned = await begin(store, { parent: "parent" });
      const child = startOf({ id: "child", parent: "run" });
      const asked = appendOf(owned, { hooks: [hookOf("token")], children: [child] });
      const all = ["run", "child", "parent"];
      for (const answer of await Promise.all([store, other, store, other].map((handle) => submit(handle, asked))))
        assert.deepEqual(expectAnswer(answer, "appended").conflicts, []);
      assert.equal((await eventsOf(store, "run")).length, 2);
      expectAnswer(await unchanged(store, all, () => submit(other, asked)), "appended");
      const later = await append(store, after(owned));
      expectAnswer(await unchanged(store, all, () => submit(store, asked)), "appended");
      const last = appendOf(later, { next: ended() });
      expectAnswer(await submit(store, last), "appended");
      for (const handle of [store, other]) expectAnswer(await unchanged(store, all, () => submit(handle, last)), "appended");
      assert.equal((await store.runs.mail("parent", 0)).length, 1);
    }),

    runCase("an owner whose lease has expired may still write until the run is claimed", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store, { first: firstOf({}, shortMs) });
      await lapse(scene, store);
      await append(store, await append(store, owned, { events: "late" }), { next: ended() });
      assert.equal((await eventsOf(store, "run"))[1], "late");
      assert.equal((await runOf(store)).status, "completed");
    }),

    runCase("after the end nothing can be appended, in any status and with or without events", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const status of ["completed", "failed", "cancelled"] as const) {
        const owned = await play(store, { id: status }, ended(status, "the first"));
        for (const events of ["more", null]) {
          for (const then of [hold, released({ wakeAt: 0 }), ended("completed", "another")]) {
            const asked = appendOf(owned, { events, next: then, hooks: events === null ? [] : [hookOf("token")] });
            expectAnswer(await unchanged(store, [status], () => submit(other, asked)), "overtaken");
          }
        }
      }
      assert.equal(await store.runs.hook("token"), undefined);
      assert.deepEqual(await claimedIds(store), []);
    }),

    runCase("an append to a run that does not exist does not create it", async (scene) => {
      const store = await scene.store();
      const stranger: Owned = { id: "run", creator: "creator", owner: "stranger", epoch: 1, seq: 0 };
      for (const events of ["events", null]) {
        const asked = appendOf(stranger, { events, children: events === null ? [] : [startOf({ id: "child" })], next: ended() });
        expectAnswer(await unchanged(store, ["run", "child"], () => submit(store, asked)), "overtaken");
      }
    }),

    runCase("an append without events writes its next state, and no entry", async (scene) => {
      const store = await scene.store();
      for (const [id, then, expected] of [
        ["held", hold, ["running", null]],
        ["released", released({ status: "unknown", trouble: "why" }), ["unknown", null]],
        ["ended", ended("cancelled", "out"), ["cancelled", "out"]],
      ] as const) {
        const owned = await begin(store, { id });
        const answer = await submit(store, appendOf(owned, { events: null, next: then }));
        expectAnswer(answer, "appended");
        const { run, journal } = await picture(store, id);
        assert.deepEqual([run?.status, run?.output], expected);
        assert.deepEqual([run?.owner, journal.length], [id === "held" ? owned.owner : null, 1]);
      }
    }),

    // Mail that causes no event of the workflow code is consumed without an entry.
    runCase("an append without events still writes consumed mail, hooks and children", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store, { first: firstOf({ hooks: [hookOf("old")] }) });
      await post(store);
      const children = [startOf({ id: "child", parent: "run" })];
      const asked = appendOf(owned, { events: null, consumed: 1, hooks: [{ drop: "old" }, hookOf("new")], children });
      expectAnswer(await submit(store, asked), "appended");
      const { run, journal, hooks } = await picture(store, "run");
      assert.deepEqual([run?.consumed, run?.owner, journal.length, hooks.map(({ token }) => token)], [1, owned.owner, 1, ["new"]]);
      assert.equal((await runOf(store, "child")).parent, "run");
      expectAnswer(await unchanged(store, ["run", "child"], () => submit(store, asked)), "appended");
      await append(store, owned, { events: null, consumed: 1, next: released() });
      assert.deepEqual(await claimedIds(store), ["child"]);
    }),

    runCase("released until a time: the run has no owner and sleeps until then", async (scene) => {
      const store = await scene.store();
      const wakeAt = (await timeOf(store)) + dayMs;
      await append(store, await begin(store), { next: released({ wakeAt }) });
      const { owner, status, epoch, ...run } = await runOf(store);
      assert.deepEqual([owner, status, epoch, run.wakeAt, run.endedAt], [null, "running", 1, wakeAt, null]);
      assert.deepEqual(await claimedIds(store), []);
    }),

    runCase("released until a time that has passed: due at once", async (scene) => {
      const store = await scene.store();
      await append(store, await begin(store), { next: released({ wakeAt: (await timeOf(store)) - 1000 }) });
      assert.deepEqual(await claimedIds(store), ["run"]);
    }),

    runCase("released without a time: only mail wakes the run", async (scene) => {
      const store = await scene.store();
      await append(store, await begin(store, { first: firstOf({}, shortMs) }), { next: released() });
      const { owner, wakeAt, startedAt } = await runOf(store);
      assert.deepEqual([owner, wakeAt], [null, null]);
      await scene.until("its old lease would be over", async () => {
        assert.deepEqual(await claimedIds(store), []);
        return (await timeOf(store)) > (startedAt ?? 0) + 2 * shortMs;
      });
      await post(store);
      assert.deepEqual(await claimedIds(store), ["run"]);
    }),

    runCase("released with unconsumed mail: due at once; with all mail consumed: not", async (scene) => {
      const store = await scene.store();
      const wakeAt = (await timeOf(store)) + dayMs;
      for (const [id, consumed, then] of [
        ["none taken in", null, released()],
        ["one taken in", 1, released({ wakeAt })],
        ["all taken in", 2, released({ wakeAt })],
        ["all taken in, no timer", 2, released()],
      ] as const) {
        const owned = await begin(store, { id });
        for (let i = 0; i < 2; i++) await post(store, { to: { run: id } });
        await append(store, owned, { consumed, next: then });
        assert.equal((await runOf(store, id)).consumed, consumed ?? 0);
      }
      assert.deepEqual(await claimedIds(store), ["none taken in", "one taken in"]);
      assert.equal((await runOf(store, "all taken in")).wakeAt, wakeAt);
      assert.equal((await runOf(store, "all taken in, no timer")).wakeAt, null);
    }),

    runCase("consumed mail stays consumed", async (scene) => {
      const store = await scene.store();
      let owned = await begin(store);
      for (let i = 0; i < 3; i++) await post(store);
      owned = await append(store, owned, { consumed: 2 });
      owned = await append(store, owned, { consumed: null });
      assert.deepEqual([(await runOf(store)).consumed, (await runOf(store)).mail], [2, 3]);
      await append(store, owned, { consumed: 3, next: released() });
      assert.deepEqual(await claimedIds(store), []);
    }),

    runCase("an ended run has no owner, is never due, and keeps its output", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const [status, output] of [
        ["completed", "output"],
        ["failed", "error"],
        ["cancelled", null],
      ] as const) {
        const owned = await begin(store, { id: status, first: firstOf({}, shortMs) });
        const before = await timeOf(store);
        await post(store, { to: { run: status } });
        await append(store, owned, { next: ended(status, output) });
        const run = await runOf(other, status);
        assert.deepEqual([run.status, run.output, run.owner, run.wakeAt, run.trouble], [status, output, null, null, null]);
        assert.ok(run.endedAt !== null && run.endedAt >= before && run.endedAt <= (await timeOf(store)));
        assert.ok(run.startedAt !== null && run.startedAt === run.createdAt);
        await scene.until("its lease would be over", async () => (await timeOf(store)) > run.createdAt + shortMs);
      }
      assert.deepEqual(await claimedIds(store), []);
    }),

    runCase("200 runs appended at once: each gets its own answer and its own entry", async (scene) => {
      const store = await scene.store();
      const owned = await Promise.all(numbers(200).map((i) => begin(store, { id: `run ${i}` })));
      const before = store.metrics.flushes;
      // Every third append is stale, and every fifth one wants a token that another run has.
      const answers = await Promise.all(
        owned.map((one, i) =>
          submit(
            store,
            appendOf(i % 3 === 0 ? after(one) : one, {
              events: `of ${one.id}`,
              hooks: i % 5 === 0 ? [hookOf("popular"), hookOf(one.id)] : [],
            }),
          ),
        ),
      );
      assert.ok(store.metrics.flushes - before <= 4, `${store.metrics.flushes - before} flushes`);
      let unconflicted = 0;
      for (const [i, answer] of answers.entries()) {
        const id = owned[i]?.id ?? "";
        if (i % 3 === 0) expectAnswer(answer, "overtaken");
        else {
          const { conflicts } = expectAnswer(answer, "appended");
          if (i % 5 === 0 && conflicts.length === 0) unconflicted += 1;
          else assert.deepEqual(conflicts, i % 5 === 0 ? ["popular"] : []);
        }
        assert.deepEqual((await eventsOf(store, id)).slice(1), i % 3 === 0 ? [] : [`of ${id}`]);
        if (i % 5 === 0) assert.equal((await store.runs.hook(id))?.run, i % 3 === 0 ? undefined : id);
      }
      assert.equal(unconflicted, 1, "one of them has the token");
      assert.deepEqual([store.metrics.appended, store.metrics.overtaken], [133, 67]);
    }),

    runCase("starts, appends, mail and refusals in one turn do not disturb one another", async (scene) => {
      const store = await scene.store();
      const owned = await Promise.all(numbers(8).map((i) => begin(store, { id: `run ${i}` })));
      const [one, two, three, four, five, six] = owned as [Owned, Owned, Owned, Owned, Owned, Owned];
      await append(store, six, { next: ended() });
      const answers = await Promise.all([
        submit(store, appendOf(one)),
        submit(store, appendOf(after(two), { next: ended() })),
        submit(store, appendOf(three, { next: ended() })),
        submit(store, { ...appendOf(four, { events: null, next: ended() }), epoch: 7 }),
        submit(store, { verb: "send", to: { run: five.id }, kind: "wake", about: null, payload: null, key: "mail" }),
        submit(store, { verb: "send", to: { run: six.id }, kind: "wake", about: null, payload: null, key: "mail" }),
        submit(store, { verb: "send", to: { run: "nowhere" }, kind: "wake", about: null, payload: null, key: "mail" }),
        submit(store, startOf({ id: "run 7" })),
        submit(store, startOf({ id: "run 9" })),
      ]);
      assert.deepEqual(
        answers.map(({ kind }) => kind),
        ["appended", "overtaken", "appended", "overtaken", "sent", "ended", "absent", "exists", "created"],
      );
      const statuses = await Promise.all(numbers(9).map(async (i) => (await runOf(store, `run ${i}`)).status));
      assert.deepEqual(statuses.join(" "), "running running completed running running completed running running pending");
    }),

    runCase("an entry may carry hundreds of hooks and children", async (scene) => {
      const store = await scene.store();
      const hooks = numbers(300).map((i) => hookOf(`token ${i}`));
      const children = numbers(300).map((i) => startOf({ id: `child ${i}`, parent: "run", workflow: "children's" }));
      const owned = await append(store, await begin(store), { hooks, children });
      const { hooks: made } = (await store.runs.load("run")) ?? assert.fail("it can be loaded");
      assert.equal(made.length, 300);
      assert.equal((await store.runs.list({ workflow: "children's", limit: 1000 })).length, 300);
      await append(store, owned, { hooks: numbers(299).map((i) => ({ drop: `token ${i}` })) });
      assert.deepEqual(
        (await picture(store, "run")).hooks.map(({ token }) => token),
        ["token 300"],
      );
    }),

    runCase("an operation that the database rejects fails alone", async (scene) => {
      const store = await scene.store();
      const owned = await Promise.all(numbers(20).map((i) => begin(store, { id: `run ${i}` })));
      const [poisonous, neighbours] = await Promise.all([
        Promise.allSettled(poisons.map((poison, i) => submit(store, startOf({ id: `poison ${i}`, first: firstOf(), ...poison })))),
        Promise.allSettled(owned.map((one) => submit(store, appendOf(one)))),
      ]);
      for (const neighbour of neighbours) {
        assert.equal(neighbour.status, "fulfilled");
        if (neighbour.status === "fulfilled") expectAnswer(neighbour.value, "appended");
      }
      for (const [i, outcome] of poisonous.entries()) {
        if (outcome.status === "fulfilled") continue;
        assert.equal((outcome.reason as { code?: unknown }).code, "STORE_REFUSED", String(outcome.reason));
        const { run, journal } = await picture(store, `poison ${i}`);
        assert.deepEqual([run, journal], [undefined, []]);
      }
      for (const { id } of owned) assert.equal((await eventsOf(store, id)).length, 2);
    }),

    runCase("an entry that is refused for one of its children writes nothing at all", async (scene) => {
      const store = await scene.store();
      await begin(store, { id: "parent" });
      const owned = await begin(store, { parent: "parent" });
      for (const poison of poisons) {
        const children = [startOf({ id: "good", parent: "run" }), startOf({ id: "bad", parent: "run", ...poison })];
        const asked = appendOf(owned, { hooks: [hookOf("token")], children, next: ended() });
        const all = ["run", "parent", "good", "bad"];
        const before = await Promise.all(all.map((id) => picture(store, id)));
        const refused = await submit(store, asked).catch((error: unknown) => error);
        // A store that accepts it must accept it whole.
        if (!(refused instanceof Error)) return assert.equal((await runOf(store, "good")).status, "pending");
        assert.equal((refused as { code?: unknown }).code, "STORE_REFUSED", String(refused));
        assert.deepEqual(await Promise.all(all.map((id) => picture(store, id))), before);
        assert.equal(await store.runs.hook("token"), undefined);
      }
      await append(store, owned);
    }),
  ],
};
