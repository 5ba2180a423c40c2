import assert from "node:assert/strict";
import type { ContractGroup } from "../contract-case.js";
import { dayMs } from "../ledger/operations.js";
import { shortMs } from "../ledger/scene.js";
import { eventsOf, lapse, meanwhile, picture, runCase, timeOf, unchanged } from "./run-case.js";
import {
  after,
  append,
  appendOf,
  begin,
  create,
  ended,
  expectAnswer,
  firstOf,
  hookOf,
  numbers,
  play,
  post,
  released,
  runOf,
  sendOf,
  submit,
} from "./run-operations.js";

const over = { retentionMs: 0 };

export const purgingRuns: ContractGroup = {
  verb: "purge",
  cases: [
    runCase("only ended runs after their retention are purged; null keeps a run forever", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const wakeAt = (await timeOf(store)) + dayMs;
      await create(store, { ...over, id: "pending" });
      await begin(store, { ...over, id: "running" });
      await begin(store, { ...over, id: "lapsed", first: firstOf({}, shortMs) });
      await lapse(scene, store, "lapsed");
      await play(store, { ...over, id: "asleep" }, released({ wakeAt }));
      await play(store, { ...over, id: "unknown" }, released({ status: "unknown", trouble: "t" }));
      await play(store, { ...over, id: "diverged" }, released({ status: "diverged", trouble: "t" }));
      await play(store, { ...over, id: "parked" }, released({ status: "parked", trouble: "t" }));
      await play(store, { id: "a day", retentionMs: dayMs });
      await play(store, { id: "for ever", retentionMs: null });
      const stays = ["pending", "running", "lapsed", "asleep", "unknown", "diverged", "parked", "a day", "for ever"];
      const gone = ["completed", "failed", "cancelled"] as const;
      for (const status of gone) await play(store, { ...over, id: status }, ended(status));
      assert.equal(await unchanged(store, stays, () => other.runs.purge(100)), 3);
      for (const id of gone) assert.equal(await store.runs.read(id), undefined);
      assert.equal(await store.runs.purge(100), 0);
    }),

    runCase("a run is not purged before its retention has passed, counted from its end", async (scene) => {
      const store = await scene.store();
      const retentionMs = 150;
      await play(store, { retentionMs });
      const { endedAt } = await runOf(store);
      assert.ok(endedAt !== null);
      await scene.until("it is removed", async () => {
        const removed = await store.runs.purge(100);
        if (removed === 1) assert.ok((await timeOf(store)) >= endedAt + retentionMs);
        return removed === 1;
      });
      assert.equal(await store.runs.read("run"), undefined);
    }),

    runCase("a run is purged with its journal and its mail: the next run with its id starts empty", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const owned = await begin(store, { ...over, input: "large ".repeat(50_000), first: firstOf({ hooks: [hookOf("token")] }) });
      await begin(store, { id: "neighbour", first: firstOf({ hooks: [hookOf("neighbour")] }) });
      for (const to of [{ run: "run" }, { run: "neighbour" }]) await post(store, { to, key: "key" });
      await append(store, await append(store, owned), { next: ended() });
      assert.equal(await unchanged(store, ["neighbour"], () => other.runs.purge(100)), 1);
      assert.deepEqual(await picture(other, "run"), { run: undefined, journal: [], mail: [], hooks: [] });
      expectAnswer(await submit(other, sendOf()), "absent");
      expectAnswer(await submit(store, appendOf(after(owned, 2))), "overtaken");
      const anew = await begin(other, { first: firstOf({ events: "anew", hooks: [hookOf("token")] }) });
      await post(other, { key: "key", payload: "anew" });
      const { run, journal, mail, hooks } = await picture(store, "run");
      assert.deepEqual([run?.epoch, run?.mail, run?.consumed, run?.output], [1, 1, 0, null]);
      assert.deepEqual([journal.map(({ events }) => events), mail.map(({ payload }) => payload), hooks.length], [["anew"], ["anew"], 1]);
      assert.equal(run?.input, '"input"');
      // Through the handle that had used the purged run: it must not use cached state.
      await append(store, anew, { events: "and on", next: ended() });
      assert.deepEqual([(await runOf(other)).status, (await eventsOf(other, "run"))[1]], ["completed", "and on"]);
    }),

    // The new run may reuse the row number of the old one, and the handle of the late owner may have cached that number.
    runCase("a late owner of a purged run writes nothing into the next run with its id", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const late = await begin(store, { ...over, id: "old" });
      await append(other, late, { next: ended() });
      assert.equal(await other.runs.purge(100), 1);
      await begin(other, { id: "new" });
      for (const seq of [1, 2])
        expectAnswer(await unchanged(store, ["old", "new"], () => submit(store, appendOf({ ...late, seq }))), "overtaken");
      expectAnswer(await submit(store, sendOf({ to: { run: "old" } })), "absent");
    }),

    runCase("no more than `limit` at a time", async (scene) => {
      const store = await scene.store();
      await Promise.all(numbers(5).map((i) => play(store, { ...over, id: `run ${i}` })));
      const removed: number[] = [];
      for (let i = 0; i < 4; i++) removed.push(await store.runs.purge(2));
      assert.deepEqual(removed, [2, 2, 1, 0]);
    }),

    runCase("two purges at once do not count a run twice", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await Promise.all(numbers(40).map((i) => play(store, { ...over, id: `run ${i}` })));
      let removed = 0;
      await scene.until("nothing is left", async () => {
        for (const count of await Promise.all([store, other, store].map((handle) => handle.runs.purge(9)))) removed += count;
        return (await store.runs.list({ limit: 1 })).length === 0;
      });
      assert.equal(removed, 40);
    }),

    runCase("a purge while runs start and end removes no run that has not ended", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const works = () =>
        Promise.all(
          numbers(6).map(async (worker) => {
            for (let i = 0; i < 6; i++) await play(store, { ...over, id: `worker ${worker} run ${i}` });
          }),
        );
      await meanwhile(scene, () => other.runs.purge(100), works);
      while ((await store.runs.purge(100)) > 0);
      assert.deepEqual(await store.runs.list({ limit: 10 }), []);
    }),

    runCase("the store purges by itself", async (scene) => {
      const store = await scene.open({ purgeEveryMs: 20 });
      await play(store, { ...over, id: "over" });
      await play(store, { id: "stays" });
      await scene.until("what is over is removed", async () => (await store.runs.read("over")) === undefined);
      assert.equal((await runOf(store, "stays")).status, "completed");
    }),
  ],
};
