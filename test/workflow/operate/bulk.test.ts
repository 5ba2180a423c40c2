import type { Store } from "onceflow";
import { createHook, FatalError, getStepMetadata, step, workflow } from "onceflow/workflow";
import { listRuns, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { actOnAll, type BulkRequest, type BulkTarget } from "../../../src/operate/bulk.js";
import { actOnRun, type RunAction } from "../../../src/operate/run-actions.js";
import { dyingStore } from "../../kit/dying-store.js";
import { sample } from "../../kit/effort.js";
import { everyStore, onStores, type Scene } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { untilStatus } from "../scene.js";

function targetOf(
  store: Store,
  action: RunAction,
  filter: { readonly workflow?: string; readonly status?: "failed" | "running" },
): BulkTarget {
  return {
    list: (page) => listRuns({ ...filter, ...page, store }),
    act: async (run, options) => await actOnRun(store, action, run, { ...options, actor: "ada", reason: "test" }),
  };
}

/** A provider that refuses every first call of a run. */
async function startFailed(
  scene: Scene,
  store: Store,
  ids: readonly string[],
): Promise<{ readonly name: string; readonly calls: string[] }> {
  const calls: string[] = [];
  const charge = step("charge", async () => {
    const { stepId } = getStepMetadata();
    calls.push(stepId);
    if (calls.filter((each) => each === stepId).length === 1) throw new FatalError("the bank is down");
    return "charged";
  });
  const name = scene.name("order");
  const order = workflow(name, async () => await charge());
  for (const id of ids) await start(order, [], { id, store });
  for (const id of ids) await untilStatus(store, id, "failed");
  return { name, calls };
}

const sixIds = ["r-1", "r-2", "r-3", "r-4", "r-5", "r-6"];

/** What each run was asked to do, from the operator log. */
async function actionsOf(store: Store): Promise<string[]> {
  return (await store.runs.log({ limit: 100 })).map(({ action, subject }) => `${action} ${subject}`).sort();
}

onStores("a bulk action", everyStore, (test) => {
  test("acts on the runs of the filter in batches, and on no other; again with its id it does nothing", async ({ scene }) => {
    const { store } = await scene.work({});
    const { name, calls } = await startFailed(scene, store, sixIds);
    await startFailed(scene, store, ["other"]);
    const target = targetOf(store, "retry", { workflow: name, status: "failed" });
    const batches: number[] = [];
    const request: BulkRequest = { action: "retry", status: "failed", actionId: "b-1", batch: 4 };
    const dry = await actOnAll(target, { ...request, dryRun: true });
    expect(dry).toMatchObject({ dryRun: true, listed: 6, done: 6, interrupted: undefined });
    expect(await actionsOf(store)).toEqual([]);
    const result = await actOnAll(target, { ...request, onBatch: ({ listed }) => batches.push(listed) });
    expect(result).toMatchObject({ actionId: "b-1", listed: 6, done: 6, refused: 0, cursor: undefined, interrupted: undefined });
    expect(batches).toEqual([4, 6]);
    for (const id of sixIds) await untilStatus(store, id, "completed");
    expect(calls).toHaveLength(12);
    expect(await actOnAll(targetOf(store, "retry", { workflow: name }), { ...request, action: "retry", batch: 100 })).toMatchObject({
      listed: 6,
      done: 0,
      skipped: 6,
    });
    expect(await actionsOf(store)).toEqual(sixIds.map((id) => `retry ${id}`));
  });

  test("stops after a batch, and continues at the cursor with the same id", async ({ scene }) => {
    const { store } = await scene.work({});
    const { name } = await startFailed(scene, store, sixIds);
    const target = targetOf(store, "delete", { workflow: name });
    const stop = new AbortController();
    const first = await actOnAll(target, { action: "delete", batch: 2, signal: stop.signal, onBatch: () => stop.abort() });
    expect(first).toMatchObject({ listed: 2, done: 2, interrupted: "stopped" });
    expect((await listRuns({ workflow: name, store })).items).toHaveLength(4);
    const second = await actOnAll(target, { action: "delete", actionId: first.actionId, cursor: first.cursor, max: 3, batch: 2 });
    expect(second).toMatchObject({ listed: 3, done: 3, interrupted: "limit" });
    const last = await actOnAll(target, { action: "delete", actionId: first.actionId, cursor: second.cursor });
    expect(last).toMatchObject({ done: 1, interrupted: undefined });
    expect((await listRuns({ workflow: name, store })).items).toEqual([]);
    expect(await actionsOf(store)).toEqual(sixIds.map((id) => `delete ${id}`));
  });

  test("a run that is refused or has changed does not hold up the others; a store that fails ends it", async ({ scene }) => {
    const { store, worker } = await scene.work({});
    const { name } = await startFailed(scene, store, ["r-1", "r-2", "r-3"]);
    await worker.stop();
    const target = targetOf(store, "retry", { workflow: name });
    const listed = await target.list({ limit: 10 });
    const stale: BulkTarget = { ...target, list: async () => listed };
    await actOnRun(store, "retry", "r-2", { actor: "ada" });
    await actOnRun(store, "delete", "r-3", { actor: "ada", reason: "test" });
    expect(await actOnAll(stale, { action: "retry", status: "failed" })).toMatchObject({ done: 1, changed: 1, refused: 1 });
    const refusing: BulkTarget = {
      ...stale,
      act: async (run) => await actOnRun(store, "retry", run, { actor: "ada", steps: ["nothing#0"] } as never),
    };
    const refused = await actOnAll(refusing, { action: "retry" });
    expect(refused).toMatchObject({ done: 0, refused: 2, changed: 1, interrupted: undefined });
    expect(refused.refusals.map(({ runId, code }) => [runId, code])).toContainEqual(["r-1", "ACTION_REFUSED"]);
    const broken: BulkTarget = { ...target, act: () => Promise.reject(new TypeError("a bug")) };
    expect(await actOnAll(broken, { action: "cancel" })).toMatchObject({
      listed: 0,
      interrupted: expect.any(TypeError) as Error,
    });
  });

  const deaths = (["before", "after"] as const).flatMap((when) => [1, 3, 6].map((nth) => ({ when, nth })));
  for (const { when, nth } of sample(deaths, 2))
    test(`its process dies ${when} the write of action ${nth}: continued, every run was acted on once`, async ({ scene }) => {
      const { store } = await scene.work({});
      const { name, calls } = await startFailed(scene, store, sixIds);
      let writes = 0;
      const dying = dyingStore(await scene.open(), when, { run: ({ verb }) => verb === "act" && ++writes === nth });
      const request: BulkRequest = { action: "retry", actionId: "b-1", batch: 2 };
      void actOnAll(targetOf(dying.store, "retry", { workflow: name }), request).catch(() => {});
      await dying.died;
      await actOnAll(targetOf(store, "retry", { workflow: name }), request);
      for (const id of sixIds) await untilStatus(store, id, "completed");
      expect(calls).toHaveLength(12);
      expect(new Set(calls).size).toBe(6);
      expect(await actionsOf(store)).toEqual(sixIds.map((id) => `retry ${id}`));
    });

  test("a bulk cancellation reaches waiting runs once, and skips those that have ended", async ({ scene }) => {
    const { store } = await scene.work({});
    const name = scene.name("waiting");
    const waiting = workflow(name, async (token: string) => await createHook<string>({ token }));
    for (const id of sixIds) await start(waiting, [id], { id, store });
    await actOnRun(store, "terminate", "r-1", { actor: "ada", reason: "test" });
    await untilStatus(store, "r-1", "cancelled");
    const target = targetOf(store, "cancel", { workflow: name });
    expect(await actOnAll(target, { action: "cancel", actionId: "b-1" })).toMatchObject({ done: 5, skipped: 1 });
    await until("all have ended", async () => (await listRuns({ workflow: name, status: "running", store })).items.length === 0);
    expect(await actionsOf(store)).toEqual([...sixIds.slice(1).map((id) => `cancel ${id}`), "terminate r-1"]);
  });
});
