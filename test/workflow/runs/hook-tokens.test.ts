import { InvalidInputError } from "onceflow";
import { createHook, getStepMetadata, HookConflictError, HookNotFoundError, sleep, step, workflow } from "onceflow/workflow";
import { getRun, resumeHook, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { story, untilReleased } from "../scene.js";

onStores("tokens of hooks", everyStore, (test) => {
  test("a token belongs to one active hook: getConflict reports the conflict, and awaiting the second hook rejects", async ({ scene }) => {
    const holder = workflow(scene.name("holder"), async () => await createHook({ token: "mine" }));
    const second = workflow(scene.name("second"), async () => {
      const hook = createHook({ token: "mine" });
      const conflict = await hook.getConflict();
      const rejected = await hook.then(
        () => "resolved",
        (error: unknown) => (error instanceof HookConflictError ? error.token : "another error"),
      );
      return [conflict instanceof HookConflictError, rejected];
    });
    const waiting = workflow(scene.name("waiting"), async () => {
      const hook = createHook({ token: "mine" });
      return await hook.then(
        () => "resolved",
        (error: Error) => error.name,
      );
    });
    const free = workflow(scene.name("free"), async () => {
      const hook = createHook({ token: "free" });
      return [await hook.getConflict(), await hook.getConflict()];
    });
    const { store } = await scene.work();
    const first = await start(holder, [], { store });
    expect(await (await start(second, [], { store })).returnValue).toEqual([true, "mine"]);
    expect(await (await start(waiting, [], { store })).returnValue).toBe("HookConflictError");
    expect(await (await start(free, [], { store })).returnValue).toEqual([null, null]);
    await resumeHook("mine", "for the first", { store });
    expect(await first.returnValue).toBe("for the first");
  });

  test("a conflict names the run that has the token, also after a replay", async ({ scene }) => {
    const holding = workflow(scene.name("holding"), async () => await createHook({ token: "t" }));
    const second = workflow(scene.name("second"), async (go: string) => {
      const hook = createHook({ token: "t" });
      const conflict = await hook.getConflict();
      const error = await Promise.resolve(hook).catch((thrown: HookConflictError) => thrown);
      const mine = createHook({ token: go });
      const twin = await createHook({ token: go }).getConflict();
      await mine;
      return [conflict?.runId, (error as HookConflictError).runId, twin?.runId];
    });
    const { store, worker } = await scene.work();
    const holder = await start(holding, [], { store });
    await until("the token is taken", async () => (await store.runs.hook("t")) !== undefined);
    const run = await start(second, ["go"], { store });
    await until("it waits", async () => (await store.runs.hook("go")) !== undefined);
    await untilReleased(store, run.id);
    await until("it has left memory", () => !worker.has(run.id));
    await resumeHook("go", null, { store });
    expect(await run.returnValue).toEqual([holder.id, holder.id, run.id]);
  });

  test("an uncaught conflict fails the run", async ({ scene }) => {
    const holder = workflow(scene.name("holder"), async () => await createHook({ token: "mine" }));
    const { store } = await scene.work();
    await start(holder, [], { store });
    await expect((await start(holder, [], { store })).returnValue).rejects.toThrow(/already in use by run/);
  });

  test("two hooks of one run cannot share a token either", async ({ scene }) => {
    const twice = workflow(scene.name("twice"), async () => {
      const [one, two] = [createHook({ token: "same" }), createHook({ token: "same" })];
      return [(await two.getConflict())?.name, await one.getConflict(), await one];
    });
    const { store } = await scene.work();
    const run = await start(twice, [], { store });
    await until("it is there", async () => (await story(store, run.id)).includes("hooked hook#1"));
    await resumeHook("same", "payload", { store });
    expect(await run.returnValue).toEqual(["HookConflictError", null, "payload"]);
  });

  test("the token is free again after dispose, after using and after the run's end", async ({ scene }) => {
    const disposing = workflow(scene.name("disposing"), async () => {
      const hook = createHook({ token: "t" });
      await hook;
      hook.dispose();
      await sleep("1h");
    });
    const ending = workflow(scene.name("ending"), async () => await createHook({ token: "t" }));
    const again = workflow(scene.name("again"), async () => {
      const first = createHook<string>({ token: "t" });
      const heard = [await first];
      first[Symbol.dispose]();
      const second = createHook<string>({ token: "t" });
      heard.push(await second);
      return heard;
    });
    const { store } = await scene.work();
    const sleeping = await start(disposing, [], { store });
    await resumeHook("t", 1, { store });
    await until("it is disposed of", async () => (await story(store, sleeping.id)).includes("drop hook#0"));
    await expect(resumeHook("t", 2, { store })).rejects.toThrow(HookNotFoundError);
    const second = await start(ending, [], { store });
    await resumeHook("t", "for the second", { store });
    expect(await second.returnValue).toBe("for the second");
    const third = await start(again, [], { store });
    await resumeHook("t", "one", { store });
    await until("the next hook is there", async () => (await story(store, third.id)).includes("hook hook#1"));
    await resumeHook("t", "two", { store });
    expect(await third.returnValue).toEqual(["one", "two"]);
    await expect(resumeHook("t", 3, { store })).rejects.toThrow(HookNotFoundError);
  });

  test("the token is free again after a cancel and after a failure", async ({ scene }) => {
    const holder = workflow(scene.name("holder"), async (fail: boolean) => {
      const hook = createHook({ token: "t" });
      await hook.getConflict();
      if (fail) throw new Error("no");
      return await hook;
    });
    const { store } = await scene.work();
    await expect((await start(holder, [true], { store })).returnValue).rejects.toThrow("no");
    const cancelled = await start(holder, [false], { store });
    await cancelled.cancel();
    await expect(cancelled.returnValue).rejects.toThrow("cancelled");
    const third = await start(holder, [false], { store });
    await resumeHook("t", "free", { store });
    expect(await third.returnValue).toBe("free");
  });

  test("a hook without a token gets an unguessable one, which stays the same after a takeover", async ({ scene }) => {
    const tokens: string[] = [];
    const publish = step("publish", async (token: string) => void tokens.push(token));
    const secret = workflow(scene.name("secret"), async () => {
      const hook = createHook<number>();
      await publish(hook.token);
      const first = await hook;
      await publish(hook.token);
      return first;
    });
    const doomed = await scene.workAndDie();
    const run = await start(secret, [], { store: doomed.store });
    await until("the step has published the token", () => tokens.length === 1);
    doomed.die();
    const { store } = await scene.work();
    await until("the next worker has it", async () => (await story(store, run.id)).some((line) => line.startsWith("claim")));
    await resumeHook(tokens[0] ?? "", 5, { store });
    expect(await getRun(run.id, { store }).returnValue).toBe(5);
    expect(tokens[0]).toMatch(/^[\w-]{32}$/);
    expect(new Set(tokens).size).toBe(1);
  });

  test("a conflict is the same after a takeover", async ({ scene }) => {
    const holder = workflow(scene.name("holder"), async () => await createHook({ token: "mine" }));
    const reached = gate();
    const hold = step("hold", async () => {
      reached.open();
      if (getStepMetadata().attempt === 1) await new Promise(() => {});
    });
    const second = workflow(scene.name("second"), async () => {
      const hook = createHook({ token: "mine" });
      const conflict = await hook.getConflict();
      await hold();
      return conflict?.name ?? null;
    });
    const { store } = await scene.work({ workflows: [holder] });
    const holding = await start(holder, [], { store });
    const doomed = await scene.workAndDie({ workflows: [second] });
    const run = await start(second, [], { store: doomed.store });
    await reached.opened;
    doomed.die();
    await resumeHook("mine", 1, { store });
    await holding.returnValue;
    const next = await scene.work({ workflows: [second] });
    expect(await getRun(run.id, { store: next.store }).returnValue).toBe("HookConflictError");
  });

  test("invalid tokens are refused in the workflow", async ({ scene }) => {
    const bad = workflow(scene.name("bad"), async () => {
      const errors: boolean[] = [];
      for (const token of ["", "x".repeat(513), 5]) {
        try {
          void createHook({ token: token as string });
        } catch (error) {
          errors.push(error instanceof InvalidInputError);
        }
      }
      return errors;
    });
    const { store } = await scene.work();
    expect(await (await start(bad, [], { store })).returnValue).toEqual([true, true, true]);
  });
});
