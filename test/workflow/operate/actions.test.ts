import type { Store } from "onceflow";
import { createHook, FatalError, getStepMetadata, step, workflow } from "onceflow/workflow";
import { getRun, resumeHook, start } from "onceflow/workflow/api";
import { describe, expect, test as plain } from "vitest";
import * as operate from "../../../src/operate/runs.js";
import { everyStore, onStores, type Scene } from "../../kit/scene.js";
import { story, untilReleased, untilStatus } from "../scene.js";

/** A run in the state in which an action makes sense, and how the action is done and seen. */
interface Case {
  readonly name: string;
  /** Starts run "r-1" and resolves when it is in that state. */
  readonly prepare: (scene: Scene, store: Store) => Promise<void>;
  readonly act: (store: Store, options: operate.Operator & { readonly reason: string }) => Promise<object>;
  /** A status that the run does not have then. */
  readonly otherStatus: "completed" | "running";
  readonly needsReason?: boolean;
}

const charged: string[] = [];

async function startFailed(scene: Scene, store: Store): Promise<void> {
  const charge = step("charge", async () => {
    charged.push(getStepMetadata().stepId);
    throw new FatalError("the bank is down");
  });
  await start(
    workflow(scene.name("failing"), async () => await charge()),
    [],
    { id: "r-1", store },
  );
  await untilStatus(store, "r-1", "failed");
}

async function startWaiting(scene: Scene, store: Store): Promise<void> {
  const touch = step("touch", async () => "touched");
  const waiting = workflow(scene.name("waiting"), async () => {
    const hook = createHook<string>({ token: "t" });
    await touch();
    return await hook;
  });
  await start(waiting, [], { id: "r-1", store });
  await untilReleased(store, "r-1");
}

const cases: readonly Case[] = [
  { name: "retry", prepare: startFailed, act: (store, options) => operate.retry(store, "r-1", options), otherStatus: "running" },
  {
    name: "resolve",
    prepare: startFailed,
    act: (store, options) =>
      operate.resolve(store, "r-1", { stepId: charged.at(-1) ?? "", attempt: 1, as: { completed: "in cash" } }, options),
    otherStatus: "running",
    needsReason: true,
  },
  {
    name: "fork",
    prepare: startFailed,
    act: (store, options) => operate.fork(store, "r-1", { ...options, from: "charge#0", id: "f-1" }),
    otherStatus: "running",
  },
  {
    name: "delete",
    prepare: startFailed,
    act: (store, options) => operate.remove(store, "r-1", options),
    otherStatus: "running",
    needsReason: true,
  },
  { name: "cancel", prepare: startWaiting, act: (store, options) => operate.cancel(store, "r-1", options), otherStatus: "completed" },
  {
    name: "terminate",
    prepare: startWaiting,
    act: (store, options) => operate.terminate(store, "r-1", options),
    otherStatus: "completed",
    needsReason: true,
  },
  {
    name: "pause",
    prepare: startWaiting,
    act: (store, options) => operate.pause(store, "r-1", { ...options, waitMs: 0 }),
    otherStatus: "completed",
  },
  { name: "resume", prepare: startWaiting, act: (store, options) => operate.resume(store, "r-1", options), otherStatus: "completed" },
  {
    name: "deliver",
    prepare: startWaiting,
    act: (store, options) => operate.deliver(store, { token: "t", payload: "p" }, options),
    otherStatus: "completed",
  },
];

/** Everything that an action could change. */
async function everything(store: Store): Promise<unknown> {
  const runs = await store.runs.list({ limit: 10 });
  const mail = await Promise.all(runs.map(({ id }) => store.runs.mail(id, 0)));
  return [runs, mail, await Promise.all(runs.map(({ id }) => story(store, id))), await store.runs.log({ limit: 10 })];
}

/** Whether a worker is there is looked up again. */
function answerOf({ noWorker: _, ...answer }: { readonly noWorker?: boolean }): object {
  return answer;
}

onStores("an operator's action", everyStore, (test) => {
  for (const { name, prepare, act, otherStatus } of cases) {
    test(`${name}: a dry run and a refused action change nothing; done once, it answers alike when it is sent again`, async ({ scene }) => {
      const { store, worker } = await scene.work({});
      await prepare(scene, store);
      // From here on no worker changes the run.
      await worker.stop();
      const before = await everything(store);
      expect(await act(store, { actor: "ada", reason: "test", dryRun: true })).toMatchObject({ dryRun: true });
      const stale = act(store, { actor: "ada", reason: "test", ifStatus: otherStatus });
      await expect(stale).rejects.toMatchObject({ code: "STALE", retryable: true });
      expect(await everything(store)).toEqual(before);

      const first = await act(store, { actor: "ada", reason: "test", actionId: "a-1" });
      const done = await everything(store);
      expect(first).toMatchObject({ actionId: "a-1", repeated: false, dryRun: false });
      expect(await act(store, { actor: "ada", reason: "test", actionId: "a-1" })).toMatchObject({ ...answerOf(first), repeated: true });
      expect(await everything(store)).toEqual(done);
      expect(await operate.log(store)).toMatchObject([{ actionId: "a-1", actor: "ada", action: name, runId: "r-1", reason: "test" }]);
    });
  }

  test("wake: it is logged, too", async ({ scene }) => {
    const { store } = await scene.work({});
    await startWaiting(scene, store);
    await operate.wake(store, "r-1", { actor: "ada" });
    expect(await operate.log(store)).toMatchObject([{ action: "wake", actor: "ada" }]);
    await resumeHook("t", "payload", { store });
    expect(await getRun("r-1", { store }).returnValue).toBe("payload");
  });
});

describe("every action of an operator", () => {
  plain.each(cases)("$name: needs an actor, and a reason if it cannot be undone", async ({ act, needsReason }) => {
    const { open } = await import("onceflow");
    const store = await open("memory:");
    await expect(act(store, { actor: "", reason: "test" })).rejects.toMatchObject({ code: "INVALID_INPUT", field: "actor" });
    const missing = act(store, { actor: "ada", reason: undefined as never });
    await expect(missing).rejects.toMatchObject(
      needsReason ? { code: "INVALID_INPUT", field: "reason" } : { name: expect.stringMatching(/NotFoundError$/) },
    );
    await expect(act(store, { actor: "ada", reason: "test", dryrun: true } as never)).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await store.close();
  });
});
