import { RunCancelledError, sleep, step, workflow } from "onceflow/workflow";
import { getRun, listRuns, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { everyStore, onStores } from "../../kit/scene.js";
import { untilReleased, untilStatus } from "../scene.js";
import { notes } from "./cleanup.js";

onStores("cancel", everyStore, (test) => {
  test("without a worker that has the workflow: the run waits for code, and any worker ends it after its time", async ({ scene }) => {
    const { seen, note } = notes(scene);
    const first = step(scene.name("first"), async () => 1);
    const code = workflow(scene.name("code"), async () => {
      await first();
      try {
        await sleep("1h");
      } finally {
        await note("cleaned up");
      }
    });
    const { store, worker } = await scene.work({ workflows: [code] });
    const [saved, lost] = [await start(code, [], { store }), await start(code, [], { store })];
    for (const { id } of [saved, lost]) await untilReleased(store, id);
    await worker.stop();
    const asked = await getRun(saved.id, { store }).cancel();
    expect(asked).toMatchObject({ state: "requested", noWorker: true });
    expect(asked.endsBy?.getTime()).toBeGreaterThan((await saved.createdAt).getTime() + 800_000);
    await lost.cancel({ cleanupMs: 300 });
    const unrelated = workflow(scene.name("unrelated"), async () => 1);
    await scene.work({ workflows: [unrelated] }, await scene.open());
    await untilStatus(store, lost.id, "cancelled");
    expect(await lost.trouble).toContain("no cleanup ran");
    expect((await listRuns({ store })).items.find(({ id }) => id === lost.id)?.needsPerson).toBe(true);
    expect(await saved.status).toBe("running");
    await scene.work({ workflows: [code] }, await scene.open());
    await expect(saved.returnValue).rejects.toThrow(RunCancelledError);
    expect(seen).toEqual(["cleaned up"]);
    expect(await saved.trouble).toBeUndefined();
  });

  test("of a run whose code does not match its journal waits for code that can clean up", async ({ scene }) => {
    const { seen, note } = notes(scene);
    const first = step(scene.name("first"), async () => 1);
    const name = scene.name("code");
    const good = async () => {
      await first();
      try {
        await sleep("1h");
      } finally {
        await note("cleaned up");
      }
    };
    let fn = good;
    const code = workflow(name, async () => await fn());
    const { store, worker } = await scene.work();
    const [saved, lost] = [await start(code, [], { store }), await start(code, [], { store })];
    for (const { id } of [saved, lost]) await untilReleased(store, id);
    await worker.stop();
    fn = async () => await sleep("2h");
    const { worker: wrong } = await scene.work({}, await scene.open());
    await saved.cancel();
    await lost.cancel({ cleanupMs: 400 });
    await untilStatus(store, saved.id, "diverged");
    await untilStatus(store, lost.id, "cancelled");
    expect(await lost.trouble).toContain("no cleanup ran");
    await wrong.stop();
    fn = good;
    await scene.work({}, await scene.open());
    await expect(saved.returnValue).rejects.toThrow(RunCancelledError);
    expect(seen).toEqual(["cleaned up"]);
  });
});
