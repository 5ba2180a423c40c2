import assert from "node:assert/strict";
import type { ContractGroup } from "../contract-case.js";
import { dayMs } from "../ledger/operations.js";
import { shortMs } from "../ledger/scene.js";
import { lapse, reach, runCase, timeOf } from "./run-case.js";
import {
  act,
  append,
  begin,
  create,
  ended,
  expectAnswer,
  firstOf,
  mailing,
  play,
  released,
  runOf,
  startOf,
  submit,
} from "./run-operations.js";

export const timing: ContractGroup = {
  verb: "deadline",
  cases: [
    runCase("a run has the deadline that its start sets, and otherwise none", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const limits = { timeoutMs: dayMs, cleanupMs: 1000 };
      await create(store, { id: "pending", ...limits });
      await create(store, { id: "long", ...limits, input: "large ".repeat(50_000) });
      await begin(store, { id: "running", ...limits });
      await begin(store, { id: "with hold", ...limits, first: firstOf({ consumed: 0, next: released() }) });
      await begin(store, { id: "parent", first: firstOf({ children: [startOf({ id: "child", parent: "parent", ...limits })] }) });
      await create(store, { id: "no cleanup", timeoutMs: dayMs });
      await play(store, { id: "ended", ...limits });
      for (const id of ["pending", "long", "running", "with hold", "child", "ended"]) {
        const { createdAt, deadlineAt, stopAt } = await runOf(other, id);
        assert.deepEqual([deadlineAt, stopAt], [createdAt + dayMs, createdAt + dayMs + 1000], id);
      }
      const { createdAt, deadlineAt, stopAt } = await runOf(other, "no cleanup");
      assert.deepEqual([deadlineAt, stopAt], [createdAt + dayMs, createdAt + dayMs]);
      const parent = await runOf(other, "parent");
      assert.deepEqual([parent.deadlineAt, parent.stopAt], [null, null]);
    }),

    runCase("a start that is sent again does not change the deadline", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const start = await create(store, { timeoutMs: dayMs, cleanupMs: 5 });
      const before = await runOf(store);
      await reach(scene, store, before.createdAt + 20);
      expectAnswer(await submit(other, start), "created");
      assert.deepEqual(await runOf(store), before);
    }),

    runCase("an entry sets the time from which the run can be ended without its code", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const at = (await timeOf(store)) + dayMs;
      for (const [id, fields] of Object.entries({
        hold: {},
        consumed: { consumed: 0 },
        released: { next: released() },
        avoided: { next: released({ avoid: { workers: ["w"], until: at } }) },
        ended: { next: ended() },
        "without events": { events: null },
      })) {
        const { seq } = await append(store, await begin(store, { id }), { ...fields, stopAt: at });
        assert.deepEqual([seq, (await runOf(other, id)).stopAt], [2, at], id);
      }
      // An entry without it leaves it as it is.
      const owned = await append(store, await begin(store, { id: "kept" }), { stopAt: at });
      await append(store, owned, { consumed: 0, next: released() });
      assert.equal((await runOf(other, "kept")).stopAt, at);
    }),

    runCase("an action sets that time, and does not defer it", async (scene) => {
      const store = await scene.store();
      await create(store);
      const set = async (stopAfterMs: number) => (await act(store, { ...mailing({ kind: "cancel" }), stopAfterMs })).at + stopAfterMs;
      const first = await set(dayMs);
      assert.equal((await runOf(store)).stopAt, first);
      const sooner = await set(1000);
      assert.equal((await runOf(store)).stopAt, sooner);
      await set(dayMs);
      assert.equal((await runOf(store)).stopAt, sooner);
      await act(store, mailing());
      assert.equal((await runOf(store)).stopAt, sooner);
    }),

    runCase("runs whose time has come and that no worker executes are listed, the oldest first", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const at = await timeOf(store);
      const next = released();
      await create(store, { id: "no time" });
      await append(store, await begin(store, { id: "later" }), { stopAt: at + dayMs, next });
      await append(store, await begin(store, { id: "b" }), { stopAt: at - 1, next });
      await append(store, await begin(store, { id: "a" }), { stopAt: at - 2, next: released({ status: "diverged", trouble: "t" }) });
      await append(store, await begin(store, { id: "c" }), { stopAt: at, next: released({ status: "paused", wakeAt: at + dayMs }) });
      await append(store, await begin(store, { id: "owned" }), { stopAt: at - 3 });
      await append(store, await begin(store, { id: "lapsed", first: firstOf({}, shortMs) }), { stopAt: at - 4 });
      await append(store, await begin(store, { id: "ended" }), { stopAt: at - 5, next: ended() });
      await lapse(scene, store, "lapsed");
      assert.deepEqual(await other.runs.overdueStops(100), ["lapsed", "a", "b", "c"]);
      assert.deepEqual(await other.runs.overdueStops(2), ["lapsed", "a"]);
    }),

    runCase("a run with a deadline is listed when its time for cleanup is over", async (scene) => {
      const store = await scene.store();
      await create(store, { timeoutMs: 20, cleanupMs: 30 });
      const { stopAt } = await runOf(store);
      assert.ok(stopAt !== null);
      await scene.until("it is listed", async () => {
        const [found] = await store.runs.overdueStops(10);
        if (found === undefined) return false;
        assert.ok((await timeOf(store)) >= stopAt);
        return found === "run";
      });
    }),

    runCase("a run may end with a reason for an operator to look at it", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const trouble = "its cleanup did not run";
      await play(store, { id: "troubled" }, { ...ended("cancelled", null), trouble });
      await create(store, { id: "at once", first: firstOf({ next: { ...ended("cancelled", null), trouble } }) });
      await begin(store, { id: "parent" });
      await play(store, { id: "child", parent: "parent" }, { ...ended("cancelled", '"why"', 1), trouble });
      for (const id of ["troubled", "at once", "child"]) {
        const run = await runOf(other, id);
        assert.deepEqual([run.status, run.trouble], ["cancelled", trouble], id);
      }
      assert.equal((await runOf(store, "child")).unsettled, 1);
      assert.deepEqual(
        (await store.runs.mail("parent", 0)).map(({ payload }) => JSON.parse(payload ?? "") as unknown),
        [["cancelled", '"why"']],
      );
      await play(store, { id: "plain" });
      assert.equal((await runOf(store, "plain")).trouble, null);
    }),
  ],
};
