import assert from "node:assert/strict";
import type { Settlement } from "../../../core/ledger/operation.js";
import { resolve } from "../../../core/ledger/resolve.js";
import { isReplayed } from "../../../core/values/stored-error.js";
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
  renewOf,
  resolveOf,
  send,
  settle,
  settleOf,
  start,
  startAndSettle,
  unknown,
} from "./operations.js";
import { shortMs } from "./scene.js";

const effect = "atMostOnce";
const settled: readonly Settlement[] = [completed(1), failed, free];
const resolutions = [{ completed: "found" }, { failed: new Error("refused") }, "notApplied"] as const;

export const resolving: ContractGroup = {
  verb: "resolve",
  cases: [
    contractCase("the owner of an attempt that settled as unknown may still settle it", async (scene) => {
      const store = await scene.store();
      for (const to of [completed("known after all"), failed, free]) {
        const held = await startAndSettle(store, beginOf({ key: to.state, effect }), unknown);
        expectKind(await scene.unchanged(idOf(held), () => send(store, renewOf(held))), "stale");
        await settle(store, held, to);
        assert.equal((await scene.record(held.begin)).state, to.state);
      }
    }),

    contractCase("the late owner of a lapsed attempt may still settle it, until a person resolves it", async (scene) => {
      const store = await scene.store();
      const begins = ["early", "late"].map((key) => beginOf({ key, effect, leaseMs: shortMs }));
      const [early, late] = await scene.die(...begins);
      assert.ok(early && late);
      await scene.lapse(late.begin);
      expectKind(await send(store, beginOf({ key: "early", effect })), "unknown");
      await settle(store, early, completed("known after all"));
      expectKind(await send(store, beginOf({ key: "early", effect })), "replay");
      await resolve(store, { key: "late", attempt: 1 }, { completed: "by hand" });
      for (const to of [completed("by its owner"), failed, free, unknown])
        expectKind(await scene.unchanged(idOf(late), () => send(store, settleOf(late, to))), "stale");
      expectKind(await scene.unchanged(idOf(late), () => send(store, renewOf(late))), "stale");
      assert.equal((await once(store, { key: "late", effect }, async () => "again")).value, "by hand");
    }),

    contractCase("completed by hand: replayed to every caller", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf({ key: "found", effect }), unknown);
      await resolve(store, { key: "found", attempt: 1 }, { completed: { id: 7 } });
      const { status, value, attempt } = await once(store, { key: "found", effect }, async () => ({ id: 0 }));
      assert.deepEqual([status, value, attempt], ["replayed", { id: 7 }, 1]);
    }),

    contractCase("failed by hand: thrown to every caller, marked as replayed", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf({ key: "refused", effect }), unknown);
      await resolve(store, { key: "refused", attempt: 1 }, { failed: new RangeError("refused") });
      const error = await once(store, { key: "refused", effect }, async () => assert.fail("it must not run")).catch(
        (thrown: unknown) => thrown,
      );
      assert.ok(error instanceof Error);
      assert.deepEqual([error.name, error.message, isReplayed(error)], ["RangeError", "refused", true]);
    }),

    contractCase("not applied, by hand: the next call runs it as the next attempt", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf({ key: "absent", effect }), unknown);
      await resolve(store, { key: "absent", attempt: 1 }, "notApplied");
      const { status, attempt } = await once(store, { key: "absent", effect }, async () => 1);
      assert.deepEqual([status, attempt], ["executed", 2]);
    }),

    contractCase("resolve names an attempt: with the number of another attempt it changes nothing", async (scene) => {
      const store = await scene.store();
      const first = await startAndSettle(store, beginOf({ effect }), free);
      await startAndSettle(store, beginOf({ effect }), unknown);
      for (const attempt of [1, 3]) {
        const answer = await scene.unchanged(idOf(first), () => send(store, resolveOf({ ...first, attempt }, completed("wrong"))));
        expectKind(answer, "stale");
        await expectCode(resolve(store, { key: first.begin.key, attempt }, "notApplied"), "NOT_UNKNOWN");
      }
    }),

    contractCase("resolve with a number that no attempt had is answered like any other wrong number", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf({ effect }), unknown);
      for (const attempt of [2 ** 31, Number.MAX_SAFE_INTEGER])
        await expectCode(resolve(store, { key: "operation", attempt }, "notApplied"), "NOT_UNKNOWN");
    }),

    contractCase("only an unknown attempt can be resolved: not a running, settled or missing one", async (scene) => {
      const store = await scene.store();
      const running = await start(store, beginOf({ key: "running", effect }));
      const records = [running];
      for (const to of settled) records.push(await startAndSettle(store, beginOf({ key: to.state, effect }), to));
      for (const held of records) {
        for (const outcome of resolutions) await expectCode(resolve(store, { key: held.begin.key, attempt: 1 }, outcome), "NOT_UNKNOWN");
        expectKind(await scene.unchanged(idOf(held), () => send(store, resolveOf(held, free))), "stale");
      }
      await expectCode(resolve(store, { key: "nowhere", attempt: 1 }, "notApplied"), "NOT_UNKNOWN");
      assert.equal(await store.read({ scope: "", key: "nowhere" }), undefined);
    }),

    contractCase('a lapsed attempt that may run again can be resolved, too: a stricter caller got the answer "unknown"', async (scene) => {
      const { begin } = await scene.dieAndLapse(beginOf({ effect: "keyed" }));
      const store = await scene.store();
      assert.equal((await send(store, beginOf({ effect: "atMostOnce" }))).kind, "unknown");
      await resolve(store, { key: begin.key, attempt: 1 }, { completed: 1 });
      assert.equal((await send(store, beginOf({ effect: "atMostOnce" }))).kind, "replay");
    }),

    contractCase("of two people who resolve at once, one is refused because the attempt is settled", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const held = await startAndSettle(store, beginOf({ effect }), unknown);
      const answers = await Promise.all(
        [store, other, store, other].map((handle, i) => send(handle, resolveOf(held, i % 2 === 0 ? completed(i) : free))),
      );
      assert.equal(answers.filter(({ kind }) => kind === "settled").length, 1);
      assert.equal(answers.filter(({ kind }) => kind === "stale").length, 3);
    }),
  ],
};
