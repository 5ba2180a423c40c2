import assert from "node:assert/strict";
import type { Settlement } from "../../../core/ledger/operation.js";
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
  send,
  settle,
  start,
  startAndSettle,
  unknown,
} from "./operations.js";

const settled: readonly Settlement[] = [completed("theirs"), failed, free, unknown];

export const mismatch: ContractGroup = {
  verb: "mismatch",
  cases: [
    contractCase("another input under a running key is refused, and gets no information about the key", async (scene) => {
      const store = await scene.store();
      const held = await start(store, beginOf({ fingerprint: "a" }));
      const answer = await scene.unchanged(idOf(held), () => send(store, beginOf({ fingerprint: "b" })));
      assert.equal(expectKind(answer, "mismatch").attempt, 1);
    }),

    ...settled.map((to) =>
      contractCase(`another input under a key that is ${to.state} is refused, and its outcome not shown`, async (scene) => {
        const store = await scene.store();
        const held = await startAndSettle(store, beginOf({ fingerprint: "a" }), to);
        const answer = await scene.unchanged(idOf(held), () => send(store, beginOf({ fingerprint: "b" })));
        assert.deepEqual(answer, { kind: "mismatch", attempt: 1 });
      }),
    ),

    contractCase("another input cannot take over a lapsed key", async (scene) => {
      const store = await scene.store();
      const held = await scene.dieAndLapse(beginOf({ fingerprint: "a" }));
      expectKind(await scene.unchanged(idOf(held), () => send(store, beginOf({ fingerprint: "b" }))), "mismatch");
      assert.equal((await start(store, beginOf({ fingerprint: "a" }))).attempt, 2);
    }),

    contractCase("in one turn, each other caller of the key is refused or answered according to its own input", async (scene) => {
      const store = await scene.store();
      const inputs = ["a", "b", "a", null, "b"];
      const answers = await Promise.all(inputs.map((fingerprint) => send(store, beginOf({ fingerprint }))));
      assert.deepEqual(
        answers.map((answer) => answer.kind),
        ["started", "mismatch", "running", "running", "mismatch"],
      );
    }),

    contractCase("without a fingerprint on either side there is nothing to compare", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf({ key: "with", fingerprint: "a" }), completed(1));
      expectKind(await send(store, beginOf({ key: "with" })), "replay");
      await startAndSettle(store, beginOf({ key: "without" }), completed(1));
      expectKind(await send(store, beginOf({ key: "without", fingerprint: "b" })), "replay");
    }),

    contractCase("a key begun without a fingerprint takes the fingerprint of its next attempt", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf(), free);
      await startAndSettle(store, beginOf({ fingerprint: "a" }), free);
      expectKind(await send(store, beginOf({ fingerprint: "b" })), "mismatch");
      await settle(store, await start(store, beginOf()), free);
      expectKind(await send(store, beginOf({ fingerprint: "b" })), "mismatch");
    }),

    contractCase("a key released with forget accepts another input, and its attempt numbers continue", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, beginOf({ fingerprint: "a" }), { state: "free", forget: true });
      assert.equal((await start(store, beginOf({ fingerprint: "b" }))).attempt, 2);
      expectKind(await send(store, beginOf({ fingerprint: "a" })), "mismatch");
    }),

    contractCase("once refuses another input before its handler runs, and before it replays", async (scene) => {
      const store = await scene.store();
      let calls = 0;
      const handler = async () => {
        calls += 1;
        return "done";
      };
      await once(store, { key: "order", input: { amount: 1 } }, handler);
      await expectCode(once(store, { key: "order", input: { amount: 2 } }, handler), "MISMATCH");
      assert.equal((await once(store, { key: "order", input: { amount: 1 } }, handler)).status, "replayed");
      assert.equal((await once(store, { key: "order" }, handler)).status, "replayed");
      assert.equal(calls, 1);
    }),
  ],
};
