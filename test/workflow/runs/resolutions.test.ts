import { NotKnownError, NotUnknownError, type Store } from "onceflow";
import { createHook, getStepMetadata, sleep, step, type Workflow, workflow } from "onceflow/workflow";
import { getRun, readAttempts, readJournal, resolveStep, resumeHook, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores, type Scene, shortMs } from "../../kit/scene.js";
import { settled, until } from "../../kit/until.js";
import { heldAt, untilStatus } from "../scene.js";

/** A step of class atMostOnce whose first attempt dies with its process; later attempts return their number. */
class Deed {
  readonly reached = gate<string>();
  calls = 0;
  readonly step = step(
    "deed",
    async (): Promise<string> => {
      const { stepId, attempt } = getStepMetadata();
      this.calls += 1;
      this.reached.open(stepId);
      if (attempt === 1) await new Promise(() => {});
      return `attempt ${attempt}`;
    },
    { effect: "atMostOnce" },
  );
}

/** A step that reports when its second attempt runs, and is held there. */
class Branch {
  readonly busy = gate();
  readonly freed = gate();
  readonly step = step("branch", async (): Promise<string> => {
    if (getStepMetadata().attempt === 1) await new Promise(() => {});
    this.busy.open();
    await this.freed.opened;
    return "done";
  });
}

async function dieIn(scene: Scene, deed: Deed, run: Workflow<[], unknown>, id: string): Promise<string> {
  const doomed = await scene.workAndDie({ workflows: [run] });
  await start(run, [], { id, store: doomed.store });
  const stepId = await deed.reached.opened;
  doomed.die();
  return stepId;
}

async function verdicts(store: Store, run: string, stepId: string): Promise<string[]> {
  const attempts = await readAttempts(run, stepId, { store });
  return attempts.map(({ attempt, verdict, how }) => [attempt, verdict, how].filter((part) => part !== undefined).join(" "));
}

onStores("a person's resolution", everyStore, (test) => {
  for (const resolution of ["notApplied", { completed: "said by a person" }] as const) {
    const what = resolution === "notApplied" ? resolution : "completed";
    test(`"${what}" during the grace of a stop, while another branch is busy, is not lost`, async ({ scene }) => {
      const deed = new Deed();
      const branch = new Branch();
      const order = workflow(scene.name("order"), async () => await Promise.all([deed.step(), branch.step()]));
      const stepId = await dieIn(scene, deed, order, "o-1");
      const watched = heldAt(await scene.open(), "nothing");
      const { store, worker } = await scene.work({ workflows: [order], leaseMs: shortMs }, watched.store);
      await branch.busy.opened;
      await until("the deed is in doubt", async () => (await verdicts(store, "o-1", stepId))[0]?.startsWith("1 unknown"));
      const stopped = worker.stop({ graceMs: 20_000 });
      await resolveStep({ reason: "test", runId: "o-1", stepId, attempt: 1, store }, resolution);
      await watched.heard;
      await settled();
      branch.freed.open();
      await stopped;
      const next = await scene.work({ workflows: [order] });
      const expected = resolution === "notApplied" ? "attempt 2" : "said by a person";
      expect(await getRun("o-1", { store: next.store }).returnValue).toEqual([expected, "done"]);
      expect(deed.calls).toBe(resolution === "notApplied" ? 2 : 1);
      expect((await verdicts(next.store, "o-1", stepId))[0]).toBe(`1 ${resolution === "notApplied" ? "failed" : "completed"} resolved`);
    });
  }

  test("is not lost by a stop without grace in the turn in which the mail arrived", async ({ scene }) => {
    const deed = new Deed();
    const branch = new Branch();
    const order = workflow(scene.name("order"), async () => {
      const hook = createHook<string>({ token: "t" });
      return await Promise.all([deed.step(), branch.step(), hook, sleep("1h").then(() => "woken")]);
    });
    const stepId = await dieIn(scene, deed, order, "o-1");
    const watched = heldAt(await scene.open(), "nothing");
    const { store, worker } = await scene.work({ workflows: [order], leaseMs: shortMs }, watched.store);
    await branch.busy.opened;
    await until("the deed is in doubt", async () => (await verdicts(store, "o-1", stepId))[0]?.startsWith("1 unknown"));
    const outside = await scene.open();
    await resolveStep({ reason: "test", runId: "o-1", stepId, attempt: 1, store: outside }, { completed: "said by a person" });
    await getRun("o-1", { store: outside }).wakeUp();
    await resumeHook("t", "payload", { store: outside });
    // This promise continues in the turn in which the worker gets its mail, before the code gets its answers.
    await watched.heard;
    await worker.stop({ graceMs: 0 });
    branch.freed.open();
    const next = await scene.work({ workflows: [order] });
    expect(await getRun("o-1", { store: next.store }).returnValue).toEqual(["said by a person", "done", "payload", "woken"]);
  });

  test("succeeds exactly once among ten concurrent calls from two processes; the others throw NotUnknownError", async ({ scene }) => {
    const deed = new Deed();
    const order = workflow(scene.name("order"), async () => await deed.step());
    const stepId = await dieIn(scene, deed, order, "o-1");
    const { store, worker } = await scene.work({ workflows: [order] });
    await untilStatus(store, "o-1", "unknown");
    await worker.stop();
    const handles = [store, await scene.open()];
    const calls = Array.from({ length: 10 }, (_, i) =>
      resolveStep({ reason: "test", runId: "o-1", stepId, attempt: 1, store: handles[i % 2] as Store }, { completed: `person ${i}` }),
    );
    const answers = await Promise.allSettled(calls);
    const winners = answers.flatMap(({ status }, i) => (status === "fulfilled" ? [i] : []));
    expect(winners).toHaveLength(1);
    for (const answer of answers) if (answer.status === "rejected") expect(answer.reason).toBeInstanceOf(NotUnknownError);
    const next = await scene.work({ workflows: [order] });
    expect(await getRun("o-1", { store: next.store }).returnValue).toBe(`person ${winners[0]}`);
    const resolved = (await readJournal("o-1", { store })).filter(({ detail }) => detail.includes("resolved"));
    expect(resolved).toHaveLength(1);
  });

  test("succeeds for a caller whose reply was lost", async ({ scene }) => {
    const deed = new Deed();
    const order = workflow(scene.name("order"), async () => await deed.step());
    const stepId = await dieIn(scene, deed, order, "o-1");
    const { store } = await scene.work({ workflows: [order] });
    await untilStatus(store, "o-1", "unknown");
    const outside = await scene.open();
    let lost = 0;
    const commit = async (batch: never) => {
      const answer = await outside.commit(batch);
      if (lost++ === 0) throw new NotKnownError("the reply was lost");
      return answer;
    };
    const deaf = Object.create(outside, { commit: { value: commit } }) as Store;
    await resolveStep({ reason: "test", runId: "o-1", stepId, attempt: 1, store: deaf }, { completed: "heard" });
    expect(lost).toBe(2);
    expect(await getRun("o-1", { store }).returnValue).toBe("heard");
  });

  test('"notApplied" is journaled and does not use up a retry', async ({ scene }) => {
    const reached = gate<string>();
    let calls = 0;
    const deed = step(
      "deed",
      async () => {
        calls += 1;
        reached.open(getStepMetadata().stepId);
        if (calls === 1) await new Promise(() => {});
        return calls;
      },
      { effect: "atMostOnce", maxRetries: 0 },
    );
    const order = workflow(scene.name("order"), async () => await deed());
    const doomed = await scene.workAndDie({ workflows: [order] });
    await start(order, [], { id: "o-1", store: doomed.store });
    const stepId = await reached.opened;
    doomed.die();
    const { store } = await scene.work({ workflows: [order] });
    await untilStatus(store, "o-1", "unknown");
    await resolveStep({ reason: "test", runId: "o-1", stepId, attempt: 1, store }, "notApplied");
    expect(await getRun("o-1", { store }).returnValue).toBe(2);
    expect(await verdicts(store, "o-1", stepId)).toEqual(["1 failed resolved", "2 completed"]);
  });
});
