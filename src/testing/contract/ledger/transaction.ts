import assert from "node:assert/strict";
import type { OnceOptions } from "../../../core/ledger/options.js";
import type { Attempt } from "../../../core/ledger/run-attempt.js";
import type { Tx } from "../../../core/store/store.js";
import { type ContractGroup, contractCase, needsNoTransactions, needsTransactions } from "../contract-case.js";
import { once } from "./once.js";
import { beginOf, completed, expectCode, expectKind, free, idOf, send, settleOf, start } from "./operations.js";
import type { Scene } from "./scene.js";

const key = "operation";

/** A handler that writes a business row and then calls `then`. */
function writing(scene: Scene, then: () => void = () => {}): (attempt: Attempt) => Promise<string> {
  return async ({ tx, number }) => {
    assert.ok(tx);
    await scene.business.add(tx, `row of attempt ${number}`);
    then();
    return "done";
  };
}

/** Each case twice: in a transaction of the store, and in one of the application. */
function bothWays(name: string, play: (scene: Scene, tx: NonNullable<OnceOptions["tx"]>) => Promise<void>) {
  return [
    contractCase(`${name} (tx: true)`, (scene) => play(scene, true), needsTransactions),
    contractCase(`${name} (tx: runner)`, (scene) => play(scene, scene.business.runner), needsTransactions),
  ];
}

export const transaction: ContractGroup = {
  verb: "transaction",
  cases: [
    ...bothWays("rows and outcome commit together, and a replay writes no rows", async (scene, tx) => {
      const store = await scene.store();
      const first = await once(store, { key, tx }, writing(scene));
      assert.deepEqual([first.status, first.value], ["executed", "done"]);
      assert.deepEqual(await scene.business.rows(), ["row of attempt 1"]);
      const { state, verdict, outcome } = await scene.record({ scope: "", key });
      assert.deepEqual([state, verdict, outcome], ["completed", "completed", '"done"']);
      assert.equal((await once(await scene.open(), { key, tx }, writing(scene))).status, "replayed");
      assert.equal((await scene.business.rows()).length, 1);
    }),

    ...bothWays("a handler that throws leaves neither rows nor an outcome, and the next attempt both", async (scene, tx) => {
      const store = await scene.store();
      const broken = writing(scene, () => {
        throw new RangeError("broken");
      });
      await assert.rejects(once(store, { key, tx }, broken), RangeError);
      assert.deepEqual(await scene.business.rows(), []);
      assert.equal((await scene.record({ scope: "", key })).state, "free");
      const { attempt } = await once(store, { key, tx }, writing(scene));
      assert.equal(attempt, 2);
      assert.deepEqual(await scene.business.rows(), ["row of attempt 2"]);
    }),

    ...bothWays("a result that cannot be kept does not undo the rows", async (scene, tx) => {
      const store = await scene.open({ valueBytesMax: 10 });
      await once(store, { key, tx }, async (attempt) => (await writing(scene)(attempt)).repeat(100));
      assert.equal((await scene.business.rows()).length, 1);
      await expectCode(once(store, { key, tx }, writing(scene)), "RESULT_NOT_KEPT");
    }),

    ...bothWays("many at once: as many rows as keys", async (scene, tx) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const keys = Array.from({ length: 12 }, (_, i) => `key ${i}`);
      const all = keys.flatMap((one) => [store, other].map((handle) => once(handle, { key: one, tx }, writing(scene))));
      const results = await scene.finish(Promise.all(all));
      assert.equal(results.filter(({ status }) => status === "executed").length, keys.length);
      assert.equal((await scene.business.rows()).length, keys.length);
    }),

    contractCase(
      "an owner that was taken over has its rows rolled back",
      async (scene) => {
        const [store, other] = [await scene.store(), await scene.open()];
        const takenOver = once(
          store,
          {
            key,
            async tx(work) {
              // Before the transaction opens, another process frees the key in this owner's name and begins.
              const { owner, attempt } = await scene.record({ scope: "", key });
              expectKind(await send(other, settleOf({ begin: beginOf({ owner }), attempt }, free)), "settled");
              await start(other, beginOf());
              return await scene.business.runner(work);
            },
          },
          writing(scene),
        );
        await expectCode(takenOver, "LEASE_LOST");
        assert.deepEqual(await scene.business.rows(), []);
        const { state, attempt } = await scene.record({ scope: "", key });
        assert.deepEqual([state, attempt], ["running", 2]);
      },
      needsTransactions,
    ),

    contractCase(
      "a settle within a transaction is fenced like any other, and rolled back with the transaction",
      async (scene) => {
        const store = await scene.store();
        const held = await start(store, beginOf());
        const settling = (one: typeof held) => async (tx: Tx) => {
          await scene.business.add(tx, "row");
          const answer = await store.settleWithin(tx, settleOf(one, completed("within")));
          if (answer.kind !== "settled") throw new Error(`answered ${answer.kind}`);
        };
        await assert.rejects(store.transact(settling({ ...held, attempt: 2 })), /answered stale/);
        await assert.rejects(store.transact(settling({ ...held, begin: beginOf() })), /answered stale/);
        const before = await scene.record(held.begin);
        await assert.rejects(
          store.transact(async (tx) => {
            await settling(held)(tx);
            throw new Error("changed my mind");
          }),
          /changed my mind/,
        );
        assert.deepEqual(await scene.record(held.begin), before);
        assert.deepEqual(await scene.business.rows(), []);
        await store.transact(settling(held));
        store.release(held.begin.owner, idOf(held));
        const { state, outcome } = await scene.record(held.begin);
        assert.deepEqual([state, outcome, await scene.business.rows()], ["completed", '"within"', ["row"]]);
      },
      needsTransactions,
    ),

    contractCase(
      "a commit whose reply was lost is recognised: executed, not run again",
      async (scene) => {
        const store = await scene.store();
        const result = await once(
          store,
          {
            key,
            async tx(work) {
              await scene.business.runner(work);
              throw new Error("the reply was lost");
            },
          },
          writing(scene),
        );
        assert.equal(result.status, "executed");
        assert.equal((await once(store, { key }, async () => "again")).status, "replayed");
        assert.deepEqual(await scene.business.rows(), ["row of attempt 1"]);
      },
      needsTransactions,
    ),

    contractCase(
      "a commit that failed frees the key and reaches the caller",
      async (scene) => {
        const store = await scene.store();
        const failing: OnceOptions["tx"] = (work) =>
          scene.business.runner(async (tx) => {
            await work(tx);
            throw new Error("could not commit");
          });
        await assert.rejects(once(store, { key, tx: failing }, writing(scene)), /could not commit/);
        assert.deepEqual(await scene.business.rows(), []);
        assert.equal((await once(store, { key, tx: true }, writing(scene))).attempt, 2);
      },
      needsTransactions,
    ),

    contractCase(
      "a runner that never calls its argument is reported as such",
      async (scene) => {
        const store = await scene.store();
        const idle = (async () => undefined) as unknown as NonNullable<Exclude<OnceOptions["tx"], true>>;
        await expectCode(once(store, { key, tx: idle }, writing(scene)), "INVALID_INPUT");
        assert.equal((await scene.record({ scope: "", key })).state, "free");
      },
      needsTransactions,
    ),

    contractCase(
      "without transactions the option tx is refused by name, and the handler does not run",
      async (scene) => {
        const store = await scene.store();
        await expectCode(
          once(store, { key, tx: true }, async () => assert.fail("it must not run")),
          "MISSING_CAPABILITY",
        );
        assert.equal((await once(store, { key }, async () => "done")).status, "executed");
      },
      needsNoTransactions,
    ),
  ],
};
