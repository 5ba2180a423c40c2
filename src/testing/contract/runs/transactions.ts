import assert from "node:assert/strict";
import type { Append, RunAnswer } from "../../../core/runs/operation.js";
import type { Store, Tx, TxRunner } from "../../../core/store/store.js";
import { type ContractGroup, needsTransactions } from "../contract-case.js";
import type { Scene } from "../ledger/scene.js";
import { eventsOf, picture, runCase, takenOver, unchanged } from "./run-case.js";
import {
  append,
  appendOf,
  begin,
  claimedIds,
  ended,
  expectAnswer,
  hookOf,
  numbers,
  post,
  released,
  runOf,
  startOf,
  submit,
} from "./run-operations.js";

/** Each case twice: in a transaction of the store, and in one of the application. */
function bothWays(name: string, play: (scene: Scene, transact: (store: Store) => TxRunner) => Promise<void>) {
  return [
    runCase(`${name} (tx: true)`, (scene) => play(scene, (store) => (work) => store.transact(work)), needsTransactions),
    runCase(`${name} (tx: runner)`, (scene) => play(scene, () => scene.business.runner), needsTransactions),
  ];
}

/** Writes a business row and a journal entry in the same transaction. */
async function write(scene: Scene, { store, tx }: { readonly store: Store; readonly tx: Tx }, asked: Append): Promise<RunAnswer> {
  const { runs } = store;
  assert.ok(runs.appendWithin, "a store with transactions can append within one");
  await scene.business.add(tx, `row of ${asked.id}`);
  return await runs.appendWithin(tx, asked);
}

export const transacting: ContractGroup = {
  verb: "transaction",
  cases: [
    ...bothWays(
      "chunks of an entry, bytes and values, are there when the transaction is committed, and only then",
      async (scene, transact) => {
        const store = await scene.store();
        const owned = await begin(store);
        const named = { stream: "default", writer: "run", attempt: 1 } as const;
        const bytes = new Uint8Array([0, 1, 255]);
        const chunks = [
          { ...named, n: 0, kind: "value", data: '"value"' } as const,
          { ...named, n: 1, kind: "bytes", data: bytes } as const,
        ];
        const seen = () => store.runs.chunks({ run: "run", stream: "default", from: 0, limit: 10, bytesMax: 1000 });
        const rolledBack = transact(store)(async (tx) => {
          expectAnswer(await write(scene, { store, tx }, appendOf(owned, { chunks })), "appended");
          throw new Error("rolled back");
        });
        await assert.rejects(rolledBack, /rolled back/);
        assert.deepEqual(await seen(), []);
        const voids = [{ writer: "step#0", attempt: 2 }];
        expectAnswer(await transact(store)((tx) => write(scene, { store, tx }, appendOf(owned, { chunks, voids }))), "appended");
        assert.deepEqual(
          (await seen()).map(({ index, kind, data }) => [index, kind, data]),
          [
            [0, "value", '"value"'],
            [1, "bytes", bytes],
          ],
        );
      },
    ),

    ...bothWays("an entry commits together with the user's rows, and with all that belongs to it", async (scene, transact) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await begin(store, { id: "parent" });
      const owned = await begin(store, { parent: "parent" });
      await post(store);
      const children = [startOf({ id: "child", parent: "run" })];
      const asked = appendOf(owned, { events: "within", consumed: 1, hooks: [hookOf("token")], children });
      const answer = await transact(store)((tx) => write(scene, { store, tx }, asked));
      assert.deepEqual(expectAnswer(answer, "appended").conflicts, []);
      assert.deepEqual(await scene.business.rows(), ["row of run"]);
      const { run, journal, hooks } = await picture(other, "run");
      assert.deepEqual([run?.consumed, run?.owner, journal[1]?.events, hooks[0]?.token], [1, owned.owner, "within", "token"]);
      assert.equal((await runOf(other, "child")).parent, "run");
      const last = appendOf({ ...owned, seq: 2 }, { next: ended("completed", "out") });
      expectAnswer(await transact(store)((tx) => write(scene, { store, tx }, last)), "appended");
      assert.deepEqual([(await runOf(other)).status, (await runOf(other)).output], ["completed", "out"]);
      assert.equal(await other.runs.hook("token"), undefined);
      assert.equal((await other.runs.mail("parent", 0))[0]?.about, "run");
    }),

    ...bothWays("a transaction that is rolled back leaves nothing of the entry", async (scene, transact) => {
      const store = await scene.store();
      await begin(store, { id: "parent" });
      const owned = await begin(store, { parent: "parent" });
      const asked = appendOf(owned, { hooks: [hookOf("token")], children: [startOf({ id: "child", parent: "run" })], next: ended() });
      await unchanged(store, ["run", "parent", "child"], () =>
        assert.rejects(
          transact(store)(async (tx) => {
            expectAnswer(await write(scene, { store, tx }, asked), "appended");
            throw new Error("changed my mind");
          }),
          /changed my mind/,
        ),
      );
      assert.equal(await store.runs.hook("token"), undefined);
      assert.deepEqual(await scene.business.rows(), []);
      await append(store, owned);
    }),

    ...bothWays('an overtaken owner gets "overtaken" inside the transaction, and can roll its rows back', async (scene, transact) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const { late, next } = await takenOver(scene, store);
      await append(other, next, { events: "fence" });
      const asked = appendOf(late, { hooks: [hookOf("token")], next: ended() });
      await unchanged(store, ["run"], () =>
        assert.rejects(
          transact(store)(async (tx) => {
            const { kind } = await write(scene, { store, tx }, asked);
            if (kind !== "appended") throw new Error(`answered ${kind}`);
          }),
          /answered overtaken/,
        ),
      );
      assert.deepEqual(await scene.business.rows(), []);
      assert.equal(await store.runs.hook("token"), undefined);
    }),

    ...bothWays("a refusal changes nothing, also when the transaction is committed after it", async (scene, transact) => {
      const store = await scene.store();
      const { late, next } = await takenOver(scene, store);
      await append(store, next, { events: "fence" });
      await unchanged(store, ["run"], () =>
        transact(store)(async (tx) => expectAnswer(await write(scene, { store, tx }, appendOf(late, { next: ended() })), "overtaken")),
      );
      assert.deepEqual(await scene.business.rows(), ["row of run"]);
    }),

    ...bothWays("the same entry again, after a commit whose reply was lost, is recognised inside and outside", async (scene, transact) => {
      const store = await scene.store();
      const asked = appendOf(await begin(store), { next: released() });
      await transact(store)((tx) => write(scene, { store, tx }, asked));
      await unchanged(store, ["run"], async () => {
        expectAnswer(await transact(store)((tx) => write(scene, { store, tx }, asked)), "appended");
        expectAnswer(await submit(store, asked), "appended");
      });
      assert.equal((await eventsOf(store, "run")).length, 2);
    }),

    ...bothWays("a token of another run is reported as a conflict inside the transaction", async (scene, transact) => {
      const store = await scene.store();
      await append(store, await begin(store, { id: "first" }), { hooks: [hookOf("token")] });
      const asked = appendOf(await begin(store), { hooks: [hookOf("token"), hookOf("free")] });
      const answer = await transact(store)((tx) => write(scene, { store, tx }, asked));
      assert.deepEqual(expectAnswer(answer, "appended").conflicts, ["token"]);
      assert.deepEqual([(await store.runs.hook("token"))?.run, (await store.runs.hook("free"))?.run], ["first", "run"]);
    }),

    ...bothWays("a released run wakes for mail that it has not taken in", async (scene, transact) => {
      const store = await scene.store();
      const owned = await begin(store);
      await post(store);
      await transact(store)((tx) => write(scene, { store, tx }, appendOf(owned, { next: released() })));
      assert.deepEqual(await claimedIds(store), ["run"]);
    }),

    ...bothWays("while a late owner's transaction is open its successor waits, and finds the entry or none", async (scene, transact) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const commits of [true, false]) {
        const id = commits ? "commits" : "rolls back";
        const { late, next } = await takenOver(scene, store, id);
        let fencing: Promise<RunAnswer> | undefined;
        const outcome = await transact(store)(async (tx) => {
          const answer = await write(scene, { store, tx }, appendOf(late, { events: "late" }));
          fencing = submit(other, appendOf(next, { events: "fence" }));
          fencing.catch(() => {});
          await scene.pass(30);
          if (!commits) throw new Error("rolled back");
          return answer.kind;
        }).catch((error: Error) => error.message);
        assert.equal(outcome, commits ? "appended" : "rolled back");
        assert.ok(fencing);
        expectAnswer(await fencing, commits ? "overtaken" : "appended");
        assert.deepEqual((await eventsOf(store, id)).slice(1), [commits ? "late" : "fence"]);
      }
    }),

    ...bothWays("many at once, beside what others commit", async (scene, transact) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const [within, beside] = await Promise.all(
        ["within", "beside"].map((name) => Promise.all(numbers(8).map((i) => begin(store, { id: `${name} ${i}` })))),
      );
      await Promise.all([
        ...(within ?? []).map((one, i) => {
          const handle = i % 2 === 0 ? store : other;
          return transact(handle)(async (tx) =>
            expectAnswer(await write(scene, { store: handle, tx }, appendOf(one, { next: ended() })), "appended"),
          );
        }),
        ...(beside ?? []).map((one, i) => append(i % 2 === 0 ? store : other, one, { next: ended() })),
      ]);
      assert.equal((await scene.business.rows()).length, 8);
      for (const { id } of [...(within ?? []), ...(beside ?? [])]) assert.equal((await runOf(store, id)).status, "completed");
    }),
  ],
};
