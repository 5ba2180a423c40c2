import assert from "node:assert/strict";
import type { Answer } from "../../../core/ledger/operation.js";
import { type ContractGroup, contractCase } from "../contract-case.js";
import {
  beginOf,
  completed,
  countKinds,
  free,
  type Held,
  idOf,
  renewOf,
  resolveOf,
  send,
  settleOf,
  start,
  startAndSettle,
} from "./operations.js";
import { type Scene, shortMs } from "./scene.js";

const rounds = 16;
const keys = Array.from({ length: rounds }, (_, i) => `round ${i}`);

/** Rotates the items, so that each round starts with a different one. */
function shuffled<T>(items: readonly T[], round: number): T[] {
  return items.map((_, i) => items[(i * 5 + round) % items.length] as T);
}

async function lapsed(scene: Scene, effect: "idempotent" | "atMostOnce"): Promise<Held[]> {
  const held = await scene.die(...keys.map((key) => beginOf({ key, effect, leaseMs: shortMs })));
  for (const one of held) await scene.lapse(one.begin);
  return held;
}

export const race: ContractGroup = {
  verb: "race",
  cases: [
    contractCase("settle, renewal and takeover of a lapsed attempt at once have one consistent result", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const held = await lapsed(scene, "idempotent");
      await Promise.all(
        held.map(async (late, round) => {
          const contenders = [
            { handle: store, operation: settleOf(late, completed("late owner")) },
            { handle: other, operation: renewOf(late) },
            { handle: other, operation: beginOf({ key: late.begin.key }) },
            { handle: store, operation: beginOf({ key: late.begin.key }) },
          ];
          const answers = new Map<(typeof contenders)[number], Answer>();
          await Promise.all(
            shuffled(contenders, round).map(async (contender) => {
              answers.set(contender, await send(contender.handle, contender.operation));
            }),
          );
          const [settled, renewed, ...begins] = contenders.map((contender) => answers.get(contender) as Answer);
          const { started = 0 } = countKinds(begins);
          const record = await scene.record(idOf(late));
          if (settled?.kind === "settled") {
            assert.deepEqual([started, record.state, record.attempt, record.outcome], [0, "completed", 1, '"late owner"']);
          } else {
            assert.deepEqual([settled?.kind, started, record.state, record.attempt], ["stale", 1, "running", 2]);
            // If the renewal had come first, there would have been no takeover.
            assert.equal(renewed?.kind, "stale");
          }
        }),
      );
    }),

    contractCase("late settle and resolve of an unknown attempt: one of them counts", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      const held = await lapsed(scene, "atMostOnce");
      await Promise.all(
        held.map(async (late, round) => {
          const [first, second] = round % 2 === 0 ? [store, other] : [other, store];
          const [settled, resolved, begun] = await Promise.all([
            send(first, settleOf(late, completed("late owner"))),
            send(second, resolveOf(late, completed("by hand"))),
            send(first, beginOf({ key: late.begin.key, effect: "atMostOnce" })),
          ]);
          assert.deepEqual([settled.kind, resolved.kind].sort(), ["settled", "stale"]);
          assert.ok(begun.kind === "replay" || begun.kind === "unknown");
          const { outcome, attempt, state } = await scene.record(idOf(late));
          assert.deepEqual([outcome, attempt, state], [settled.kind === "settled" ? '"late owner"' : '"by hand"', 1, "completed"]);
        }),
      );
    }),

    contractCase("completing and freeing at once, from two handles: one of them counts", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await Promise.all(
        keys.map(async (key) => {
          const held = await start(store, beginOf({ key }));
          const [done, freed] = await Promise.all([send(store, settleOf(held, completed(1))), send(other, settleOf(held, free))]);
          assert.deepEqual([done.kind, freed.kind].sort(), ["settled", "stale"]);
          assert.equal((await scene.record({ scope: "", key })).state, done.kind === "settled" ? "completed" : "free");
        }),
      );
    }),

    contractCase("attempts never go back, and the log has every one of them", async (scene) => {
      const stores = [await scene.store(), await scene.open()];
      const id = idOf({ begin: beginOf(), attempt: 1 });
      let working = true;
      let seen = 0;
      const watching = (async () => {
        while (working) {
          const record = (await stores[0]?.read(id))?.record;
          assert.ok((record?.attempt ?? 0) >= seen, "the attempt went back");
          seen = record?.attempt ?? 0;
          await scene.pass(1);
        }
      })();
      await Promise.all(
        stores.flatMap((store) =>
          Array.from({ length: 4 }, async () => {
            for (let i = 0; i < 8; i++) {
              const begin = beginOf();
              const answer = await send(store, begin);
              if (answer.kind === "started") await send(store, settleOf({ begin, attempt: answer.attempt }, free));
            }
          }),
        ),
      ).finally(() => {
        working = false;
      });
      await watching;
      const { attempt } = await scene.record(id);
      const log = await stores[0]?.attempts({ ...id, afterAttempt: 0, limit: 1000 });
      assert.deepEqual(
        log?.map((entry) => entry.attempt),
        Array.from({ length: attempt - 1 }, (_, i) => i + 1),
      );
    }),

    contractCase("two handles that commit the same keys in opposite orders do not deadlock", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (let round = 0; round < 4; round++) {
        const answers = await Promise.all([
          ...keys.map((key) => send(store, beginOf({ key }))),
          ...keys.toReversed().map((key) => send(other, beginOf({ key }))),
        ]);
        assert.deepEqual(countKinds(answers), { started: rounds, running: rounds });
        await Promise.all(
          keys.map(async (key) => {
            const { owner, attempt } = await scene.record({ scope: "", key });
            assert.equal(attempt, round + 1);
            await send(round % 2 === 0 ? store : other, settleOf({ begin: beginOf({ key, owner }), attempt }, free));
          }),
        );
      }
    }),

    contractCase("many keys, each begun and completed, on two handles at once", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await Promise.all(keys.map((key, i) => startAndSettle(i % 2 === 0 ? store : other, beginOf({ key }), completed(key))));
      for (const key of keys) assert.equal((await scene.record({ scope: "", key })).outcome, JSON.stringify(key));
    }),
  ],
};
