import assert from "node:assert/strict";
import { type Clock, systemClock } from "../../core/work/clock.js";
import { type ContractGroup, contractCase, needsDurability, type Skip } from "./contract-case.js";
import { once } from "./ledger/once.js";
import { beginOf, completed, dayMs, expectCode, expectKind, send, settle, settleOf, start, startAndSettle } from "./ledger/operations.js";

/** The clock of a process that is wrong by `ms`. */
export const wrongBy = (ms: number): Clock => ({ ...systemClock, now: () => systemClock.now() + ms });

export const needsSharedClock: Skip = ({ name, capabilities }) =>
  capabilities.sharedClock ? undefined : `${name} does not have the capability "sharedClock"`;

export const opening: ContractGroup = {
  verb: "open",
  cases: [
    contractCase(
      "several handles opened at once on a database that is still empty all work",
      async (scene) => {
        const stores = await Promise.all(Array.from({ length: 4 }, () => scene.open()));
        const answers = await Promise.all(stores.map((store) => send(store, beginOf())));
        assert.equal(answers.filter(({ kind }) => kind === "started").length, 1);
        for (const store of stores) expectKind(await send(store, beginOf()), "running");
      },
      undefined,
      { unopened: true },
    ),

    contractCase("every handle declares the same capabilities as its target", async (scene) => {
      assert.deepEqual((await scene.store()).capabilities, scene.target.capabilities);
      assert.deepEqual((await scene.open()).capabilities, scene.target.capabilities);
    }),

    contractCase(
      "data written by one handle is there after it is closed and another one is opened",
      async (scene) => {
        const first = await scene.open();
        await startAndSettle(first, beginOf(), completed("durable"));
        await first.close();
        const { record } = expectKind(await send(await scene.open(), beginOf()), "replay");
        assert.equal(record.outcome, '"durable"');
      },
      needsDurability,
    ),

    contractCase("close waits for operations in flight and refuses later ones", async (scene) => {
      const store = await scene.open();
      const held = await start(store, beginOf());
      const settling = settle(store, held, completed("just in time"));
      const closing = store.close();
      assert.equal(store.closed, true);
      await expectCode(send(store, beginOf()), "STORE_UNREACHABLE");
      await Promise.all([settling, closing, store.close()]);
      assert.equal((await scene.record(held.begin)).outcome, '"just in time"');
    }),

    contractCase(
      "a caller whose clock is a day off neither takes over too early nor too late",
      async (scene) => {
        const [store, ahead, behind] = [
          await scene.store(),
          await scene.open({ clock: wrongBy(dayMs) }),
          await scene.open({ clock: wrongBy(-dayMs) }),
        ];
        const held = await start(store, beginOf({ leaseMs: 60_000 }));
        for (const wrong of [ahead, behind]) {
          const { forMs } = expectKind(await send(wrong, beginOf()), "running");
          assert.ok(forMs > 0 && forMs <= 60_000, `${forMs} ms`);
        }
        const { startedAt } = await scene.record(held.begin);
        for (const [i, wrong] of [ahead, behind].entries()) {
          const begin = beginOf({ key: `wrong ${i}` });
          await startAndSettle(wrong, begin, completed(i));
          const record = await scene.record(begin);
          assert.ok(Math.abs(record.startedAt - startedAt) < 60_000 && Math.abs((record.settledAt ?? 0) - startedAt) < 60_000);
          expectKind(await send(store, beginOf({ key: `wrong ${i}` })), "replay");
        }
        const dead = await scene.dieAndLapse(beginOf({ key: "dead" }));
        assert.equal((await start(behind, beginOf({ key: "dead" }))).attempt, 2);
        expectKind(await send(ahead, settleOf(dead, completed("late"))), "stale");
        assert.equal((await once(ahead, { key: "kept", retentionMs: 3_600_000 }, async () => 1)).status, "executed");
        assert.equal((await once(behind, { key: "kept" }, async () => 2)).value, 1);
      },
      needsSharedClock,
    ),
  ],
};
