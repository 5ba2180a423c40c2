import assert from "node:assert/strict";
import type { Begin } from "../../../core/ledger/operation.js";
import { purge } from "../../../core/ledger/purge.js";
import { type ContractGroup, contractCase } from "../contract-case.js";
import {
  beginOf,
  completed,
  dayMs,
  expectKind,
  failed,
  free,
  membersOf,
  send,
  settle,
  settleOf,
  start,
  startAndSettle,
  unknown,
} from "./operations.js";
import { type Scene, shortMs } from "./scene.js";

/** A retention that is over as soon as the key is settled. */
const over: Partial<Begin> = { retentionMs: 0, horizonMs: 0 };
const limit = 100;

async function keysLeft(scene: Scene): Promise<string[]> {
  return (await (await scene.store()).list({ limit: 1000 })).map(({ record }) => record.key);
}

export const purging: ContractGroup = {
  verb: "purge",
  cases: [
    contractCase("a running or unknown record is never removed, for any value of `before`", async (scene) => {
      const store = await scene.store();
      const lapsing = ["atMostOnce", "reconcile"] as const;
      await scene.die(
        ...lapsing.map((effect) => beginOf({ ...over, key: `lapsed ${effect}`, effect, leaseMs: shortMs })),
        beginOf({ key: "lapsed today", effect: "keyed", leaseMs: shortMs, retentionMs: dayMs, horizonMs: 0 }),
        beginOf({ key: "lapsed in the horizon", effect: "idempotent", leaseMs: shortMs, retentionMs: 0, horizonMs: dayMs }),
        beginOf({ key: "lapsed for ever", effect: "idempotent", leaseMs: shortMs, retentionMs: null }),
      );
      for (const key of [...lapsing.map((effect) => `lapsed ${effect}`), "lapsed today", "lapsed for ever"])
        await scene.lapse({ scope: "", key });
      await start(store, beginOf({ ...over, key: "running" }));
      await startAndSettle(store, beginOf({ ...over, key: "unknown", effect: "atMostOnce" }), unknown);
      const before = await store.list({ limit });
      const { now } = await scene.reading({ scope: "", key: "running" });
      assert.equal(await store.purge({ limit }), 0);
      assert.equal(await store.purge({ limit, before: now + 1000 * dayMs }), 0);
      assert.deepEqual(
        (await store.list({ limit })).map(({ record }) => membersOf(record)),
        before.map(({ record }) => membersOf(record)),
      );
    }),

    contractCase("an abandoned attempt of a class that may run again is removed after its retention, with its attempts", async (scene) => {
      const store = await scene.store();
      const classes = ["idempotent", "keyed"] as const;
      await scene.die(...classes.map((effect) => beginOf({ ...over, key: effect, effect, leaseMs: shortMs })));
      // The second attempt is the one that is abandoned.
      for (const key of classes) await scene.lapse({ scope: "", key });
      const again = await scene.die(...classes.map((effect) => beginOf({ ...over, key: effect, effect, leaseMs: shortMs })));
      assert.deepEqual(
        again.map(({ attempt }) => attempt),
        [2, 2],
      );
      const held = await start(store, beginOf({ ...over, key: "held", effect: "keyed" }));
      for (const key of classes) await scene.lapse({ scope: "", key });
      assert.deepEqual([await store.purge({ limit: 1 }), await store.purge({ limit }), await store.purge({ limit })], [1, 1, 0]);
      assert.deepEqual(await keysLeft(scene), ["held"]);
      for (const key of classes) {
        assert.deepEqual(await store.attempts({ scope: "", key, afterAttempt: 0, limit }), []);
        assert.equal((await start(store, beginOf({ key }))).attempt, 1);
      }
      // The late owner finds no record to settle.
      for (const late of again) expectKind(await send(store, settleOf(late, completed("late"))), "stale");
      await settle(store, held, completed(1));
    }),

    contractCase("an expired record is removed with its attempts, and all other records stay", async (scene) => {
      const store = await scene.store();
      for (const to of [completed(1), failed, free]) {
        await startAndSettle(store, beginOf({ ...over, key: `over ${to.state}` }), to);
        await startAndSettle(store, beginOf({ key: `stays ${to.state}` }), to);
        await startAndSettle(store, beginOf({ key: `stays for ever ${to.state}`, retentionMs: null }), to);
      }
      await startAndSettle(store, beginOf({ ...over, key: "over free" }), free);
      assert.equal(await purge(store), 3);
      const left = await keysLeft(scene);
      assert.equal(left.length, 6);
      assert.ok(left.every((key) => key.startsWith("stays")));
      assert.equal(await purge(store), 0);
      assert.equal(store.metrics.purged, 3);
      assert.deepEqual(await store.attempts({ scope: "", key: "over free", afterAttempt: 0, limit }), []);
      assert.equal((await start(store, beginOf({ key: "over free" }))).attempt, 1);
      await settle(store, await start(store, beginOf({ key: "stays free" })), free);
      assert.equal((await store.attempts({ scope: "", key: "stays free", afterAttempt: 0, limit })).length, 1);
    }),

    contractCase("no more than `limit` at a time", async (scene) => {
      const store = await scene.store();
      await Promise.all(Array.from({ length: 5 }, (_, i) => startAndSettle(store, beginOf({ ...over, key: `over ${i}` }), completed(i))));
      const removed: number[] = [];
      for (let i = 0; i < 4; i++) removed.push(await store.purge({ limit: 2 }));
      assert.deepEqual(removed, [2, 2, 1, 0]);
    }),

    contractCase("only records that had expired at `before`, which is never later than the store's time", async (scene) => {
      const store = await scene.store();
      const first = await startAndSettle(store, beginOf({ ...over, key: "first" }), completed(1));
      const goneAt = (await scene.record(first.begin)).goneAt ?? Number.NaN;
      await scene.reach(first.begin, goneAt + 20);
      await startAndSettle(store, beginOf({ ...over, key: "second" }), completed(2));
      await startAndSettle(store, beginOf({ key: "tomorrow" }), completed(3));
      assert.equal(await purge(store, { before: goneAt - 1 }), 0);
      assert.equal(await purge(store, { before: new Date(goneAt + 10) }), 1);
      assert.deepEqual(await keysLeft(scene), ["second", "tomorrow"]);
      assert.equal(await purge(store, { before: goneAt + 1000 * dayMs }), 1);
      assert.deepEqual(await keysLeft(scene), ["tomorrow"]);
      expectKind(await send(store, beginOf({ key: "tomorrow" })), "replay");
    }),

    contractCase("after its retention the result is removed, and the tombstone stays until the horizon", async (scene) => {
      const store = await scene.store();
      const within = { retentionMs: 0, horizonMs: dayMs };
      const fields = { ...within, fingerprint: "a" };
      await startAndSettle(store, beginOf({ ...fields, key: "completed" }), completed("secret"));
      await startAndSettle(store, beginOf({ ...fields, key: "failed" }), failed);
      await startAndSettle(store, beginOf({ ...fields, key: "free" }), free);
      await startAndSettle(store, beginOf({ ...fields, key: "not kept" }), { state: "completed", outcome: null });
      assert.equal(await store.purge({ limit }), 2);
      assert.equal(await store.purge({ limit }), 0);
      for (const [key, answer] of [
        ["completed", "gone"],
        ["failed", "gone"],
        ["not kept", "gone"],
      ] as const) {
        const { outcome, state, attempt } = await scene.record({ scope: "", key });
        assert.deepEqual([outcome, state === "running", attempt], [null, false, 1]);
        expectKind(await send(store, beginOf({ key, fingerprint: "b" })), "mismatch");
        expectKind(await send(store, beginOf({ key, fingerprint: "a" })), answer);
      }
      assert.equal((await start(store, beginOf({ key: "free", fingerprint: "a" }))).attempt, 2);
    }),

    contractCase("a key that began again is not removed because of its former expiry", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf(over), completed("old"));
      const held = await start(store, beginOf(over));
      assert.equal(await store.purge({ limit }), 0);
      await settle(store, held, completed("new"));
      assert.equal(await store.purge({ limit }), 1);
    }),

    contractCase("purge, begin and settle at once: no attempt with an owner is lost", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      let purging = true;
      const purges = (async () => {
        while (purging) {
          await other.purge({ limit });
          await scene.pass(1);
        }
      })();
      const works = Array.from({ length: 6 }, async (_, worker) => {
        for (let i = 0; i < 10; i++) {
          const held = await start(store, beginOf({ ...over, key: `worker ${worker}` }));
          await settle(store, held, completed(i));
        }
      });
      await Promise.all(works).finally(() => {
        purging = false;
      });
      await purges;
    }),

    contractCase("the store purges by itself", async (scene) => {
      const store = await scene.open({ purgeEveryMs: 20 });
      await startAndSettle(store, beginOf({ ...over, key: "over" }), completed(1));
      await startAndSettle(store, beginOf({ key: "stays" }), completed(1));
      await scene.until("what is over is removed", async () => (await store.read({ scope: "", key: "over" })) === undefined);
      await startAndSettle(store, beginOf({ ...over, key: "over again" }), completed(1));
      await scene.until("and again", async () => (await store.read({ scope: "", key: "over again" })) === undefined);
      assert.deepEqual(await keysLeft(scene), ["stays"]);
      assert.equal(store.metrics.purged, 2);
    }),
  ],
};
