import assert from "node:assert/strict";
import type { Answer, Begin } from "../../../core/ledger/operation.js";
import type { Store } from "../../../core/store/store.js";
import { type ContractGroup, contractCase } from "../contract-case.js";
import { beginOf, completed, countKinds, dayMs, expectKind, free, membersOf, send, settle, start, startAndSettle } from "./operations.js";

const crowd = 50;

function all(stores: readonly Store[], fields: Partial<Begin> = {}): Promise<Answer[]> {
  return Promise.all(Array.from({ length: crowd }, (_, i) => send(stores[i % stores.length] as Store, beginOf(fields))));
}

/** One caller started the attempt with this number; all others got "running" with the same number. */
function expectOneWinner(answers: readonly Answer[], attempt: number): void {
  assert.deepEqual(countKinds(answers), { started: 1, running: crowd - 1 });
  for (const answer of answers) assert.equal("attempt" in answer && answer.attempt, attempt);
}

export const begin: ContractGroup = {
  verb: "begin",
  cases: [
    contractCase("one winner among 50 on a fresh key, on one handle", async (scene) => {
      expectOneWinner(await all([await scene.store()]), 1);
    }),

    contractCase("one winner among 50 on a fresh key, across two handles", async (scene) => {
      expectOneWinner(await all([await scene.store(), await scene.open()]), 1);
    }),

    contractCase("one winner among 50 on a free key, on one handle", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf(), free);
      expectOneWinner(await all([store]), 2);
    }),

    contractCase("one winner among 50 on a free key, across two handles", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf(), free);
      expectOneWinner(await all([store, await scene.open()]), 2);
    }),

    contractCase("one winner among 50 on a lapsed key, on one handle", async (scene) => {
      await scene.dieAndLapse(beginOf());
      expectOneWinner(await all([await scene.store()]), 2);
    }),

    contractCase("one winner among 50 on a lapsed key, across two handles", async (scene) => {
      await scene.dieAndLapse(beginOf());
      expectOneWinner(await all([await scene.store(), await scene.open()]), 2);
    }),

    contractCase("one winner among 50 on a key past its horizon, across two handles", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf({ retentionMs: 0, horizonMs: 0 }), completed("old"));
      expectOneWinner(await all([store, await scene.open()]), 2);
    }),

    contractCase("many rounds across three handles: the winners have the attempt numbers 1, 2, 3 …", async (scene) => {
      const stores = [await scene.store(), await scene.open(), await scene.open()];
      const won: number[] = [];
      await Promise.all(
        Array.from({ length: 9 }, async (_, worker) => {
          const store = stores[worker % stores.length] as Store;
          for (let round = 0; round < 8; round++) {
            const begin = beginOf();
            const answer = await send(store, begin);
            if (answer.kind !== "started") continue;
            won.push(answer.attempt);
            await settle(store, { begin, attempt: answer.attempt }, free);
          }
        }),
      );
      assert.deepEqual(
        won.sort((a, b) => a - b),
        won.map((_, i) => i + 1),
      );
      assert.equal((await scene.record(beginOf())).attempt, won.length);
    }),

    contractCase("the winner gets its attempt number, its start time and the end of its lease", async (scene) => {
      const store = await scene.store();
      const begin = beginOf({ leaseMs: 5000 });
      const { attempt, startedAt, leaseUntil } = expectKind(await send(store, begin), "started");
      assert.equal(attempt, 1);
      assert.equal(leaseUntil - startedAt, 5000);
      const record = await scene.record(begin);
      assert.deepEqual([record.state, record.owner, record.startedAt, record.leaseUntil], ["running", begin.owner, startedAt, leaseUntil]);
    }),

    contractCase("the second caller gets the remaining time of the lease", async (scene) => {
      const store = await scene.store();
      await start(store, beginOf({ leaseMs: dayMs }));
      const { forMs, attempt } = expectKind(await send(await scene.open(), beginOf({ leaseMs: 50 })), "running");
      assert.equal(attempt, 1);
      assert.ok(forMs > dayMs - 60_000 && forMs <= dayMs, `${forMs} ms`);
    }),

    contractCase("a completed key is replayed to every caller, and a replay writes nothing", async (scene) => {
      const store = await scene.store();
      const held = await startAndSettle(store, beginOf(), completed({ paid: 7 }));
      const before = await scene.record(held.begin);
      const answers = await all([store, await scene.open()]);
      assert.deepEqual(countKinds(answers), { replay: crowd });
      for (const answer of answers) assert.deepEqual(membersOf(expectKind(answer, "replay").record), before);
      assert.deepEqual(await scene.record(held.begin), before);
    }),
  ],
};
