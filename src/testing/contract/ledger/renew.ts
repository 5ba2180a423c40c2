import assert from "node:assert/strict";
import { type ContractGroup, contractCase } from "../contract-case.js";
import { once } from "./once.js";
import { beginOf, completed, expectCode, expectKind, free, idOf, renewOf, send, settle, settleOf, start } from "./operations.js";

export const renew: ContractGroup = {
  verb: "renew",
  cases: [
    contractCase("a renewal extends the lease and never shortens it", async (scene) => {
      const store = await scene.store();
      const held = await start(store, beginOf({ leaseMs: 10_000 }));
      const { leaseUntil } = await scene.record(held.begin);
      const longer = expectKind(await send(store, renewOf(held, 60_000)), "renewed");
      assert.ok(longer.leaseUntil >= leaseUntil + 49_000);
      assert.equal(expectKind(await send(store, renewOf(held, 50)), "renewed").leaseUntil, longer.leaseUntil);
      assert.equal((await scene.record(held.begin)).leaseUntil, longer.leaseUntil);
    }),

    contractCase("a late renewal counts if no other owner has taken over", async (scene) => {
      const store = await scene.store();
      const held = await scene.dieAndLapse(beginOf());
      expectKind(await send(store, renewOf(held, 60_000)), "renewed");
      expectKind(await send(store, beginOf()), "running");
    }),

    contractCase("a settled attempt cannot be renewed, and its outcome does not change", async (scene) => {
      const store = await scene.store();
      const held = await start(store, beginOf());
      await settle(store, held, completed("done"));
      expectKind(await scene.unchanged(idOf(held), () => send(store, renewOf(held))), "stale");
    }),

    contractCase("the heartbeat holds the lease while a handler runs for three leases", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const { leaseMs } = scene;
      const id = { scope: "", key: "long" };
      const { status, attempt } = await once(store, { key: id.key, leaseMs }, async ({ startedAt, signal }) => {
        await scene.until("three leases are over", async () => {
          expectKind(await send(other, beginOf(id)), "running");
          await scene.pass(leaseMs / 10);
          return (await scene.reading(id)).now > startedAt.getTime() + 3 * leaseMs;
        });
        assert.equal(signal.aborted, false);
      });
      assert.deepEqual([status, attempt], ["executed", 1]);
      assert.ok(store.metrics.renewed >= 2);
    }),

    contractCase("a handler whose lease is lost is aborted by its signal, and its outcome is refused", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const { leaseMs } = scene;
      const id = { scope: "", key: "lost" };
      let reason: unknown;
      const lost = once(store, { key: id.key, leaseMs }, async ({ signal }) => {
        // Another process frees the key in this owner's name and begins: for this owner this looks like a takeover.
        const { owner, attempt } = await scene.record(id);
        await settle(other, { begin: beginOf({ ...id, owner }), attempt }, free);
        await start(other, beginOf(id));
        await scene.until("the signal aborts", async () => signal.aborted);
        reason = signal.reason;
        return "too late";
      });
      await expectCode(lost, "LEASE_LOST");
      assert.equal((reason as { code?: unknown }).code, "LEASE_LOST");
      const { state, attempt, outcome } = await scene.record(id);
      assert.deepEqual([state, attempt, outcome], ["running", 2, null]);
    }),

    contractCase("a lease that its owner released lapses, although the process lives", async (scene) => {
      const store = await scene.store();
      const held = await start(store, beginOf({ leaseMs: 100 }));
      store.release(held.begin.owner, idOf(held));
      const { leaseUntil } = await scene.record(held.begin);
      await scene.reach(held.begin, leaseUntil + 500);
      assert.equal((await scene.record(held.begin)).leaseUntil, leaseUntil, "the lease was not renewed");
      assert.equal((await start(await scene.open(), beginOf())).attempt, 2);
    }),

    contractCase("the leases of a closed handle lapse, and its late settle is fenced after the takeover", async (scene) => {
      const late = await scene.dieAndLapse(beginOf());
      const store = await scene.store();
      await start(store, beginOf());
      expectKind(await send(store, settleOf(late, completed("late"))), "stale");
    }),
  ],
};
