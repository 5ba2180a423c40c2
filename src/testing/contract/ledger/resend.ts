import assert from "node:assert/strict";
import type { Settlement } from "../../../core/ledger/operation.js";
import { type ContractGroup, contractCase, needsConnections } from "../contract-case.js";
import { once } from "./once.js";
import {
  beginOf,
  completed,
  expectKind,
  failed,
  free,
  idOf,
  resolveOf,
  send,
  settleOf,
  start,
  startAndSettle,
  unknown,
} from "./operations.js";
import { shortMs } from "./scene.js";

const ways: readonly Settlement[] = [completed("mine"), failed, free, { state: "free", forget: true }, unknown];

export const resend: ContractGroup = {
  verb: "resend",
  cases: [
    contractCase("the same begin, sent again by the same owner, returns its first answer", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const begin = beginOf();
      const first = expectKind(await send(store, begin), "started");
      for (const handle of [store, other]) assert.deepEqual(await scene.unchanged(begin, () => send(handle, begin)), first);
    }),

    contractCase("the same begin, sent again after its lease expired, returns its first answer", async (scene) => {
      const { begin } = await scene.dieAndLapse(beginOf());
      const answer = await scene.unchanged(begin, async () => send(await scene.store(), { ...begin, leaseMs: shortMs }));
      assert.equal(expectKind(answer, "started").attempt, 1);
    }),

    contractCase("the same begin, sent twice at once on one handle and on two, returns its first answer", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const begin = beginOf();
      const answers = await Promise.all([store, store, other, other].map((handle) => send(handle, begin)));
      for (const answer of answers) assert.equal(expectKind(answer, "started").attempt, 1);
      assert.equal((await scene.record(begin)).rev, 1);
    }),

    contractCase("the same begin, sent again after a takeover, returns its first answer", async (scene) => {
      await scene.dieAndLapse(beginOf());
      const store = await scene.store();
      const begin = beginOf();
      const first = expectKind(await send(store, begin), "started");
      assert.deepEqual(await scene.unchanged(begin, () => send(store, begin)), first);
      assert.equal((await store.attempts({ ...begin, afterAttempt: 0, limit: 10 })).length, 1);
    }),

    contractCase("the same settle, sent again by the same owner, succeeds again", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const [i, to] of ways.entries()) {
        const held = await start(store, beginOf({ key: `way ${i}` }));
        expectKind(await send(store, settleOf(held, to, "note")), "settled");
        for (const handle of [store, other])
          expectKind(await scene.unchanged(idOf(held), () => send(handle, settleOf(held, to, "note"))), "settled");
      }
    }),

    contractCase("the same resolve, sent again by the same owner, succeeds again; another person's resolve does not", async (scene) => {
      const store = await scene.store();
      for (const to of [completed("found"), failed, free]) {
        const held = await startAndSettle(store, beginOf({ key: to.state, effect: "atMostOnce" }), unknown);
        const resolve = resolveOf(held, to);
        expectKind(await send(store, resolve), "settled");
        expectKind(await scene.unchanged(idOf(held), () => send(store, resolve)), "settled");
        expectKind(await scene.unchanged(idOf(held), () => send(store, resolveOf(held, to))), "stale");
      }
    }),

    contractCase("a begin sent again after its attempt was settled returns the outcome", async (scene) => {
      const store = await scene.store();
      const held = await startAndSettle(store, beginOf(), completed("done"));
      expectKind(await scene.unchanged(idOf(held), () => send(store, held.begin)), "replay");
    }),

    contractCase(
      "connections lost at any moment: every key runs once and keeps its outcome",
      async (scene) => {
        const [store, other] = [await scene.store(), await scene.open()];
        const calls = new Map<string, number>();
        const keys = Array.from({ length: 40 }, (_, i) => `key ${i}`);
        const asked = keys.flatMap((key) => [store, other].map((handle) => ({ key, handle })));
        const all = Promise.all(
          asked.map(async ({ key, handle }, i) => {
            await scene.pass(i * 4);
            return await once(handle, { key, leaseMs: Math.max(5000, 20 * scene.leaseMs) }, async () => {
              calls.set(key, (calls.get(key) ?? 0) + 1);
              await scene.pass(10);
              return key;
            });
          }),
        );
        for (let i = 0; i < 12; i++) {
          await scene.pass(25);
          await scene.sever();
        }
        for (const [i, { value }] of (await all).entries()) assert.equal(value, asked[i]?.key);
        for (const key of keys) {
          const { state, attempt } = await scene.record({ scope: "", key });
          assert.deepEqual([state, attempt, calls.get(key)], ["completed", 1, 1], key);
        }
      },
      needsConnections,
    ),
  ],
};
