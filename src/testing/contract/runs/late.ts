import assert from "node:assert/strict";
import type { ContractGroup } from "../contract-case.js";
import { dayMs, newOwner } from "../ledger/operations.js";
import { eventsOf, picture, reach, runCase, takenOver, timeOf, unchanged } from "./run-case.js";
import {
  after,
  append,
  appendLate,
  appendOf,
  begin,
  claimedIds,
  create,
  ended,
  expectAnswer,
  firstOf,
  lateOf,
  play,
  released,
  runOf,
  sendOf,
  submit,
} from "./run-operations.js";

const unsettled = (steps: number) => ended("failed", '"why"', steps);

export const appendingLate: ContractGroup = {
  verb: "append late",
  cases: [
    runCase("a late entry is appended to the journal of an ended run, and changes nothing else", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await play(store, { first: firstOf({ events: "first" }) }, unsettled(2));
      const before = await runOf(store);
      assert.deepEqual([before.status, before.unsettled], ["failed", 2]);
      const asked = lateOf(owned, { events: "settled", unsettled: 1 });
      const { now, conflicts } = expectAnswer(await submit(other, asked), "appended");
      assert.deepEqual(conflicts, []);
      const { run, journal } = await picture(store, "run");
      assert.deepEqual(run, { ...before, unsettled: 1 });
      assert.deepEqual([journal.length, journal[2]?.seq, journal[2]?.epoch, journal[2]?.events], [3, 3, 1, "settled"]);
      const at = journal[2]?.at ?? 0;
      assert.ok(at >= (before.endedAt ?? 0) && at <= now);
      await appendLate(store, after(owned), { events: "settled, too" });
      assert.deepEqual((await eventsOf(other, "run")).slice(2), ["settled", "settled, too"]);
      assert.equal((await runOf(other)).unsettled, 0);
      assert.deepEqual(await claimedIds(store), []);
    }),

    runCase("a run that has not ended refuses late entries", async (scene) => {
      const store = await scene.store();
      const running = await begin(store, { id: "running" });
      const asleep = await play(store, { id: "asleep" }, released({ wakeAt: (await timeOf(store)) + dayMs }));
      const parked = await play(store, { id: "parked" }, released({ status: "parked", trouble: "why" }));
      const { creator } = await create(store, { id: "pending" });
      const pending = { id: "pending", creator, owner: newOwner(), epoch: 0, seq: 0 };
      for (const owned of [running, asleep, parked, pending, { ...pending, id: "missing" }])
        expectAnswer(await unchanged(store, [owned.id], () => submit(store, lateOf(owned))), "overtaken");
      const [first = ""] = await eventsOf(store, "running");
      const same = lateOf({ ...running, seq: 0 }, { events: first });
      expectAnswer(await unchanged(store, ["running"], () => submit(store, same)), "overtaken");
    }),

    runCase("late entries are refused in another epoch: the run has another owner", async (scene) => {
      const store = await scene.store();
      const { late, next } = await takenOver(scene, store);
      const owned = await append(store, next, { next: unsettled(1) });
      for (const epoch of [late.epoch, owned.epoch + 1])
        expectAnswer(await unchanged(store, ["run"], () => submit(store, lateOf({ ...owned, epoch }))), "overtaken");
      await appendLate(store, owned);
    }),

    // The run was claimed again, but the end that its previous owner wrote was accepted.
    runCase("late entries are refused after an end that the run's next owner did not write", async (scene) => {
      const store = await scene.store();
      const { late, next } = await takenOver(scene, store);
      const owned = await append(store, late, { next: unsettled(1) });
      assert.equal((await runOf(store)).epoch, next.epoch);
      expectAnswer(await unchanged(store, ["run"], () => submit(store, lateOf(owned))), "overtaken");
    }),

    runCase("late entries are refused where other events are, and where they would leave a gap", async (scene) => {
      const store = await scene.store();
      const owned = await play(store, {}, unsettled(2));
      for (const seq of [-1, 0, 1, 2, 4, 9].map((at) => at - 1)) {
        const asked = lateOf({ ...owned, seq });
        expectAnswer(await unchanged(store, ["run"], () => submit(store, asked)), "overtaken");
      }
      await appendLate(store, owned, { unsettled: 1 });
      expectAnswer(await unchanged(store, ["run"], () => submit(store, lateOf(owned))), "overtaken");
    }),

    runCase("a late entry that is sent again is recognised and written once", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await play(store, {}, unsettled(2));
      const asked = lateOf(owned, { unsettled: 1 });
      expectAnswer(await submit(store, asked), "appended");
      expectAnswer(await unchanged(store, ["run"], () => submit(store, asked)), "appended");
      await appendLate(other, after(owned));
      expectAnswer(await unchanged(store, ["run"], () => submit(store, asked)), "appended");
      assert.equal((await runOf(store)).unsettled, 0);
    }),

    runCase("of two late entries in one epoch, one is written", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (let i = 0; i < 8; i++) {
        const owned = await play(store, { id: `run ${i}` }, unsettled(1));
        const asked = ["body", "person", "another person"].map((events) => lateOf(owned, { events }));
        const answers = await Promise.all(asked.map((late, n) => submit(n % 2 === 0 ? store : other, late)));
        const won = asked.filter((_, n) => answers[n]?.kind === "appended");
        assert.deepEqual(answers.map(({ kind }) => kind).sort(), ["appended", "overtaken", "overtaken"]);
        assert.deepEqual((await eventsOf(store, owned.id)).slice(2), [won[0]?.events]);
      }
    }),

    runCase("no normal entry follows a late entry", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await append(store, await append(store, await begin(store)), { next: unsettled(1) });
      const late = await appendLate(store, owned);
      for (const handle of [store, other]) {
        for (const fields of [{}, { events: null }, { consumed: 0 }, { hooks: [], next: ended() }, { next: released() }])
          expectAnswer(await unchanged(store, ["run"], () => submit(handle, appendOf(late, fields))), "overtaken");
        expectAnswer(await submit(handle, sendOf()), "ended");
      }
    }),

    runCase("an end without an entry has entries after it, too", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await begin(store, { first: firstOf({ events: "first" }) });
      expectAnswer(await submit(store, appendOf(owned, { events: null, next: unsettled(2) })), "appended");
      const asked = lateOf(owned, { events: "settled", unsettled: 1 });
      expectAnswer(await submit(other, asked), "appended");
      expectAnswer(await submit(other, asked), "appended");
      expectAnswer(await submit(store, lateOf(owned)), "overtaken");
      await appendLate(store, after(owned), { events: "settled, too" });
      const { journal, run } = await picture(store, "run");
      assert.deepEqual(
        journal.map(({ seq, events }) => [seq, events]),
        [
          [1, "first"],
          [2, "settled"],
          [3, "settled, too"],
        ],
      );
      assert.equal(run?.unsettled, 0);
      expectAnswer(await submit(store, appendOf(after(owned, 2))), "overtaken");
    }),

    runCase("a run that was ended by its first entry may have steps to settle", async (scene) => {
      const store = await scene.store();
      const owned = await begin(store, { retentionMs: 0, first: firstOf({ next: unsettled(1) }) });
      assert.deepEqual([await store.runs.purge(10), (await runOf(store)).unsettled], [0, 1]);
      await appendLate(store, owned);
      assert.equal(await store.runs.purge(10), 1);
    }),

    runCase("a run with an unsettled step is not purged; settled, it is purged by its end and retention", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const over = await play(store, { id: "over", retentionMs: 50 }, unsettled(2));
      const kept = await play(store, { id: "kept", retentionMs: dayMs }, unsettled(1));
      const forEver = await play(store, { id: "for ever", retentionMs: null }, unsettled(1));
      await reach(scene, store, ((await runOf(store, "over")).endedAt ?? 0) + 60);
      assert.equal(await other.runs.purge(10), 0);
      const halfway = await appendLate(store, over, { unsettled: 1 });
      assert.equal(await other.runs.purge(10), 0);
      await appendLate(other, halfway);
      for (const owned of [kept, forEver]) await appendLate(store, owned);
      assert.equal(await unchanged(store, ["kept", "for ever"], () => other.runs.purge(10)), 1);
      assert.equal(await store.runs.read("over"), undefined);
      expectAnswer(await submit(store, lateOf(after(halfway))), "overtaken");
    }),

    runCase("the parent gets the mail about the end at once, even with unsettled steps", async (scene) => {
      const store = await scene.store();
      await begin(store, { id: "parent" });
      const owned = await play(store, { id: "child", parent: "parent" }, unsettled(1));
      const parentMail = async () => (await store.runs.mail("parent", 0)).map(({ kind, about }) => [kind, about]);
      assert.deepEqual(await parentMail(), [["child", "child"]]);
      await appendLate(store, owned);
      assert.deepEqual(await parentMail(), [["child", "child"]]);
    }),
  ],
};
