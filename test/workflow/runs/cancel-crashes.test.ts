import type { Store } from "onceflow";
import { EffectLedger, replayJournal } from "onceflow/testing";
import { CancelledError, getStepMetadata, RunCancelledError, sleep, step, type WorkflowFunction, work, workflow } from "onceflow/workflow";
import { getRun, readJournal, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { dyingStore } from "../../kit/dying-store.js";
import { onStores, type Scene, shortMs } from "../../kit/scene.js";
import { until } from "../../kit/until.js";

/** A saga that reserves, charges and waits, and undoes both when it is cancelled. `slow`: the charge ends only when its signal aborts. */
function saga(scene: Scene, provider: EffectLedger, slow: boolean) {
  const effect = (name: string, wait: (signal: AbortSignal) => Promise<void> = async () => {}) =>
    step(
      scene.name(name),
      async () => {
        const { stepId, signal } = getStepMetadata();
        await wait(signal);
        provider.call(`${name} ${stepId}`, { result: name });
      },
      { effect: "keyed", backoff: { minMs: 1, maxMs: 1 } },
    );
  const aborted = (signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener("abort", () => resolve());
    });
  const [reserve, release] = [effect("reserve"), effect("release")];
  const charge = effect("charge", slow ? aborted : undefined);
  const refund = effect("refund");
  return workflow(scene.name("saga"), async () => {
    await reserve();
    let mayBeCharged = false;
    try {
      try {
        await charge();
        mayBeCharged = true;
      } catch (error) {
        if (CancelledError.is(error)) mayBeCharged = error.mayHaveHappened;
        throw error;
      }
      await sleep(slow ? 1 : "1h");
    } finally {
      if (mayBeCharged) await refund();
      await release();
    }
  });
}

/** How often each effect was applied at the provider. */
function applied(provider: EffectLedger): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const key of provider.keys()) {
    const [name = ""] = key.split(" ");
    counts[name] = (counts[name] ?? 0) + provider.applied(key);
  }
  return counts;
}

async function expectReplay(store: Store, id: string, code: WorkflowFunction): Promise<void> {
  const run = await store.runs.read(id);
  if (run === undefined) throw new Error("the run exists");
  const journal = await store.runs.journal(id, 0, 1000);
  expect(await replayJournal({ workflow: code, run, journal, store })).toMatchObject({ kind: "ended", status: "cancelled" });
}

onStores("cancel of a saga whose process dies at every commit", ["memory", "sqlite"], (test) => {
  for (const slow of [false, true])
    for (const side of ["before", "after"] as const)
      test(`${side} it, ${slow ? "while a step runs" : "while it sleeps"}: each effect and each compensation is applied once`, async ({
        scene,
      }) => {
        for (let at = 0, isOver = false; !isOver; at++) {
          const provider = new EffectLedger({ honoursKeys: true });
          const code = saga(scene, provider, slow);
          let commits = 0;
          const { store: own, died, hasDied } = dyingStore(await scene.open(), side, { run: () => commits++ === at });
          const outside = await scene.open();
          const { id } = await start(code, [], { store: outside });
          const first = await work(own, { leaseMs: shortMs, background: true, workflows: [code] });
          void died.then(async () => void (await scene.work({ leaseMs: shortMs, workflows: [code] }, outside)));
          const run = getRun(id, { store: outside });
          const reached = slow
            ? (type: string, call: string) => type === "step" && call.startsWith("charge")
            : (type: string) => type === "sleep";
          await until("it can be cancelled", async () =>
            (await readJournal(id, { store: outside })).some(({ type, id: call }) => reached(type, call)),
          );
          await run.cancel();
          await until(`it is cancelled after a death at commit ${at}`, async () => (await run.status) === "cancelled");
          await expect(run.returnValue).rejects.toThrow(RunCancelledError);
          // A charge that died with its process is not repeated: it may have happened, and is refunded.
          const { charge = 0, ...others } = applied(provider);
          expect([at, others]).toEqual([at, { reserve: 1, refund: 1, release: 1 }]);
          expect(charge).toBeLessThanOrEqual(1);
          if (!slow) expect(charge).toBe(1);
          expect(await run.trouble).toBeUndefined();
          await expectReplay(outside, id, code);
          isOver = !hasDied();
          if (isOver) {
            expect(at).toBeGreaterThan(5);
            await first.stop();
          }
        }
      });
});
