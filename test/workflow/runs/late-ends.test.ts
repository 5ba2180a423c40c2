import { NotApplied, NotKnownError, NotUnknownError, type Store, UnreachableError } from "onceflow";
import { createHook, FatalError, getStepMetadata, RunCancelledError, type StepOptions, step, workflow } from "onceflow/workflow";
import { getRun, listRuns, readAttempts, readJournal, resolveStep, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import type { RunOperation } from "../../../src/core/runs/operation.js";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores, type Scene, shortMs } from "../../kit/scene.js";
import { settled, until } from "../../kit/until.js";
import { untilStatus } from "../scene.js";

/** A body that ignores its signal and ends when the test frees it. */
class Deaf {
  readonly called = gate<string>();
  readonly freed = gate<unknown>();
  readonly ended = gate();
  readonly step;

  constructor(options: StepOptions<[], unknown>) {
    this.step = step(
      "deaf",
      async (): Promise<unknown> => {
        this.called.open(getStepMetadata().stepId);
        try {
          const end = await this.freed.opened;
          if (end instanceof Error) throw end;
          return end;
        } finally {
          this.ended.open();
        }
      },
      { graceMs: 10, ...options },
    );
  }
}

const strict = {
  atMostOnce: { effect: "atMostOnce" },
  reconcile: { effect: "reconcile", reconcile: () => "unknown" as const },
} satisfies Record<string, StepOptions<[], unknown>>;

/** A run that ends while its step runs, because the step lost a race. */
async function outlive(scene: Scene, deaf: Deaf, { store: given, retentionMs }: { store?: Store; retentionMs?: number } = {}) {
  const quick = step("quick", async () => "quick");
  const race = workflow(scene.name("race"), async () => {
    const slow = deaf.step();
    slow.catch(() => {});
    await deaf.called.opened;
    return await Promise.race([slow, quick()]);
  });
  const { store, worker } = await scene.work({ workflows: [race] }, given);
  const run = await start(race, [], { id: "r", store, ...(retentionMs === undefined ? {} : { retentionMs }) });
  const stepId = await deaf.called.opened;
  expect(await run.returnValue).toBe("quick");
  return { store, worker, stepId, ref: { runId: "r", stepId, attempt: 1, reason: "test", store } };
}

async function verdict(store: Store, stepId: string): Promise<string> {
  const last = (await readAttempts("r", stepId, { store })).at(-1);
  return [last?.verdict, last?.how].join(" ");
}

async function unsettled(store: Store): Promise<number | undefined> {
  return (await store.runs.read("r"))?.unsettled;
}

/** Holds back entries that are appended after the end, and reports the first. */
function holdingLate(store: Store) {
  const [reached, freed] = [gate(), gate()];
  const commit = async (batch: { run?: RunOperation }) => {
    if (batch.run?.verb === "appendLate") {
      reached.open();
      await freed.opened;
    }
    return await store.commit(batch as never);
  };
  return { store: Object.create(store, { commit: { value: commit } }) as Store, reached: reached.opened, free: () => freed.open() };
}

onStores("a step that outlives its run", everyStore, (test) => {
  for (const [effect, options] of Object.entries(strict)) {
    test(`${effect}: is unknown first, then has its real result`, async ({ scene }) => {
      const deaf = new Deaf(options);
      const { store, stepId } = await outlive(scene, deaf);
      expect(await verdict(store, stepId)).toMatch(/^unknown/);
      expect(await unsettled(store)).toBe(1);
      expect((await listRuns({ store })).items).toMatchObject([{ status: "completed", unsettled: 1, needsPerson: true }]);
      const ended = await readJournal("r", { store });
      deaf.freed.open({ charged: 5 });
      await until("its end is recorded", async () => (await unsettled(store)) === 0);
      expect(await verdict(store, stepId)).toBe("completed late");
      const late = (await readJournal("r", { store })).slice(ended.length);
      expect(late).toMatchObject([{ type: "done", id: "deaf#0", attempt: 1, detail: [1, expect.stringContaining("charged"), "late"] }]);
      expect((await listRuns({ store })).items).toMatchObject([{ unsettled: 0, needsPerson: false }]);
      expect(await getRun("r", { store }).returnValue).toBe("quick");
    });

    test(`${effect}: stays in doubt if it throws, unless the error says that nothing was applied`, async ({ scene }) => {
      const deaf = new Deaf(options);
      const { store, stepId } = await outlive(scene, deaf);
      deaf.freed.open(effect === "reconcile" ? new FatalError("declined") : new NotApplied("declined"));
      await until("its end is recorded", async () => (await unsettled(store)) === 0);
      expect(await verdict(store, stepId)).toBe("failed late");
    });

    test(`${effect}: journals any other error, for the person who resolves the step`, async ({ scene }) => {
      const deaf = new Deaf(options);
      const { store, stepId, ref } = await outlive(scene, deaf);
      deaf.freed.open(new TypeError("socket hang up"));
      await until("its end is recorded", async () => (await verdict(store, stepId)).includes("it threw TypeError"));
      expect(await unsettled(store)).toBe(1);
      await resolveStep(ref, { completed: "found at the provider" });
      expect(await verdict(store, stepId)).toBe("completed resolved");
    });
  }

  test("idempotent: is abandoned first, then has its real result", async ({ scene }) => {
    const deaf = new Deaf({});
    const { store, stepId } = await outlive(scene, deaf);
    expect(await verdict(store, stepId)).toBe("failed abandoned");
    expect((await listRuns({ store })).items).toMatchObject([{ unsettled: 0, needsPerson: false }]);
    deaf.freed.open("in the end");
    await until("its end is recorded", async () => (await verdict(store, stepId)) === "completed late");
  });

  test("of a cancelled run: is unknown first, then has its real result", async ({ scene }) => {
    const deaf = new Deaf(strict.atMostOnce);
    const waits = workflow(scene.name("waits"), async () => await deaf.step());
    const { store } = await scene.work({ workflows: [waits] });
    const run = await start(waits, [], { id: "r", store });
    const stepId = await deaf.called.opened;
    await run.cancel();
    await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    expect([await verdict(store, stepId), await unsettled(store)]).toEqual([expect.stringMatching(/^unknown/), 1]);
    deaf.freed.open("done");
    await until("its end is recorded", async () => (await verdict(store, stepId)) === "completed late");
  });

  test("that is in doubt already when its run is cancelled stays in doubt, and can be resolved", async ({ scene }) => {
    const called = gate<string>();
    const lost = step(
      "lost",
      async () => {
        called.open(getStepMetadata().stepId);
        throw new Error("socket hang up");
      },
      strict.atMostOnce,
    );
    const waits = workflow(scene.name("waits"), async () => await lost());
    const { store } = await scene.work({ workflows: [waits] });
    const run = await start(waits, [], { id: "r", store });
    const stepId = await called.opened;
    await untilStatus(store, "r", "unknown");
    await run.cancel();
    await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    expect(await unsettled(store)).toBe(1);
    await resolveStep({ reason: "test", runId: "r", stepId, attempt: 1, store }, "notApplied");
    expect([await verdict(store, stepId), await unsettled(store)]).toEqual(["failed resolved", 0]);
  });

  test("whose process died before the run was cancelled is in doubt, also in class reconcile", async ({ scene }) => {
    const called = gate<string>();
    const reconcileAfterMs = 3_600_000;
    const asked = step(
      "asked",
      async () => {
        called.open(getStepMetadata().stepId);
        await new Promise(() => {});
      },
      { ...strict.reconcile, reconcileAfterMs },
    );
    const waits = workflow(scene.name("waits"), async () => await asked());
    const doomed = await scene.workAndDie({ workflows: [waits] });
    await start(waits, [], { id: "r", store: doomed.store });
    const stepId = await called.opened;
    doomed.die();
    const { store } = await scene.work({ workflows: [waits] });
    await getRun("r", { store }).cancel();
    await expect(getRun("r", { store }).returnValue).rejects.toThrow(RunCancelledError);
    expect([await verdict(store, stepId), await unsettled(store)]).toEqual([expect.stringMatching(/^unknown/), 1]);
  });

  test("whose run is terminated under diverged code is in doubt", async ({ scene }) => {
    const called = gate<string>();
    const deed = step(
      "deed",
      async () => {
        called.open(getStepMetadata().stepId);
        await new Promise(() => {});
      },
      strict.atMostOnce,
    );
    let isOther = false;
    const waits = workflow(scene.name("waits"), async () => await (isOther ? createHook() : deed()));
    const doomed = await scene.workAndDie({ workflows: [waits] });
    await start(waits, [], { id: "r", store: doomed.store });
    const stepId = await called.opened;
    doomed.die();
    isOther = true;
    const { store } = await scene.work({ workflows: [waits] });
    await untilStatus(store, "r", "diverged");
    await getRun("r", { store }).terminate();
    await untilStatus(store, "r", "cancelled");
    expect([await verdict(store, stepId), await unsettled(store)]).toEqual([expect.stringMatching(/^unknown/), 1]);
  });

  test("stays unknown if the process dies before the late entry, and a person can resolve it", async ({ scene }) => {
    const deaf = new Deaf(strict.atMostOnce);
    const held = holdingLate(await scene.open());
    const { stepId } = await outlive(scene, deaf, { store: held.store });
    deaf.freed.open("never heard");
    await held.reached;
    const store = await scene.open();
    expect(await verdict(store, stepId)).toMatch(/^unknown/);
    await resolveStep({ reason: "test", runId: "r", stepId, attempt: 1, store }, { failed: new Error("not there") });
    expect(await verdict(store, stepId)).toBe("failed resolved");
    // The entry that was in flight when the process died arrives late and is refused.
    const journal = await readJournal("r", { store });
    held.free();
    await settled();
    await scene.work({}, await scene.open());
    expect(await readJournal("r", { store })).toEqual(journal);
  });

  test("has its result if the process dies after the late entry", async ({ scene }) => {
    const deaf = new Deaf(strict.atMostOnce);
    const inner = await scene.open();
    const written = gate();
    const commit = async (batch: { run?: RunOperation }) => {
      const answer = await inner.commit(batch as never);
      if (batch.run?.verb !== "appendLate") return answer;
      written.open();
      return await new Promise(() => {});
    };
    const { stepId, ref } = await outlive(scene, deaf, { store: Object.create(inner, { commit: { value: commit } }) as Store });
    deaf.freed.open("written");
    await written.opened;
    const store = await scene.open();
    expect([await verdict(store, stepId), await unsettled(store)]).toEqual(["completed late", 0]);
    await expect(resolveStep({ ...ref, store }, "notApplied")).rejects.toThrow(NotUnknownError);
  });

  test("is resolved by exactly one of ten people on two handles", async ({ scene }) => {
    const deaf = new Deaf(strict.atMostOnce);
    const { store, stepId, ref } = await outlive(scene, deaf);
    const handles = [store, await scene.open()];
    const calls = Array.from({ length: 10 }, (_, i) => resolveStep({ ...ref, store: handles[i % 2] as Store }, { completed: "the same" }));
    const answers = await Promise.allSettled(calls);
    expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    for (const answer of answers) if (answer.status === "rejected") expect(answer.reason).toBeInstanceOf(NotUnknownError);
    const resolved = (await readJournal("r", { store })).filter(({ detail }) => detail.includes("resolved"));
    expect(resolved).toHaveLength(1);
    // The body's end never overwrites the resolution of a person.
    deaf.freed.open("too late");
    await deaf.ended.opened;
    await settled();
    expect(await verdict(store, stepId)).toBe("completed resolved");
  });

  test("has one verdict if the late owner and a person write at the same moment", async ({ scene }) => {
    const deaf = new Deaf(strict.atMostOnce);
    const held = holdingLate(await scene.open());
    const { store, stepId, ref } = await outlive(scene, deaf, { store: held.store });
    deaf.freed.open("by the body");
    await held.reached;
    await resolveStep({ ...ref, store: await scene.open() }, { completed: "by a person" });
    held.free();
    const { worker } = await scene.work({}, store);
    await worker.stop();
    const verdicts = (await readJournal("r", { store })).filter(({ type, id }) => id === "deaf#0" && (type === "done" || type === "fail"));
    expect(verdicts).toHaveLength(1);
    expect(await verdict(store, stepId)).toBe("completed resolved");
  });

  test("keeps its run from being purged until it is settled", async ({ scene }) => {
    const deaf = new Deaf(strict.atMostOnce);
    const { store, stepId, ref } = await outlive(scene, deaf, { retentionMs: 0 });
    await store.runs.purge(100);
    expect(await verdict(store, stepId)).toMatch(/^unknown/);
    await resolveStep(ref, { completed: 1 });
    await until("it is purged", async () => {
      await store.runs.purge(100);
      return (await store.runs.read("r")) === undefined;
    });
  });

  test("is waited for by stop, within its grace", async ({ scene }) => {
    const deaf = new Deaf(strict.atMostOnce);
    const { store, stepId, worker } = await outlive(scene, deaf);
    const stopped = worker.stop({ graceMs: 20_000 });
    await settled();
    deaf.freed.open("in time");
    await stopped;
    expect(await verdict(store, stepId)).toBe("completed late");
  });

  test("does not lose a resolution that was accepted while the run ended", async ({ scene }) => {
    const deaf = new Deaf(strict.atMostOnce);
    const lost = step(
      "lost",
      async (): Promise<string> => {
        throw new Error("socket hang up");
      },
      strict.atMostOnce,
    );
    const inner = await scene.open();
    const ending = gate();
    const freed = gate();
    const commit = async (batch: { run?: RunOperation }) => {
      if (batch.run?.verb === "append" && batch.run.entry.then.kind === "end") {
        ending.open();
        await freed.opened;
      }
      return await inner.commit(batch as never);
    };
    const race = workflow(scene.name("race"), async () => {
      const never = lost();
      return await Promise.race([never, deaf.step()]);
    });
    const { store } = await scene.work({ workflows: [race] }, Object.create(inner, { commit: { value: commit } }) as Store);
    await start(race, [], { id: "r", store });
    await deaf.called.opened;
    await until("the other step is in doubt", async () => (await readJournal("r", { store })).some(({ type }) => type === "doubt"));
    const doubt = (await readJournal("r", { store })).find(({ type }) => type === "doubt");
    deaf.freed.open("won");
    await ending.opened;
    const outside = await scene.open();
    const ref = { runId: "r", stepId: doubt?.stepId ?? "", attempt: 1, reason: "test", store: outside };
    await resolveStep(ref, { completed: "said in time" });
    freed.open();
    // In one read: before the run has ended none of its steps is unsettled.
    await until("it is settled", async () => {
      const run = await store.runs.read("r");
      return run?.status === "completed" && run.unsettled === 0;
    });
    expect(await verdict(store, doubt?.stepId ?? "")).toBe("completed resolved");
  });
});

onStores("a stall longer than the lease", everyStore, (test) => {
  test("atMostOnce: the real result counts if no other worker took the run over", async ({ scene }) => {
    const deaf = new Deaf(strict.atMostOnce);
    const waits = workflow(scene.name("waits"), async () => await deaf.step());
    const inner = await scene.open();
    let away = false;
    let failed = 0;
    const renew: Store["runs"]["renew"] = async (query) => {
      if (!away) return await inner.runs.renew(query);
      failed += 1;
      throw new UnreachableError("the connection did not survive the stall");
    };
    const runs = { value: Object.create(inner.runs, { renew: { value: renew } }) as unknown };
    const { store } = await scene.work({ workflows: [waits], leaseMs: shortMs }, Object.create(inner, { runs }) as Store);
    const run = await start(waits, [], { id: "r", store });
    const stepId = await deaf.called.opened;
    away = true;
    await until("its lease is over", () => failed > 6);
    away = false;
    deaf.freed.open("the truth");
    expect(await run.returnValue).toBe("the truth");
    expect(await verdict(store, stepId)).toBe("completed ");
  });
});

onStores("a step that outlives its run, encrypted", ["memory"], (test) => {
  test("a late entry whose reply was lost is recognised, and a person can still resolve the step only once", async ({ scene }) => {
    const deaf = new Deaf(strict.atMostOnce);
    const encryption = { keys: [{ id: "k", key: Buffer.alloc(32, 7) }] };
    const inner = await scene.open({ encryption });
    let sent = 0;
    const commit = async (batch: { run?: RunOperation }) => {
      const answer = await inner.commit(batch as never);
      if (batch.run?.verb === "appendLate" && sent++ === 0) throw new NotKnownError("the reply was lost");
      return answer;
    };
    const { store, stepId } = await outlive(scene, deaf, { store: Object.create(inner, { commit: { value: commit } }) as Store });
    deaf.freed.open("once");
    await until("it is settled", async () => sent >= 2 && (await unsettled(store)) === 0);
    expect(await verdict(store, stepId)).toBe("completed late");
    expect((await readJournal("r", { store })).filter(({ detail }) => detail.includes("late"))).toHaveLength(1);
  });
});
