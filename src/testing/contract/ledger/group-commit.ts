import assert from "node:assert/strict";
import type { Answer, Begin } from "../../../core/ledger/operation.js";
import { type ContractGroup, contractCase } from "../contract-case.js";
import { once } from "./once.js";
import {
  beginOf,
  completed,
  countKinds,
  expectCode,
  expectKind,
  free,
  renewOf,
  resolveOf,
  send,
  settle,
  settleOf,
  start,
  startAndSettle,
  unknown,
} from "./operations.js";

const many = 64;
const numbers = Array.from({ length: many }, (_, i) => i);
const keyOf = (i: number) => `key ${i}`;

/** A fraction of a millisecond: SQL stores reject it. A store that accepts every value cannot have a poisoned batch. */
const poison = { key: "poison", retentionMs: 0.5 };

export const groupCommit: ContractGroup = {
  verb: "group commit",
  cases: [
    contractCase("64 commits at once share their flushes", async (scene) => {
      const store = await scene.store();
      const before = store.metrics.flushes;
      const held = await Promise.all(numbers.map((i) => start(store, beginOf({ key: keyOf(i) }))));
      await Promise.all(held.map((one, i) => settle(store, one, completed(i))));
      const flushes = store.metrics.flushes - before;
      assert.ok(flushes <= 8, `${2 * many} operations in ${flushes} flushes`);
      assert.equal(store.metrics.started, many);
      assert.equal(store.metrics.settled, many);
    }),

    contractCase("every member of a flush gets its own answer", async (scene) => {
      const store = await scene.store();
      const done = await startAndSettle(store, beginOf({ key: "done" }), completed("its own"));
      const runs = await start(store, beginOf({ key: "runs" }));
      const mine = await start(store, beginOf({ key: "mine" }));
      const renewed = await start(store, beginOf({ key: "renewed" }));
      const doubt = await startAndSettle(store, beginOf({ key: "doubt", effect: "atMostOnce" }), unknown);
      const resolved = await startAndSettle(store, beginOf({ key: "resolved", effect: "atMostOnce" }), unknown);
      await startAndSettle(store, beginOf({ key: "other", fingerprint: "a" }), free);
      await startAndSettle(store, beginOf({ key: "gone", retentionMs: 0, horizonMs: 60_000 }), free);
      await startAndSettle(store, beginOf({ key: "late", retentionMs: 0, horizonMs: 60_000 }), completed(1));
      const asked = [
        [beginOf({ key: "new" }), "started"],
        [beginOf({ key: done.begin.key }), "replay"],
        [beginOf({ key: runs.begin.key }), "running"],
        [settleOf(mine, completed("mine")), "settled"],
        [renewOf(renewed), "renewed"],
        [settleOf({ ...mine, begin: { ...mine.begin, key: "nowhere" } }, free), "stale"],
        [beginOf({ key: doubt.begin.key }), "unknown"],
        [resolveOf(resolved, completed("resolved")), "settled"],
        [beginOf({ key: "other", fingerprint: "b" }), "mismatch"],
        [beginOf({ key: "gone" }), "started"],
        [beginOf({ key: "late" }), "gone"],
        ...numbers.map((i) => [beginOf({ key: keyOf(i) }), "started"] as const),
      ] as const;
      const before = store.metrics.flushes;
      const answers = await Promise.all(asked.map(([operation]) => send(store, operation)));
      assert.deepEqual(
        answers.map(({ kind }) => kind),
        asked.map(([, kind]) => kind),
      );
      assert.equal(expectKind(answers[1] as Answer, "replay").record.outcome, '"its own"');
      assert.ok(store.metrics.flushes - before <= 3);
    }),

    contractCase("many begins on one key in one turn cost one flush", async (scene) => {
      const store = await scene.store();
      const before = store.metrics.flushes;
      const answers = await Promise.all(numbers.map(() => send(store, beginOf())));
      assert.deepEqual(countKinds(answers), { started: 1, running: many - 1 });
      assert.equal(store.metrics.flushes - before, 1);
      assert.equal((await scene.record(beginOf())).rev, 1);
    }),

    contractCase("many replays of one key in one turn cost one flush", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf(), completed("kept"));
      const before = store.metrics.flushes;
      const answers = await Promise.all(numbers.map(() => send(store, beginOf())));
      assert.deepEqual(countKinds(answers), { replay: many });
      assert.equal(store.metrics.flushes - before, 1);
    }),

    contractCase("a refused begin does not decide the answers of later begins in the same turn", async (scene) => {
      const store = await scene.store();
      const together = async (...begins: readonly Partial<Begin>[]) =>
        (await Promise.all(begins.map((fields) => send(store, beginOf(fields))))).map(({ kind }) => kind);
      const [a, b] = [{ fingerprint: "a" }, { fingerprint: "b" }];
      await startAndSettle(store, beginOf(a), free);
      assert.deepEqual(await together(b, a, a, b), ["mismatch", "started", "running", "mismatch"]);
      const doubt = { key: "doubt", effect: "reconcile" } as const;
      await startAndSettle(store, beginOf(doubt), unknown);
      const over = { ...doubt, over: 1 };
      assert.deepEqual(await together(doubt, over, over, doubt), ["unknown", "started", "running", "running"]);
      await scene.dieAndLapse(beginOf({ key: "dead" }));
      const strict = { key: "dead", effect: "atMostOnce" } as const;
      assert.deepEqual(await together(strict, { key: "dead" }, { key: "dead" }), ["unknown", "started", "running"]);
      for (const key of ["operation", "doubt", "dead"]) assert.equal((await scene.record({ scope: "", key })).attempt, 2);
    }),

    contractCase("operations on one key in one turn take effect in the order of their submission", async (scene) => {
      const store = await scene.store();
      const held = await start(store, beginOf());
      const next = beginOf();
      const answers = await Promise.all([
        send(store, beginOf()),
        send(store, settleOf(held, free)),
        send(store, next),
        send(store, settleOf({ begin: next, attempt: 2 }, completed("second"))),
        send(store, settleOf(held, completed("too late"))),
        send(store, beginOf()),
      ]);
      assert.deepEqual(
        answers.map(({ kind }) => kind),
        ["running", "settled", "started", "settled", "stale", "replay"],
      );
    }),

    contractCase("an operation that the database rejects does not fail the others in its flush", async (scene) => {
      const store = await scene.store();
      const [poisonous, ...neighbours] = await Promise.allSettled([
        send(store, beginOf(poison)),
        ...numbers.map((i) => send(store, beginOf({ key: keyOf(i) }))),
      ]);
      for (const neighbour of neighbours) {
        assert.equal(neighbour.status, "fulfilled");
        if (neighbour.status === "fulfilled") expectKind(neighbour.value, "started");
      }
      if (poisonous?.status === "rejected") {
        await expectCode(Promise.reject(poisonous.reason), "STORE_REFUSED");
        assert.equal(await store.read({ scope: "", key: poison.key }), undefined);
      }
      await Promise.all(numbers.map((i) => start(store, beginOf({ key: `after ${i}` }))));
    }),

    contractCase("a refused begin reaches its caller at once, and the key stays open", async (scene) => {
      const store = await scene.store();
      const refused = await send(store, beginOf(poison)).catch((error: unknown) => error);
      if (!(refused instanceof Error)) return;
      assert.equal((refused as { code?: unknown }).code, "STORE_REFUSED");
      assert.equal((await start(store, beginOf({ key: poison.key }))).attempt, 1);
    }),

    contractCase("many callers of one key across two handles: one execution, the same outcome for all", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      let calls = 0;
      const all = numbers.map((i) =>
        once(i % 2 === 0 ? store : other, { key: "popular" }, async () => {
          calls += 1;
          await scene.pass(5);
          return calls;
        }),
      );
      const results = await scene.finish(Promise.all(all));
      assert.equal(calls, 1);
      assert.equal(results.filter(({ status }) => status === "executed").length, 1);
      for (const { value, attempt } of results) assert.deepEqual([value, attempt], [1, 1]);
    }),

    contractCase('a caller that does not want to wait gets the answer "running"', async (scene) => {
      const store = await scene.store();
      await start(store, beginOf({ leaseMs: 60_000 }));
      const key = beginOf().key;
      const handler = async () => assert.fail("it must not run");
      assert.deepEqual(await once(store, { key, onRunning: "return" }, handler), { status: "running", attempt: 1 });
      const error = await expectCode(once(store, { key, onRunning: "throw" }, handler), "RUNNING");
      const { retryAfterMs } = error as { retryAfterMs?: number };
      assert.ok(retryAfterMs !== undefined && retryAfterMs > 0 && retryAfterMs <= 60_000);
      await expectCode(scene.finish(once(store, { key, waitMs: 30 }, handler)), "RUNNING");
    }),
  ],
};
