import type { Store } from "onceflow";
import { createHook, FatalError, getStepMetadata, step, workflow } from "onceflow/workflow";
import { deleteRun, forkRun, getRun, readAttempts, readOperatorLog, resolveStep, retryRun, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { cancel, deliver, pause, resume, wake } from "../../../src/operate/runs.js";
import { dyingStore } from "../../kit/dying-store.js";
import { sample } from "../../kit/effort.js";
import { gate } from "../../kit/gate.js";
import { everyStore, fullStores, onStores, type Scene, shortMs } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { quick, story, untilReleased, untilStatus } from "../scene.js";

/** A provider that deduplicates by stepId. */
class Bank {
  isDown = true;
  readonly calls: string[] = [];
  readonly charge = step(
    "charge",
    async (): Promise<string> => {
      const { stepId } = getStepMetadata();
      this.calls.push(stepId);
      if (this.isDown) throw new FatalError("the bank is down");
      return "charged";
    },
    quick,
  );

  get charges(): number {
    return new Set(this.calls).size;
  }
}

/** Runs `act` on a store whose process dies before or after the write of the action. */
async function dieIn(scene: Scene, when: "before" | "after", act: (store: Store) => Promise<unknown>): Promise<void> {
  const dying = dyingStore(await scene.open(), when, { run: ({ verb }) => verb === "act" });
  void act(dying.store).catch(() => {});
  await dying.died;
}

/** What must be true of each action, whose process dies before or after its write, and which is sent again. */
const actions: Readonly<Record<string, (scene: Scene, when: "before" | "after") => Promise<void>>> = {
  "retry: the run goes on once, and is logged once": async (scene, when) => {
    const bank = new Bank();
    const order = workflow(scene.name("order"), async () => await bank.charge());
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store });
    await untilStatus(store, "o-1", "failed");
    bank.isDown = false;
    const act = (at: Store) => retryRun("o-1", { store: at, actionId: "a-1" });
    await dieIn(scene, when, act);
    if (when === "after") await untilStatus(store, "o-1", "completed");
    else expect(await getRun("o-1", { store }).status).toBe("failed");
    expect(await act(store)).toMatchObject({ repeated: when === "after", steps: [{ callId: "charge#0" }] });
    expect(await getRun("o-1", { store }).returnValue).toBe("charged");
    expect(bank.calls).toHaveLength(2);
    expect(bank.charges).toBe(1);
    expect(await readOperatorLog({ store, runId: "o-1" })).toHaveLength(1);
  },

  "resolve of a failed step: its result counts once": async (scene, when) => {
    const bank = new Bank();
    const order = workflow(scene.name("order"), async () => await bank.charge());
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store });
    await untilStatus(store, "o-1", "failed");
    const [stepId = ""] = bank.calls;
    const act = (at: Store) =>
      resolveStep({ reason: "test", runId: "o-1", stepId, attempt: 1, store: at, actionId: "a-1" }, { completed: "in cash" });
    await dieIn(scene, when, act);
    expect(await act(store)).toMatchObject({ repeated: when === "after" });
    expect(await getRun("o-1", { store }).returnValue).toBe("in cash");
    expect(bank.calls).toHaveLength(1);
    expect(await readOperatorLog({ store, runId: "o-1" })).toHaveLength(1);
  },

  "fork: there is one fork": async (scene, when) => {
    const bank = new Bank();
    bank.isDown = false;
    const order = workflow(scene.name("order"), async () => [await bank.charge(), await bank.charge()]);
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store });
    await getRun("o-1", { store }).returnValue;
    const act = (at: Store) => forkRun("o-1", { from: "charge#1", store: at, actionId: "a-1" });
    await dieIn(scene, when, act);
    const { forkId } = await act(store);
    await getRun(forkId, { store }).returnValue;
    expect(await store.runs.list({ limit: 10 })).toHaveLength(2);
    expect(bank.charges).toBe(3);
    expect(bank.calls).toHaveLength(3);
  },

  "delete: the run is gone, and its new namesake is not deleted by the repetition": async (scene, when) => {
    const bank = new Bank();
    bank.isDown = false;
    const order = workflow(scene.name("order"), async () => await bank.charge());
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store });
    await getRun("o-1", { store }).returnValue;
    const act = (at: Store) => deleteRun("o-1", { reason: "test", store: at, actionId: "a-1" });
    await dieIn(scene, when, act);
    await act(store);
    expect(await getRun("o-1", { store }).exists).toBe(false);
    await start(order, [], { id: "o-1", store });
    await getRun("o-1", { store }).returnValue;
    expect(await act(store)).toMatchObject({ repeated: true });
    expect(await getRun("o-1", { store }).exists).toBe(true);
  },

  "mail: each request reaches the run once": async (scene, when) => {
    const token = scene.name("token");
    const order = workflow(scene.name("order"), async () => {
      const hook = createHook<string>({ token });
      for await (const payload of hook) if (payload === "last") return payload;
      return "";
    });
    const { store } = await scene.work({ workflows: [order] });
    const by = { actor: "ann", reason: "test" } as const;
    const requests: Readonly<Record<string, (at: Store, actionId: string) => Promise<unknown>>> = {
      pause: (at, actionId) => pause(at, "o-1", { ...by, actionId }),
      resume: (at, actionId) => resume(at, "o-1", { ...by, actionId }),
      wake: (at, actionId) => wake(at, "o-1", { ...by, actionId }),
      deliver: (at, actionId) => deliver(at, { token, payload: "first" }, { ...by, actionId }),
      cancel: (at, actionId) => cancel(at, "o-1", { ...by, actionId }),
    };
    await start(order, [], { id: "o-1", store });
    await until("the hook is open", async () => (await store.runs.hook(token)) !== undefined);
    for (const [name, request] of Object.entries(requests)) {
      await dieIn(scene, when, (at) => request(at, name));
      await request(store, name);
    }
    await untilStatus(store, "o-1", "cancelled");
    expect((await readOperatorLog({ store, runId: "o-1" })).map(({ action }) => action).reverse()).toEqual(Object.keys(requests));
    const received = (await store.runs.mail("o-1", 0)).map(({ kind }) => kind);
    expect(received).toEqual(["pause", "resume", "wake", "hook", "cancel"]);
  },
};

for (const when of ["before", "after"] as const)
  onStores(`an operator's process dies ${when} the write of its action, and the action is sent again`, fullStores, (test, on) => {
    // The emulator is slow.
    const names = Object.keys(actions);
    for (const name of on === "mongodb" ? sample(names, 2) : names) test(name, async ({ scene }) => await actions[name]?.(scene, when));
  });

onStores("attempts that were abandoned when the run failed", everyStore, (test) => {
  for (const effect of ["idempotent", "atMostOnce"] as const)
    test(`count as lapsed after a retry: ${effect}`, async ({ scene }) => {
      const began = gate<string>();
      const freed = gate();
      let calls = 0;
      const slow = step(
        "slow",
        async (): Promise<string> => {
          calls += 1;
          began.open(getStepMetadata().stepId);
          if (calls === 1) await freed.opened;
          return `call ${calls}`;
        },
        { effect, graceMs: 1 },
      );
      let isDown = true;
      const charge = step("charge", async () => {
        await began.opened;
        if (isDown) throw new FatalError("the bank is down");
        return "charged";
      });
      const order = workflow(scene.name("order"), async () => await Promise.all([slow(), charge()]));
      const { store } = await scene.work({ workflows: [order] });
      await start(order, [], { id: "o-1", store });
      await untilStatus(store, "o-1", "failed");
      isDown = false;
      await retryRun("o-1", { store });
      const stepId = await began.opened;
      if (effect === "idempotent") {
        expect(await getRun("o-1", { store }).returnValue).toEqual(["call 2", "charged"]);
        expect(calls).toBe(2);
      } else {
        // Its outcome was unknown when the run failed, and it stays so until the late body ends: then its real outcome counts.
        await until("the step is unknown", async () => (await readAttempts("o-1", stepId, { store })).at(-1)?.verdict === "unknown");
        await untilReleased(store, "o-1");
        freed.open();
        expect(await getRun("o-1", { store }).returnValue).toEqual(["call 1", "charged"]);
        expect(calls).toBe(1);
      }
      freed.open();
    });
});

onStores("a late owner of the run as it was before the retry", everyStore, (test) => {
  test("can write neither an entry nor an end", async ({ scene }) => {
    const bank = new Bank();
    const held = gate();
    const order = workflow(scene.name("order"), async () => {
      await createHook<string>({ token: scene.name("t") }).getConflict();
      return await bank.charge();
    });
    // This process is silent from its second entry on, longer than its lease.
    const silent = await scene.open();
    const commit = async (batch: { run?: { verb: string; seq?: number } }) => {
      if (batch.run?.verb === "append" && (batch.run.seq ?? 0) > 1) await held.opened;
      return await silent.commit(batch as never);
    };
    const renew: Store["runs"]["renew"] = async (query) => {
      await held.opened;
      return await silent.runs.renew(query);
    };
    const runs = { value: Object.create(silent.runs, { renew: { value: renew } }) as unknown };
    const late = Object.create(silent, { commit: { value: commit }, runs }) as Store;
    const first = await scene.work({ workflows: [order], leaseMs: shortMs }, late);
    await start(order, [], { id: "o-1", store: first.store });
    const { store } = await scene.work({ workflows: [order] });
    await untilStatus(store, "o-1", "failed");
    const before = await story(store, "o-1");
    bank.isDown = false;
    await retryRun("o-1", { store });
    held.open();
    expect(await getRun("o-1", { store }).returnValue).toBe("charged");
    expect((await story(store, "o-1")).slice(0, before.length)).toEqual(before);
    expect(bank.charges).toBe(1);
  });
});
