import { getStepMetadata, sleep, step, workflow } from "onceflow/workflow";
import { getRun, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { story, untilStatus } from "../scene.js";

/** Resolves with the reason when the signal aborts. */
function untilAborted(signal: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    const end = () => resolve(String((signal.reason as Error).message));
    if (signal.aborted) end();
    else signal.addEventListener("abort", end);
  });
}

onStores("AbortController across steps", everyStore, (test) => {
  test("an abort by the workflow code reaches the body of a running step", async ({ scene }) => {
    const began = gate();
    const listen = step("listen", async (signal: AbortSignal) => {
      began.open();
      return await untilAborted(signal);
    });
    const look = step("look", async () => await began.opened);
    const order = workflow(scene.name("order"), async () => {
      const controller = new AbortController();
      const listening = listen(controller.signal);
      await look();
      controller.abort(new Error("no longer wanted"));
      return await listening;
    });
    const { store } = await scene.work();
    expect(await (await start(order, [], { store })).returnValue).toBe("no longer wanted");
  });

  test("an abort by the workflow code is not journaled as an abort by a step", async ({ scene }) => {
    const began = gate();
    const listen = step("listen", async (controller: AbortController) => {
      began.open();
      return await untilAborted(controller.signal);
    });
    const look = step("look", async () => await began.opened);
    const order = workflow(scene.name("order"), async () => {
      const controller = new AbortController();
      const listening = listen(controller);
      await look();
      controller.abort(new Error("by the code"));
      return await listening;
    });
    const { store } = await scene.work();
    const run = await start(order, [], { store });
    expect(await run.returnValue).toBe("by the code");
    expect((await story(store, run.id)).filter((event) => event.startsWith("aborted"))).toEqual([]);
  });

  test("a signal inside an argument, aborted before the step is called, arrives as aborted", async ({ scene }) => {
    const listen = step("listen", async ({ signal, url }: { signal: AbortSignal; url: string }) => [url, await untilAborted(signal)]);
    const order = workflow(scene.name("order"), async () => {
      const controller = new AbortController();
      controller.abort(new Error("before"));
      return await listen({ url: "u", signal: controller.signal });
    });
    const { store } = await scene.work();
    expect(await (await start(order, [], { store })).returnValue).toEqual(["u", "before"]);
  });

  test("an abort by a step reaches the workflow code and the other steps before the step's result", async ({ scene }) => {
    const watch = step("watch", async (signal: AbortSignal) => await untilAborted(signal));
    const stop = step("stop", async (controller: AbortController) => {
      controller.abort(new TypeError("found elsewhere"));
      return controller.signal.aborted;
    });
    const order = workflow(scene.name("order"), async () => {
      const heard: unknown[] = [];
      const controller = new AbortController();
      controller.signal.addEventListener("abort", () => heard.push((controller.signal.reason as Error).name));
      const watching = watch(controller.signal);
      heard.push(await stop(controller), await watching);
      return heard;
    });
    const { store } = await scene.work();
    const run = await start(order, [], { store });
    expect(await run.returnValue).toEqual(["TypeError", true, "found elsewhere"]);
    expect(await story(store, run.id)).toContain("aborted stop#0 abort 0");
  });

  test("a replay aborts at the same place and runs no step again", async ({ scene }) => {
    const reached = gate();
    let stops = 0;
    const stop = step("stop", async (controller: AbortController) => {
      stops += 1;
      controller.abort("enough");
    });
    const last = step("last", async (heard: readonly string[]) => {
      if (getStepMetadata().attempt === 1) {
        reached.open();
        return await new Promise<never>(() => {});
      }
      return heard;
    });
    const order = workflow(scene.name("order"), async () => {
      const heard: string[] = [];
      const controller = new AbortController();
      controller.signal.addEventListener("abort", () => heard.push(String(controller.signal.reason)));
      await stop(controller);
      heard.push(controller.signal.aborted ? "aborted" : "not aborted");
      return await last(heard);
    });
    const doomed = await scene.workAndDie({ workflows: [order] });
    const run = await start(order, [], { store: doomed.store });
    await reached.opened;
    doomed.die();
    const { store } = await scene.work({ pollMs: 100, workflows: [order] });
    expect(await getRun(run.id, { store }).returnValue).toEqual(["enough", "aborted"]);
    expect(stops).toBe(1);
  });

  test("each attempt has its own signal, which follows the signal of the code", async ({ scene }) => {
    const seen: boolean[] = [];
    const flaky = step("flaky", async (controller: AbortController) => {
      seen.push(controller.signal.aborted);
      if (seen.length === 1) throw new Error("once");
      if (seen.length === 2) {
        controller.abort();
        throw new Error("twice");
      }
      return controller.signal.aborted;
    });
    flaky.options = { backoff: { minMs: 1 } };
    const order = workflow(scene.name("order"), async () => await flaky(new AbortController()));
    const { store } = await scene.work();
    expect(await (await start(order, [], { store })).returnValue).toBe(true);
    expect(seen).toEqual([false, false, true]);
  });

  test("other arguments beside a signal are still compared at a replay", async ({ scene }) => {
    const name = scene.name("order");
    const send = step("send", async (to: string, signal: AbortSignal) => `${to} ${signal.aborted}`);
    const make = (to: string) =>
      workflow(name, async () => {
        const sent = await send(to, new AbortController().signal);
        await sleep("1h");
        return sent;
      });
    const first = await scene.work({ workflows: [make("a")] });
    const run = await start(make("a"), [], { store: first.store });
    await first.worker.stop();
    const { store } = await scene.work({ workflows: [make("b")] });
    await run.wakeUp();
    await untilStatus(store, run.id, "diverged");
    expect(await getRun(run.id, { store }).trouble).toContain("other arguments");
  });
});
