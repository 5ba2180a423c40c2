import assert from "node:assert/strict";
import { type ContractGroup, contractCase } from "../contract-case.js";
import {
  beginOf,
  completed,
  expectKind,
  failed,
  free,
  idOf,
  progressOf,
  renewOf,
  resolveOf,
  send,
  settle,
  settleOf,
  start,
  startAndSettle,
  unknown,
} from "./operations.js";

export const progress: ContractGroup = {
  verb: "progress",
  cases: [
    contractCase("a begin stores its first progress, and returns it when the begin is sent again", async (scene) => {
      const store = await scene.store();
      const begin = beginOf({ progress: "first" });
      assert.equal(expectKind(await send(store, begin), "started").progress, "first");
      assert.equal(expectKind(await send(store, begin), "started").progress, "first");
      assert.equal((await scene.record(begin)).progress, "first");
    }),

    contractCase("a renewal with progress replaces the stored progress; a renewal without progress keeps it", async (scene) => {
      const store = await scene.store();
      const held = await start(store, beginOf({ progress: "first" }));
      expectKind(await send(store, progressOf(held, "second")), "renewed");
      assert.equal((await scene.record(held.begin)).progress, "second");
      expectKind(await send(store, renewOf(held)), "renewed");
      assert.equal((await scene.record(held.begin)).progress, "second");
    }),

    contractCase("the caller that takes over a dead attempt gets its progress", async (scene) => {
      const store = await scene.store();
      const held = await scene.dieAndLapse(beginOf({ progress: "first" }));
      expectKind(await send(store, { ...progressOf(held, "far"), leaseMs: 1 }), "renewed");
      await scene.lapse(held.begin);
      const next = expectKind(await send(store, beginOf({ progress: "from the beginning" })), "started");
      assert.deepEqual([next.attempt, next.progress], [2, "far"]);
      expectKind(await scene.unchanged(idOf(held), () => send(store, progressOf(held, "too late"))), "stale");
    }),

    contractCase("the caller that takes over an attempt without progress stores its own", async (scene) => {
      const store = await scene.store();
      await scene.dieAndLapse(beginOf());
      assert.equal(expectKind(await send(store, beginOf({ progress: "mine" })), "started").progress, "mine");
    }),

    contractCase("a settled key has no progress, and neither has the attempt that begins after it", async (scene) => {
      const store = await scene.store();
      for (const [key, to] of Object.entries({ done: completed(1), refused: failed, released: free })) {
        const held = await start(store, beginOf({ key, progress: "first" }));
        expectKind(await send(store, progressOf(held, "second")), "renewed");
        await settle(store, held, to);
        assert.equal((await scene.record(held.begin)).progress, null, key);
      }
      assert.equal(expectKind(await send(store, beginOf({ key: "released", progress: "anew" })), "started").progress, "anew");
    }),

    contractCase("an attempt in doubt keeps its progress until it is resolved", async (scene) => {
      const store = await scene.store();
      const held = await start(store, beginOf({ effect: "atMostOnce", progress: "first" }));
      expectKind(await send(store, progressOf(held, "half")), "renewed");
      await settle(store, held, unknown);
      assert.equal((await scene.record(held.begin)).progress, "half");
      expectKind(await send(store, resolveOf(held, completed("found"))), "settled");
      assert.equal((await scene.record(held.begin)).progress, null);
    }),

    contractCase("progress of any characters, and of half a megabyte or a clear error", async (scene) => {
      const store = await scene.store();
      const text = `{"ключ":"\u2028 \\u0000 '\\"$1 ? {}"}`;
      const held = await start(store, beginOf({ progress: text }));
      assert.equal((await scene.record(held.begin)).progress, text);
      const long = JSON.stringify("x".repeat(500_000));
      const answer = await send(store, progressOf(held, long)).catch((error: Error) => error);
      if (answer instanceof Error) assert.match(answer.message, /^\[onceflow\]/);
      assert.equal((await scene.record(held.begin)).progress, answer instanceof Error ? text : long);
      expectKind(await send(store, settleOf(held, completed(1))), "settled");
    }),

    contractCase("erase removes an outcome and keeps the attempt number", async (scene) => {
      const store = await scene.store();
      for (const [key, to] of Object.entries({ done: completed("secret"), refused: failed })) {
        const held = await startAndSettle(store, beginOf({ key, fingerprint: "one" }), to);
        expectKind(await send(store, resolveOf(held, free)), "stale");
        expectKind(await send(store, { ...resolveOf(held, { ...free, forget: true }), erase: true }), "settled");
        const record = await scene.record(held.begin);
        assert.deepEqual([record.state, record.outcome, record.fingerprint], ["free", null, null]);
        assert.equal(expectKind(await send(store, beginOf({ key, fingerprint: "another" })), "started").attempt, 2);
      }
    }),

    contractCase("erase changes nothing on a running key, or when it names another attempt", async (scene) => {
      const store = await scene.store();
      const held = await start(store, beginOf());
      const erase = { ...resolveOf(held, free), erase: true } as const;
      expectKind(await scene.unchanged(idOf(held), () => send(store, erase)), "stale");
      await settle(store, held, completed(1));
      expectKind(await scene.unchanged(idOf(held), () => send(store, { ...erase, attempt: 2 })), "stale");
    }),
  ],
};
