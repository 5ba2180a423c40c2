import type { Store } from "onceflow";
import { CancelledError, ContextError, RunCancelledError, sleep, step, workflow } from "onceflow/workflow";
import { getRun, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { everyStore, onStores, type Scene, shortMs } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { story, untilStatus } from "../scene.js";

/** A child that has begun a step, waits, and cleans up when it is cancelled. */
function family(scene: Scene) {
  const seen: string[] = [];
  const note = step(scene.name("note"), async (what: string) => void seen.push(what));
  const child = workflow(scene.name("child"), async (ms: number) => {
    await note("child began");
    try {
      await sleep(ms);
      return "child's result";
    } catch (error) {
      await note(CancelledError.is(error) ? `child cleaned up: ${error.reason}` : String(error));
      throw error;
    }
  });
  return { seen, note, child };
}

async function sleeps(store: Store, ...ids: string[]): Promise<void> {
  for (const id of ids)
    await until(`run "${id}" sleeps`, async () => (await getRun(id, { store }).exists) && (await getRun(id, { store }).sleeps).length > 0);
}

const how = (error: unknown) =>
  CancelledError.is(error) ? "CancelledError" : error instanceof RunCancelledError ? "RunCancelledError" : String(error);

onStores("cancel and child runs", everyStore, (test) => {
  test("a child is cancelled with its parent, cleans up, and can be awaited again; one whose id the code chose, too", async ({ scene }) => {
    const { seen, note, child } = family(scene);
    const chosen = scene.name("chosen");
    const parent = workflow(scene.name("parent"), async () => {
      const children = [await start(child, [3_600_000]), await start(child, [3_600_000], { id: chosen })];
      const wait = () => Promise.all(children.map((each) => each.returnValue.then(String, how)));
      await note((await wait()).join());
      await note((await wait()).join());
    });
    const { store } = await scene.work();
    const run = await start(parent, [], { store });
    await until("both children sleep", () => seen.length === 2);
    await sleeps(store, chosen);
    await run.cancel({ reason: "stop it" });
    await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    expect(seen.filter((what) => what.startsWith("child cleaned up"))).toEqual(Array(2).fill("child cleaned up: stop it"));
    expect(seen.filter((what) => what.startsWith("Cancelled"))).toEqual(["CancelledError,CancelledError"]);
    expect(seen.at(-1)).toBe("RunCancelledError,RunCancelledError");
    expect(await getRun(chosen, { store }).status).toBe("cancelled");
  });

  test('"abandon": the code is rejected and the child goes on; "wait": the code goes on waiting', async ({ scene }) => {
    const { seen, note, child } = family(scene);
    const [left, awaited] = [scene.name("left"), scene.name("awaited")];
    const parent = workflow(scene.name("parent"), async () => {
      const children = [
        await start(child, [3_600_000], { id: left, onCancel: "abandon" }),
        await start(child, [3_600_000], { id: awaited, onCancel: "wait" }),
      ];
      await Promise.all(children.map(async (each) => await note(`${each.id}: ${await each.returnValue.then(String, how)}`)));
    });
    const { store } = await scene.work();
    const run = await start(parent, [], { store });
    await sleeps(store, left, awaited);
    await run.cancel();
    await until("the abandoned child has rejected", () => seen.includes(`${left}: CancelledError`));
    expect(await getRun(awaited, { store }).status).toBe("running");
    await getRun(awaited, { store }).wakeUp();
    await expect(run.returnValue).rejects.toThrow(RunCancelledError);
    expect(seen).toContain(`${awaited}: child's result`);
    expect(await getRun(left, { store }).status).toBe("running");
    await getRun(left, { store }).wakeUp();
    expect(await getRun(left, { store }).returnValue).toBe("child's result");
  });

  test("terminate ends the children at once; a run that another run has started goes on", async ({ scene }) => {
    const { seen, note, child } = family(scene);
    const [own, foreign] = [scene.name("own"), scene.name("foreign")];
    const parent = workflow(scene.name("parent"), async () => {
      const children = [await start(child, [3_600_000], { id: own }), await start(child, [3_600_000], { id: foreign })];
      await note("parent waits");
      await Promise.all(children.map((each) => each.returnValue));
    });
    const { store } = await scene.work();
    await start(child, [3_600_000], { id: foreign, store });
    await sleeps(store, foreign);
    for (const way of ["cancel", "terminate"] as const) {
      const run = await start(parent, [], { id: `${own} ${way}`, store });
      await until("the parent waits", async () => (await story(store, run.id)).some((line) => line.startsWith("done note")));
      await sleeps(store, own);
      await run[way]();
      await expect(run.returnValue).rejects.toThrow(RunCancelledError);
      if (way === "terminate") continue;
      await untilStatus(store, own, "cancelled");
      expect(seen.filter((what) => what.startsWith("child cleaned up"))).toHaveLength(1);
      break;
    }
    const other = await start(
      workflow(scene.name("other parent"), async () => {
        await note("begun");
        await (await start(child, [3_600_000])).returnValue;
      }),
      [],
      { store },
    );
    const childOf = async () => (await story(store, other.id)).some((line) => line.startsWith("child "));
    await until("it has a child that sleeps", async () => (await childOf()) && seen.filter((what) => what === "child began").length === 3);
    const { items } = await import("onceflow/workflow/api").then(({ listRuns }) => listRuns({ store }));
    const only = items.find(({ parentId }) => parentId === other.id);
    await sleeps(store, only?.id ?? "");
    await other.terminate();
    await untilStatus(store, only?.id ?? "", "cancelled");
    expect((await story(store, only?.id ?? "")).slice(-2)).toEqual(["cancel run", "end cancelled"]);
    expect(seen.filter((what) => what.startsWith("child cleaned up"))).toHaveLength(1);
    expect(await getRun(foreign, { store }).status).toBe("running");
  });

  test("without a worker: the parent is terminated, and its child, which no code executes, too", async ({ scene }) => {
    const { child, note } = family(scene);
    const id = scene.name("only child");
    const parent = workflow(scene.name("parent"), async () => {
      await note("begun");
      await (await start(child, [3_600_000], { id })).returnValue;
    });
    const { store, worker } = await scene.work();
    const run = await start(parent, [], { store });
    await sleeps(store, id);
    await worker.stop();
    const outside = await scene.open();
    expect(await getRun(run.id, { store: outside }).terminate()).toMatchObject({ state: "ended", noWorker: true });
    // The mail is written with the end; a worker that has the workflow of the child reads it.
    await scene.work({}, outside);
    await untilStatus(outside, id, "cancelled");
  });

  test("a child whose workflow no worker has is ended by any worker", async ({ scene }) => {
    const { child, note } = family(scene);
    const id = scene.name("only child");
    const parent = workflow(scene.name("parent"), async () => {
      await note("begun");
      await (await start(child, [3_600_000], { id })).returnValue;
    });
    const unrelated = workflow(scene.name("unrelated"), async () => {});
    const { store, worker } = await scene.work();
    const run = await start(parent, [], { store });
    await sleeps(store, id);
    await worker.stop();
    const outside = await scene.open();
    await getRun(run.id, { store: outside }).terminate();
    await scene.work({ workflows: [unrelated], leaseMs: shortMs }, outside);
    await untilStatus(outside, id, "cancelled");
  });

  test("the option onCancel is refused outside of a workflow, and for a wrong value", async ({ scene }) => {
    const { child } = family(scene);
    const { store } = await scene.work();
    await expect(start(child, [1], { store, onCancel: "wait" })).rejects.toThrow(ContextError);
    await expect(start(child, [1], { store, onCancel: "wait" })).rejects.toThrow(
      'the option "onCancel" of start can only be used in a workflow, which starts a child run',
    );
    await expect(start(child, [1], { store, onCancel: "keep" as never })).rejects.toThrow('onCancel: must be one of "cancel"');
    const inStep = step(scene.name("in step"), async () => await start(child, [1], { onCancel: "wait" }).catch(String));
    const run = await start(
      workflow(scene.name("run"), async () => await inStep()),
      [],
      { store },
    );
    expect(await run.returnValue).toContain("can only be used in a workflow");
  });
});
