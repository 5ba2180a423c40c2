import assert from "node:assert/strict";
import { NotApplied } from "../../../core/errors/errors.js";
import { inspect } from "../../../core/ledger/inspect.js";
import { resolve } from "../../../core/ledger/resolve.js";
import { type ContractGroup, contractCase } from "../contract-case.js";
import { once } from "./once.js";
import {
  beginOf,
  completed,
  expectCode,
  expectKind,
  failed,
  free,
  idOf,
  resolveOf,
  send,
  settle,
  start,
  startAndSettle,
  unknown,
} from "./operations.js";

export const attempt: ContractGroup = {
  verb: "attempt",
  cases: [
    contractCase("each takeover increments the attempt number by one", async (scene) => {
      for (const number of [1, 2, 3]) assert.equal((await scene.dieAndLapse(beginOf())).attempt, number);
      assert.equal((await start(await scene.store(), beginOf())).attempt, 4);
    }),

    contractCase("release, failure, resolve and expiry do not reset the attempt number to 1", async (scene) => {
      const store = await scene.store();
      const short = { retentionMs: 0, horizonMs: 0 };
      assert.equal((await startAndSettle(store, beginOf(), free)).attempt, 1);
      const threw = await start(store, beginOf());
      await settle(store, threw, free, "Error");
      assert.equal(threw.attempt, 2);
      const doubtful = await startAndSettle(store, beginOf(), unknown);
      expectKind(await send(store, resolveOf(doubtful, free)), "settled");
      assert.equal(doubtful.attempt, 3);
      assert.equal((await startAndSettle(store, beginOf(short), failed)).attempt, 4);
      assert.equal((await startAndSettle(store, beginOf(short), completed(1))).attempt, 5);
      assert.equal((await scene.dieAndLapse(beginOf())).attempt, 6);
      assert.equal((await startAndSettle(store, beginOf(), { state: "free", forget: true })).attempt, 7);
      assert.equal((await start(store, beginOf({ fingerprint: "another" }))).attempt, 8);
    }),

    contractCase("inspect lists how each attempt ended, with the current attempt last", async (scene) => {
      const store = await scene.store();
      const key = "evidence";
      const broken = async () => {
        throw new TypeError("broken");
      };
      await assert.rejects(once(store, { key }, broken), TypeError);
      await assert.rejects(
        once(store, { key }, async () => {
          throw new NotApplied("declined");
        }),
        NotApplied,
      );
      await startAndSettle(store, beginOf({ key }), free);
      await scene.dieAndLapse(beginOf({ key }));
      await startAndSettle(store, beginOf({ key }), unknown);
      await resolve(store, { key, attempt: 5 }, "notApplied");
      await once(store, { key }, async () => "at last");

      const found = await inspect(store, { key });
      assert.ok(found);
      assert.deepEqual(
        found.attempts.map(({ attempt, verdict, note }) => [attempt, verdict, note]),
        [
          [1, "threw", "TypeError"],
          [2, "threw", "NotApplied"],
          [3, "released", null],
          [4, "lapsed", null],
          [5, "resolved", "by hand"],
          [6, "completed", null],
        ],
      );
      assert.equal(new Set(found.attempts.map(({ owner }) => owner)).size, 6);
      let before = 0;
      for (const { startedAt, endedAt } of found.attempts) {
        assert.ok(endedAt !== null && before <= startedAt && startedAt <= endedAt);
        before = startedAt;
      }
      assert.deepEqual(
        [found.state, found.value, found.kept, found.attempt, found.effect],
        ["completed", "at last", true, 6, "idempotent"],
      );
    }),

    contractCase("inspect shows an unknown attempt as unknown and a running attempt as running", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf({ key: "doubt", effect: "reconcile" }), unknown);
      await start(store, beginOf({ key: "doubt", effect: "reconcile", over: 1 }));
      const found = await inspect(store, { key: "doubt" });
      assert.deepEqual(
        found?.attempts.map(({ verdict, endedAt }) => [verdict, endedAt === null]),
        [
          ["unknown", false],
          ["running", true],
        ],
      );
      assert.equal(await inspect(store, { key: "never seen" }), undefined);
    }),

    contractCase("inspect shows a kept failure and its owner", async (scene) => {
      const store = await scene.store();
      const declined = async () => {
        throw Object.assign(new RangeError("declined"), { code: "E_DECLINED" });
      };
      await expectCode(once(store, { key: "kept", keepFailures: true }, declined), "E_DECLINED");
      const found = await inspect(store, { key: "kept" });
      assert.deepEqual([found?.state, found?.error?.name, found?.error?.message], ["failed", "RangeError", "declined"]);
      assert.deepEqual(
        found?.attempts.map(({ verdict, note }) => [verdict, note]),
        [["failed", "RangeError"]],
      );
    }),

    contractCase("a long attempt log is read in order, from any attempt on, and in pages", async (scene) => {
      const store = await scene.store();
      for (let i = 0; i < 12; i++) await startAndSettle(store, beginOf(), free);
      const id = idOf({ begin: beginOf(), attempt: 1 });
      const numbers = async (afterAttempt: number, limit: number) =>
        (await store.attempts({ ...id, afterAttempt, limit })).map(({ attempt }) => attempt);
      assert.deepEqual(await numbers(0, 100), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
      assert.deepEqual(await numbers(4, 3), [5, 6, 7]);
      assert.deepEqual(await numbers(11, 3), []);
    }),
  ],
};
