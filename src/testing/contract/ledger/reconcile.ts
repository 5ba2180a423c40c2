import assert from "node:assert/strict";
import type { Reconciled, ReconcileRequest } from "../../../core/ledger/options.js";
import { type ContractGroup, contractCase } from "../contract-case.js";
import { type Asked, once } from "./once.js";
import { beginOf, countKinds, dayMs, expectKind, free, idOf, send, start, startAndSettle, unknown } from "./operations.js";

const effect = "reconcile";
const begin = (fields = {}) => beginOf({ effect, ...fields });

/** Options of an operation whose `reconcile` gives this answer. */
function asking(answer: Reconciled<string>, asked: ReconcileRequest<string>[] = []): Asked<string, string> {
  const reconcile = async (request: ReconcileRequest<string>) => {
    asked.push(request);
    return answer;
  };
  return { key: "operation", input: "order-1", effect, reconcileAfterMs: 0, reconcile };
}

export const reconcile: ContractGroup = {
  verb: "reconcile",
  cases: [
    contractCase("found: the provider's result becomes the outcome of that attempt, and the handler does not run", async (scene) => {
      const store = await scene.store();
      await scene.dieAndLapse(begin());
      const asked: ReconcileRequest<string>[] = [];
      let calls = 0;
      const result = await once(store, asking({ found: "charge-9" }, asked), async () => {
        calls += 1;
        return "charge-10";
      });
      assert.deepEqual(result, { status: "replayed", value: "charge-9", attempt: 1 });
      assert.equal(calls, 0);
      assert.deepEqual(
        asked.map(({ key, attempt, input }) => [key, attempt, input]),
        [["operation", 1, "order-1"]],
      );
      const { verdict, note } = await scene.record(begin());
      assert.deepEqual([verdict, note], ["resolved", "reconcile"]);
    }),

    contractCase("absent: the handler runs as the next attempt, with the same effect key", async (scene) => {
      const store = await scene.store();
      await scene.dieAndLapse(begin());
      const asked: ReconcileRequest<string>[] = [];
      const result = await once(store, asking("absent", asked), async ({ effectKey, number }) => `${effectKey} ${number}`);
      assert.deepEqual(result, { status: "executed", value: `${asked[0]?.effectKey} 2`, attempt: 2 });
    }),

    contractCase("unknown: the handler does not run, nothing is written, and the next call reconciles again", async (scene) => {
      const store = await scene.store();
      const held = await scene.dieAndLapse(begin());
      const before = await scene.record(held.begin);
      const asked: ReconcileRequest<string>[] = [];
      for (let i = 0; i < 2; i++) {
        const result = await once(store, asking("unknown", asked), async () => assert.fail("it must not run"));
        assert.deepEqual(result, { status: "unknown", attempt: 1 });
      }
      assert.equal(asked.length, 2);
      assert.deepEqual(await scene.record(held.begin), before);
    }),

    contractCase("after a throw the next call reconciles first", async (scene) => {
      const store = await scene.store();
      const asked: ReconcileRequest<string>[] = [];
      await assert.rejects(
        once(store, asking("absent", asked), () => Promise.reject(new Error("timeout"))),
        /timeout/,
      );
      assert.equal(asked.length, 0);
      const result = await once(store, asking("absent", asked), async () => "done");
      assert.deepEqual([result.status, result.attempt, asked.length], ["executed", 2, 1]);
    }),

    contractCase("two callers that find the effect absent at once: one of them runs the handler", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      await scene.dieAndLapse(begin());
      let calls = 0;
      const both = [store, other, store, other].map((handle) =>
        once(handle, asking("absent"), async () => {
          calls += 1;
          return "done";
        }),
      );
      const results = await scene.finish(Promise.all(both));
      assert.equal(calls, 1);
      for (const { value, attempt } of results) assert.deepEqual([value, attempt], ["done", 2]);
      assert.equal(results.filter(({ status }) => status === "executed").length, 1);
    }),

    contractCase("the provider is not asked before the reconcile delay has passed", async (scene) => {
      const store = await scene.store();
      await scene.dieAndLapse(begin({ reconcileAfterMs: dayMs }));
      const asked: ReconcileRequest<string>[] = [];
      const options = { ...asking("absent", asked), onRunning: "return" as const };
      const result = await once(store, options, async () => assert.fail("it must not run"));
      assert.deepEqual(result, { status: "unknown", attempt: 1 });
      assert.equal(asked.length, 0);
      const { reconcileInMs } = expectKind(await send(store, begin()), "unknown");
      assert.ok(reconcileInMs > dayMs - 60_000 && reconcileInMs <= dayMs);
    }),

    contractCase("the longer of two waits counts, and it counts from the end of the lease or of the attempt", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, begin({ reconcileAfterMs: 1000 }), unknown);
      const shorter = expectKind(await send(store, begin({ reconcileAfterMs: 0 })), "unknown").reconcileInMs;
      const longer = expectKind(await send(store, begin({ reconcileAfterMs: dayMs })), "unknown").reconcileInMs;
      assert.ok(shorter <= 1000 && longer > dayMs - 60_000, `${shorter} ${longer}`);
    }),

    contractCase("a begin with over restarts the attempt that it names, and no other", async (scene) => {
      const store = await scene.store();
      const first = await startAndSettle(store, begin(), unknown);
      for (const over of [null, 0, 2, 3]) expectKind(await scene.unchanged(idOf(first), () => send(store, begin({ over }))), "unknown");
      await startAndSettle(store, begin({ over: 1 }), unknown);
      expectKind(await scene.unchanged(idOf(first), () => send(store, begin({ over: 1 }))), "unknown");
      assert.equal((await start(store, begin({ over: 2 }))).attempt, 3);
    }),

    contractCase("a begin with over does not restart a running attempt, or one that may never run again", async (scene) => {
      const store = await scene.store();
      const running = await start(store, begin({ key: "runs" }));
      expectKind(await scene.unchanged(idOf(running), () => send(store, begin({ key: "runs", over: 1 }))), "running");
      const never = await startAndSettle(store, begin({ key: "never", effect: "atMostOnce" }), unknown);
      expectKind(await scene.unchanged(idOf(never), () => send(store, begin({ key: "never", over: 1 }))), "unknown");
      const stricter = await startAndSettle(store, begin({ key: "stricter" }), unknown);
      const asked = () => send(store, begin({ key: "stricter", effect: "atMostOnce", over: 1 }));
      expectKind(await scene.unchanged(idOf(stricter), asked), "unknown");
    }),

    contractCase("a begin with over takes over a lapsed attempt; with another input it is a mismatch", async (scene) => {
      const store = await scene.store();
      await scene.dieAndLapse(begin({ fingerprint: "a" }));
      expectKind(await send(store, begin({ fingerprint: "b", over: 1 })), "mismatch");
      assert.equal((await start(store, begin({ fingerprint: "a", over: 1 }))).attempt, 2);
      const [log] = await store.attempts({ ...begin(), afterAttempt: 0, limit: 10 });
      assert.equal(log?.verdict, "lapsed");
    }),

    contractCase("two begins with over for the same attempt at once, on one handle and on two: one winner", async (scene) => {
      const [store, other] = [await scene.store(), await scene.open()];
      for (const [key, second] of [
        ["one", store],
        ["two", other],
      ] as const) {
        await startAndSettle(store, begin({ key }), unknown);
        const over = () => begin({ key, over: 1 });
        const answers = await Promise.all([send(store, over()), send(second, over()), send(store, over()), send(second, over())]);
        assert.deepEqual(countKinds(answers), { started: 1, running: 3 });
      }
    }),

    contractCase("a free key is begun without reconciling", async (scene) => {
      const store = await scene.store();
      await startAndSettle(store, begin(), free);
      const asked: ReconcileRequest<string>[] = [];
      assert.equal((await once(store, asking("unknown", asked), async () => "done")).status, "executed");
      assert.equal(asked.length, 0);
    }),
  ],
};
