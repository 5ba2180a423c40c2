import assert from "node:assert/strict";
import { inspect } from "../../../core/ledger/inspect.js";
import type { Settlement } from "../../../core/ledger/operation.js";
import { type ContractGroup, contractCase } from "../contract-case.js";
import { once } from "./once.js";
import { beginOf, completed, dayMs, expectCode, expectKind, failed, free, idOf, send, start, startAndSettle } from "./operations.js";
import { shortMs } from "./scene.js";

const outcomes: readonly Settlement[] = [completed("kept"), failed];
const centuryMs = 100 * 366 * dayMs;

export const expiry: ContractGroup = {
  verb: "expiry",
  cases: [
    ...outcomes.map((to) =>
      contractCase(`${to.state}: replayed within its retention, gone until the horizon, then as good as new`, async (scene) => {
        const store = await scene.store();
        await startAndSettle(store, beginOf({ key: "kept", retentionMs: dayMs }), to);
        expectKind(await send(store, beginOf({ key: "kept" })), "replay");

        const gone = await startAndSettle(store, beginOf({ key: "gone", retentionMs: shortMs, horizonMs: dayMs }), to);
        await scene.reach(gone.begin, (await scene.record(gone.begin)).expiresAt ?? Number.NaN);
        const answer = await scene.unchanged(idOf(gone), () => send(store, beginOf({ key: "gone" })));
        assert.deepEqual(answer, { kind: "gone", attempt: 1 });

        const over = await startAndSettle(store, beginOf({ key: "over", retentionMs: shortMs / 2, horizonMs: shortMs / 2 }), to);
        await scene.reach(over.begin, (await scene.record(over.begin)).goneAt ?? Number.NaN);
        assert.equal((await start(store, beginOf({ key: "over" }))).attempt, 2);
      }),
    ),

    contractCase("a key past its horizon may become another operation: input, effect and dates are new", async (scene) => {
      const store = await scene.store();
      const old = { fingerprint: "a", effect: "atMostOnce", retentionMs: 0, horizonMs: 0 } as const;
      await startAndSettle(store, beginOf(old), completed("old"));
      const { createdAt } = await scene.record(beginOf());
      await scene.reach(beginOf(), createdAt + 5);
      const begin = beginOf({ fingerprint: "b", effect: "idempotent" });
      await start(store, begin);
      const record = await scene.record(begin);
      assert.deepEqual([record.fingerprint, record.effect, record.outcome, record.attempt], ["b", "idempotent", null, 2]);
      assert.deepEqual([record.expiresAt, record.goneAt, record.settledAt], [null, null, null]);
      assert.ok(record.createdAt > createdAt && record.createdAt === record.startedAt);
    }),

    contractCase("within the horizon another input is still a mismatch, not gone", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf({ fingerprint: "a", retentionMs: 0, horizonMs: dayMs }), completed(1));
      expectKind(await send(store, beginOf({ fingerprint: "b" })), "mismatch");
      expectKind(await send(store, beginOf({ fingerprint: "a" })), "gone");
    }),

    contractCase("an expired record counts as expired before it is purged", async (scene) => {
      const store = await scene.store();
      const held = await startAndSettle(store, beginOf({ retentionMs: 0, horizonMs: dayMs }), completed("still in the row"));
      assert.equal((await scene.record(held.begin)).outcome, '"still in the row"');
      expectKind(await send(store, beginOf()), "gone");
      await expectCode(
        once(store, { key: held.begin.key }, async () => assert.fail("it must not run")),
        "GONE",
      );
      await startAndSettle(store, beginOf({ key: "over", retentionMs: 0, horizonMs: 0 }), completed("still in the row"));
      let calls = 0;
      const again = await once(store, { key: "over" }, async () => {
        calls += 1;
      });
      assert.deepEqual([again.status, again.attempt, calls], ["executed", 2, 1]);
    }),

    contractCase("a free key can be begun within its horizon, and after the horizon with another input", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf({ key: "within", fingerprint: "a", retentionMs: 0, horizonMs: dayMs }), free);
      expectKind(await send(store, beginOf({ key: "within", fingerprint: "b" })), "mismatch");
      expectKind(await send(store, beginOf({ key: "within", fingerprint: "a" })), "started");
      await startAndSettle(store, beginOf({ key: "after", fingerprint: "a", retentionMs: 0, horizonMs: 0 }), free);
      expectKind(await send(store, beginOf({ key: "after", fingerprint: "b" })), "started");
    }),

    contractCase("each attempt sets its own retention", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf({ retentionMs: 0, horizonMs: 0 }), free);
      await startAndSettle(store, beginOf({ retentionMs: dayMs }), completed("kept"));
      expectKind(await send(store, beginOf({ retentionMs: 0, horizonMs: 0 })), "replay");
    }),

    contractCase("a record that is kept forever has no expiry", async (scene) => {
      const store = await scene.store();
      await once(store, { key: "ever", retentionMs: "forever" }, async () => 1);
      const { retentionMs, expiresAt, goneAt } = await scene.record({ scope: "", key: "ever" });
      assert.deepEqual([retentionMs, expiresAt, goneAt], [null, null, null]);
      assert.equal((await once(store, { key: "ever" }, async () => 2)).value, 1);
    }),

    contractCase("durations of 30 days and of a hundred years are exact", async (scene) => {
      const store = await scene.store();
      for (const [key, ms] of [
        ["month", 30 * dayMs],
        ["century", centuryMs],
      ] as const) {
        const held = await start(store, beginOf({ key, leaseMs: ms, retentionMs: ms, horizonMs: ms, reconcileAfterMs: ms }));
        const running = await scene.record(held.begin);
        assert.equal(running.leaseUntil, running.startedAt + ms);
        assert.equal(running.reconcileAfterMs, ms);
        const { forMs } = expectKind(await send(store, beginOf({ key })), "running");
        assert.ok(forMs > ms - 60_000 && forMs <= ms);
        await once(store, { key: `once ${key}`, retentionMs: ms, horizonMs: ms }, async () => key);
        const { settledAt, expiresAt, goneAt } = await scene.record({ scope: "", key: `once ${key}` });
        assert.ok(settledAt !== null);
        assert.deepEqual([expiresAt, goneAt], [settledAt + ms, settledAt + 2 * ms]);
        assert.equal((await inspect(store, { key: `once ${key}` }))?.goneAt?.getTime(), goneAt);
        assert.equal((await once(store, { key: `once ${key}` }, async () => "again")).status, "replayed");
      }
    }),
  ],
};
