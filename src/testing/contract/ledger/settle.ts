import assert from "node:assert/strict";
import type { Settlement } from "../../../core/ledger/operation.js";
import { type ContractGroup, contractCase } from "../contract-case.js";
import {
  beginOf,
  completed,
  expectKind,
  failed,
  free,
  type Held,
  idOf,
  membersOf,
  newOwner,
  renewOf,
  send,
  settle,
  settleOf,
  start,
  startAndSettle,
  unknown,
} from "./operations.js";
import type { Scene } from "./scene.js";

const ways: readonly Settlement[] = [completed("late"), failed, free, { state: "free", forget: true }, unknown];

/** Every write that the owner of an attempt can make. */
async function expectFenced(scene: Scene, held: Held, id = idOf(held)): Promise<void> {
  const store = await scene.store();
  for (const to of ways) {
    const answer = await scene.unchanged(id, () => send(store, settleOf(held, to)));
    const { record } = expectKind(answer, "stale");
    assert.deepEqual(record && membersOf(record), await scene.record(id));
  }
  expectKind(await scene.unchanged(id, () => send(store, renewOf(held))), "stale");
}

export const settling: ContractGroup = {
  verb: "settle",
  cases: [
    contractCase("an owner that was taken over can neither settle, renew nor free the key", async (scene) => {
      const store = await scene.store();
      const late = await scene.dieAndLapse(beginOf());
      const taker = await start(store, beginOf());
      await expectFenced(scene, late);
      await settle(store, taker, completed("taken over"));
      await expectFenced(scene, late);
      assert.equal((await scene.record(late.begin)).outcome, '"taken over"');
    }),

    contractCase("a caller that never owned the attempt can neither settle, renew nor free it", async (scene) => {
      const held = await start(await scene.store(), beginOf());
      await expectFenced(scene, { ...held, begin: { ...held.begin, owner: newOwner() } });
    }),

    contractCase("the owner with the number of another attempt can neither settle, renew nor free the key", async (scene) => {
      const held = await start(await scene.store(), beginOf());
      for (const attempt of [0, 2]) await expectFenced(scene, { ...held, attempt });
    }),

    contractCase("an owner that has freed the key can no longer settle or renew it", async (scene) => {
      const store = await scene.store();
      const held = await startAndSettle(store, beginOf(), free);
      for (const to of [completed("late"), failed, unknown])
        expectKind(await scene.unchanged(idOf(held), () => send(store, settleOf(held, to))), "stale");
      expectKind(await scene.unchanged(idOf(held), () => send(store, renewOf(held))), "stale");
    }),

    contractCase("a late failing owner cannot reopen what another attempt completed", async (scene) => {
      const store = await scene.store();
      const late = await scene.dieAndLapse(beginOf());
      await startAndSettle(store, beginOf(), completed("second"));
      for (const to of [free, failed, unknown])
        expectKind(await scene.unchanged(idOf(late), () => send(store, settleOf(late, to, "Error"))), "stale");
      expectKind(await send(store, beginOf()), "replay");
    }),

    contractCase("a failing owner cannot reopen what it completed itself", async (scene) => {
      const store = await scene.store();
      const held = await startAndSettle(store, beginOf(), completed("done"));
      for (const to of [free, failed, unknown])
        expectKind(await scene.unchanged(idOf(held), () => send(store, settleOf(held, to, "Error"))), "stale");
    }),

    contractCase("a second completion by the same owner does not replace the outcome", async (scene) => {
      const store = await scene.store();
      const held = await startAndSettle(store, beginOf(), completed("first"));
      await scene.unchanged(idOf(held), () => send(store, settleOf(held, completed("second"))));
    }),

    contractCase("a late owner that was not taken over may settle", async (scene) => {
      const store = await scene.store();
      const held = await scene.dieAndLapse(beginOf());
      await settle(store, held, completed("late but first"));
      expectKind(await send(store, beginOf()), "replay");
    }),

    contractCase("without a record, settle and renew are refused and create none", async (scene) => {
      const store = await scene.store();
      const neverStarted = { begin: beginOf(), attempt: 1 };
      for (const to of ways) assert.equal(expectKind(await send(store, settleOf(neverStarted, to)), "stale").record, undefined);
      assert.equal(expectKind(await send(store, renewOf(neverStarted)), "stale").record, undefined);
      assert.equal(await store.read(neverStarted.begin), undefined);
    }),

    contractCase("a settled record has its time, owner, outcome and expiry", async (scene) => {
      const store = await scene.store();
      const held = await start(store, beginOf({ retentionMs: 1000, horizonMs: 500 }));
      await settle(store, held, failed, "TypeError");
      const { state, owner, settledAt, expiresAt, goneAt, verdict, note, outcome } = await scene.record(held.begin);
      assert.deepEqual([state, owner, verdict, note, outcome], ["failed", held.begin.owner, "failed", "TypeError", failed.outcome]);
      assert.ok(settledAt !== null);
      assert.deepEqual([expiresAt, goneAt], [settledAt + 1000, settledAt + 1500]);
    }),
  ],
};
