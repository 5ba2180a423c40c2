import type { Store } from "onceflow";
import { type EffectServer, serveEffects } from "onceflow/testing";
import { deleteRun, getRun, readJournal, resolveStep, retryRun } from "onceflow/workflow/api";
import { expect } from "vitest";
import { sample } from "../../kit/effort.js";
import { takeTurns } from "../../kit/heavy.js";
import { durableStores, onStores, type Scene } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { Process } from "../process.js";
import { untilStatus } from "../scene.js";

takeTurns();

/** A process that was stopped in a body of run "r", while an operator and another process went on. */
interface Late {
  readonly scene: Scene;
  readonly store: Store;
  readonly provider: EffectServer;
  /** Starts another process that can execute the run. */
  worker(options?: { readonly fails?: boolean }): Promise<Process>;
}

interface Case {
  /** What happens while the late owner is stopped. */
  act(late: Late): Promise<void>;
  /** What happens after it has found out that it has lost the run. */
  readonly then?: (late: Late) => Promise<void>;
  /** Effects at the provider at the end. */
  readonly effects: number;
}

const run = (store: Store) => getRun("r", { store });

async function untilEnded(store: Store): Promise<void> {
  await until("the run can be ended without its owner", async () => (await run(store).terminate()).state === "ended");
}

const cases: Readonly<Record<string, Case>> = {
  cancel: {
    async act({ store, worker }) {
      await run(store).cancel({ reason: "test" });
      await worker();
      await untilStatus(store, "r", "cancelled");
    },
    effects: 0,
  },
  "delete, and a start under the same id": {
    async act({ store, worker }) {
      await untilEnded(store);
      // Without the code it is not known whether the step may be repeated.
      const stepId = (await readJournal("r", { store })).find(({ type }) => type === "step")?.stepId ?? "";
      await resolveStep({ runId: "r", stepId, attempt: 1, store, reason: "test" }, "notApplied");
      await deleteRun("r", { store, reason: "test" });
      const next = await worker();
      next.send({ kind: "start", times: 1, workflow: "shipped", id: "r", args: [] });
      await next.next("called");
      next.send({ kind: "free" });
      await untilStatus(store, "r", "completed");
    },
    effects: 1,
  },
  retry: {
    async act({ store, worker }) {
      const failing = await worker({ fails: true });
      await untilStatus(store, "r", "failed");
      await failing.end("SIGKILL");
      await worker();
      await retryRun("r", { store });
      await untilStatus(store, "r", "completed");
    },
    effects: 1,
  },
  pause: {
    async act({ store, worker }) {
      await run(store).pause({ waitMs: 0 });
      await worker();
      await untilStatus(store, "r", "paused");
    },
    async then({ store, provider }) {
      expect(provider.effects.keys()).toEqual([]);
      await run(store).resume();
      await untilStatus(store, "r", "completed");
    },
    effects: 1,
  },
  terminate: { act: async ({ store }) => await untilEnded(store), effects: 0 },
};

async function picture(store: Store): Promise<unknown> {
  return [await store.runs.read("r"), await readJournal("r", { store })];
}

onStores("an owner that was stopped during an operator's action", durableStores, (test) => {
  const names = Object.keys(cases);
  for (const name of sample(names, 3))
    test(`changes nothing when it goes on, and its body is aborted: ${name}`, async ({ scene }) => {
      const { act, then, effects } = cases[name] as Case;
      const provider = await serveEffects({ honoursKeys: false });
      scene.onEnd(() => void provider.close());
      const worker: Late["worker"] = (options = {}) =>
        Process.of(scene, { worker: { leaseMs: 1000 }, providerUrl: provider.url, ...options });
      const store = await scene.open();
      const late = { scene, store, provider, worker };
      const owner = await worker();
      owner.send({ kind: "start", times: 1, workflow: "shipped", id: "r", args: [] });
      await owner.next("called");
      await owner.stall();
      await act(late);
      const before = await picture(store);
      owner.signal("SIGCONT");
      expect((await owner.next("aborted")).reason).toContain("this worker lost run");
      owner.send({ kind: "free" });
      await owner.next("ended");
      // One more turn, in which the late owner would write its result.
      owner.send({ kind: "measure", ms: 50 });
      await owner.next("cpu");
      expect(await picture(store)).toEqual(before);
      await then?.(late);
      const keys = provider.effects.keys();
      expect(keys.map((key) => provider.effects.rawCalls(key))).toEqual(Array.from({ length: effects }, () => 1));
    });
});
