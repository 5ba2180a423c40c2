import { step, workflow } from "onceflow/workflow";
import { getRun, listWorkers, runsWithoutWorker, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { fullStores, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";

onStores("workers and the runs that have none", fullStores, (test) => {
  test("lists live workers with workflows, version and runs, and not those that have stopped", async ({ scene }) => {
    const [called, freed] = [gate(), gate()];
    scene.onEnd(() => freed.open());
    const wait = step(scene.name("wait"), async () => {
      called.open();
      await freed.opened;
    });
    const held = workflow(scene.name("held"), async () => await wait());
    const { store, worker } = await scene.work({ version: "7.1", workflows: [held] });
    const stopped = await scene.work({ workflows: [] });
    await stopped.worker.stop();
    await start(held, [], { id: "r1", store });
    await start(held, [], { id: "r2", store });
    await called.opened;
    await until("both runs are claimed", async () => (await store.runs.held(worker.owner, 10)).length === 2);
    const [only, ...others] = await listWorkers({ store });
    expect(others).toEqual([]);
    expect(only).toMatchObject({ id: worker.owner, version: "7.1", live: true, hasMoreRuns: false });
    expect(only?.workflows).toHaveLength(1);
    expect(only?.startedAt).toBeInstanceOf(Date);
    expect(only?.runs.map(({ id }) => id).sort()).toEqual(["r1", "r2"]);
    expect(await listWorkers({ store, runsMax: 1 })).toMatchObject([{ runs: [{}], hasMoreRuns: true }]);
    expect(await listWorkers({ store, runsMax: 0 })).toMatchObject([{ runs: [], hasMoreRuns: false }]);
    await expect(listWorkers({ store, limit: 0 })).rejects.toThrow(/limit: must be a whole number from 1 to 1000/);
    await expect(listWorkers({ store, runs: 3 } as never)).rejects.toThrow(/runs/);
  });

  test("lists open runs whose workflow no live worker has, page by page, with the reason", async ({ scene }) => {
    const store = await scene.open();
    const define = (name: string) => workflow(scene.name(name), async () => {});
    const [a, b, c] = [define("a"), define("b"), define("c")];
    const ids: string[] = [];
    for (const [i, each] of [a, b, c, b, c].entries())
      ids.push((await start(each, [], { id: `r${i}`, store, ...(i === 2 ? { scope: "acme" } : {}) })).id);
    await getRun("r4", { store }).terminate();
    await scene.work({ workflows: [a] });
    await until("the run with a worker has ended", async () => (await getRun("r0", { store }).status) === "completed");
    const whole = await runsWithoutWorker({ store });
    expect(whole.cursor).toBeUndefined();
    expect((await runsWithoutWorker({ store, scope: "acme" })).items.map(({ id }) => id)).toEqual(["r2"]);
    expect(whole.items.map(({ id }) => id).sort()).toEqual(["r1", "r2", "r3"]);
    expect(whole.items[0]?.reason).toMatch(
      /^no live worker \(of 1\) has the workflow "b \d+"\. Start a worker that defines the workflow "b \d+", or cancel the run\.$/,
    );
    const paged: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await runsWithoutWorker({ store, limit: 1, ...(cursor === undefined ? {} : { cursor }) });
      expect(page.items.length).toBeLessThanOrEqual(1);
      paged.push(...page.items.map(({ id }) => id));
      cursor = page.cursor;
    } while (cursor !== undefined);
    expect(paged).toEqual(whole.items.map(({ id }) => id));
    await scene.work({ workflows: [b, c] });
    await until("every run has a worker", async () => (await runsWithoutWorker({ store })).items.length === 0);
    for (const wrong of ["", "x", Buffer.from("[1]").toString("base64url"), Buffer.from('["a","completed"]').toString("base64url")])
      await expect(runsWithoutWorker({ store, cursor: wrong })).rejects.toThrow(/cursor/);
    await expect(runsWithoutWorker({ store, scope: "" })).rejects.toThrow(/scope: must not be empty/);
  });
});
