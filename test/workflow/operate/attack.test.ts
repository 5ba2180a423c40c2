import { createHook, FatalError, getStepMetadata, getWritable, sleep, step, workflow } from "onceflow/workflow";
import { deleteRun, forkRun, getHookByToken, getRun, readJournal, resolveStep, resumeHook, retryRun, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores } from "../../kit/scene.js";
import { settled, until } from "../../kit/until.js";
import { heldAt, untilReleased, untilStatus } from "../scene.js";

/** A bank that is down until the test says otherwise. */
class Bank {
  isDown = true;
  calls = 0;

  readonly charge = step("charge", async (): Promise<string> => {
    this.calls += 1;
    if (this.isDown) throw new FatalError("the bank is down");
    return "charged";
  });
}

onStores("a retried run that has ended again", everyStore, (test) => {
  test("does not keep its first worker busy when a body of the first epoch ends", async ({ scene }) => {
    const [called, freed] = [gate(), gate()];
    const bank = new Bank();
    let packs = 0;
    const pack = step(
      "pack",
      async () => {
        packs += 1;
        called.open();
        if (packs === 1) await freed.opened;
        return packs;
      },
      { graceMs: 10 },
    );
    const order = workflow(scene.name("order"), async () => {
      const packed = pack();
      await called.opened;
      return await Promise.all([bank.charge(), packed]);
    });
    const { store, worker } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store });
    await untilStatus(store, "o-1", "failed");
    await retryRun("o-1", { store });
    await until("it has failed again", async () => bank.calls === 2 && (await getRun("o-1", { store }).status) === "failed");
    // The journal is read again and again, until the test ends, if the worker does not notice the later epoch.
    const { journal } = store.runs;
    let reads = 0;
    store.runs.journal = async (...query) => {
      reads += 1;
      if (reads > 100) await new Promise(() => {});
      return await journal.apply(store.runs, query);
    };
    freed.open();
    await settled(300);
    await worker.stop();
    expect(reads).toBeLessThan(10);
  });

  test("gets no more time after the second retry than after the first", async ({ scene }) => {
    const bank = new Bank();
    const order = workflow(scene.name("order"), async () => await bank.charge());
    const pause = workflow(scene.name("pause"), async () => await sleep(300));
    const { store } = await scene.work({ workflows: [order, pause] });
    await start(order, [], { id: "o-1", store, timeoutMs: 60_000 });
    const given: number[] = [];
    for (let retries = 0; retries < 3; retries++) {
      await until("it has failed", async () => bank.calls === retries + 1 && (await getRun("o-1", { store }).status) === "failed");
      // Time passes between the failure and the retry.
      await (await start(pause, [], { store })).returnValue;
      await retryRun("o-1", { store });
      const run = await store.runs.read("o-1");
      const entry = (await store.runs.journal("o-1", 0, 100)).findLast(({ events }) => events.includes('"retry"'));
      given.push((run?.deadlineAt ?? 0) - (entry?.at ?? 0));
    }
    expect(given.every((ms) => ms >= 60_000 && ms < 60_250)).toBe(true);
  });
});

onStores("a child run with a chosen id", everyStore, (test) => {
  test("that ended while its parent had ended is found when the parent is retried", async ({ scene }) => {
    const bank = new Bank();
    const opened = gate();
    const pack = step("pack", async () => {
      await opened.opened;
      return "packed";
    });
    const child = workflow(scene.name("child"), async () => await pack());
    const parent = workflow(scene.name("parent"), async () => {
      const run = await start(child, [], { id: "c-1" });
      return [await bank.charge(), await run.returnValue];
    });
    const { store } = await scene.work({ workflows: [child, parent] });
    await start(parent, [], { id: "p-1", store });
    await untilStatus(store, "p-1", "failed");
    opened.open();
    await untilStatus(store, "c-1", "completed");
    bank.isDown = false;
    await retryRun("p-1", { store });
    expect(await getRun("p-1", { store }).returnValue).toEqual(["charged", "packed"]);
  });

  test("that failed is retried with its parent, which gets one end", async ({ scene }) => {
    const bank = new Bank();
    const child = workflow(scene.name("child"), async () => await bank.charge());
    const parent = workflow(scene.name("parent"), async () => await (await start(child, [], { id: "c-1" })).returnValue);
    const { store } = await scene.work({ workflows: [child, parent] });
    await start(parent, [], { id: "p-1", store });
    await untilStatus(store, "p-1", "failed");
    bank.isDown = false;
    expect(await retryRun("p-1", { store })).toMatchObject({ children: ["c-1"] });
    expect(await getRun("p-1", { store }).returnValue).toBe("charged");
    expect(bank.calls).toBe(2);
  });

  test("that began after the failure, and is forgotten by force, is found again with its result", async ({ scene }) => {
    const bank = new Bank();
    const child = workflow(scene.name("child"), async () => "notified");
    const parent = workflow(scene.name("parent"), async () => {
      const [charged] = await Promise.allSettled([bank.charge()]);
      const notified = await (await start(child, [], { id: "n-1" })).returnValue;
      if (charged.status === "rejected") throw charged.reason as Error;
      return notified;
    });
    const { store } = await scene.work({ workflows: [child, parent] });
    await start(parent, [], { id: "p-1", store });
    await untilStatus(store, "p-1", "failed");
    bank.isDown = false;
    await retryRun("p-1", { store, force: ["n-1"] });
    expect(await getRun("p-1", { store }).returnValue).toBe("notified");
  });
});

onStores("a fork", everyStore, (test) => {
  test("with the keys of the original has its step ids, also if nothing is copied", async ({ scene }) => {
    const stepIds: string[] = [];
    const charge = step("charge", async () => void stepIds.push(getStepMetadata().stepId));
    const order = workflow(scene.name("order"), async () => await charge());
    const { store } = await scene.work({ workflows: [order] });
    await (await start(order, [], { id: "o-1", store })).returnValue;
    await forkRun("o-1", { store, from: "charge#0", keys: "same", id: "o-2" });
    await getRun("o-2", { store }).returnValue;
    expect(stepIds[1]).toBe(stepIds[0]);
  });

  test("of a retried run, from a call that was made before and after the retry, begins after the retry", async ({ scene }) => {
    const bank = new Bank();
    const order = workflow(scene.name("order"), async () => {
      const [charged] = await Promise.allSettled([bank.charge()]);
      await sleep(1);
      if (charged.status === "rejected") throw charged.reason as Error;
      return charged.value;
    });
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store });
    await untilStatus(store, "o-1", "failed");
    bank.isDown = false;
    await retryRun("o-1", { store });
    await getRun("o-1", { store }).returnValue;
    await forkRun("o-1", { store, from: "sleep#0", id: "o-2" });
    expect(await getRun("o-2", { store }).returnValue).toBe("charged");
    expect(bank.calls).toBe(2);
  });

  test("of a run that was paused while two steps ended does not diverge, from any call", async ({ scene }) => {
    const [called, release] = [gate(), gate()];
    let packs = 0;
    const pack = step("pack", async (what: string) => {
      packs += 1;
      if (packs === 2) called.open();
      await release.opened;
      return what;
    });
    const ship = step("ship", async (what: string) => what);
    const order = workflow(scene.name("order"), async () => {
      const branch = async (what: string) => await ship(await pack(what));
      return await Promise.all([branch("a"), branch("b")]);
    });
    const { store } = await scene.work({ workflows: [order] });
    const run = await start(order, [], { id: "o-1", store });
    await called.opened;
    await run.pause();
    release.open();
    await untilStatus(store, "o-1", "paused");
    await run.resume();
    await run.returnValue;
    const journal = await readJournal("o-1", { store });
    const resumed = journal.find(({ type }) => type === "resume");
    const { seq = 0, index = 0 } = resumed ?? {};
    for (const from of ["ship#0", { seq, index }]) {
      const { forkId } = await forkRun("o-1", { store, from });
      await until("the fork has left the worker", async () => !["pending", "running"].includes(await getRun(forkId, { store }).status));
      expect(await getRun(forkId, { store }).status).toBe("completed");
    }
    expect(packs).toBe(2);
  });
});

onStores("a retry", everyStore, (test) => {
  test("does not give a payload that a forgotten hook has not read to the hook that the code creates in its place", async ({ scene }) => {
    const bank = new Bank();
    const [review, delivery] = [scene.name("review"), scene.name("delivery")];
    const order = workflow(scene.name("order"), async () => {
      const [charged] = await Promise.allSettled([bank.charge()]);
      if (charged.status === "fulfilled") return await createHook<string>({ token: delivery });
      await Promise.race([createHook<string>({ token: review }), sleep(200)]);
      throw charged.reason as Error;
    });
    const inner = await scene.open();
    const held = heldAt(inner, "woke sleep#0");
    await scene.work({ workflows: [order] }, held.store);
    await start(order, [], { id: "o-1", store: held.store });
    await held.reached;
    await resumeHook(review, "reviewed", { store: inner });
    held.free();
    await untilStatus(inner, "o-1", "failed");
    await expect(retryRun("o-1", { store: inner })).rejects.toMatchObject({ because: "begunAfter", ids: ["hook#0"] });
    bank.isDown = false;
    await retryRun("o-1", { store: inner, force: ["hook#0"] });
    await until("the hook is open", async () => await getHookByToken(delivery, { store: inner }));
    await resumeHook(delivery, "delivered", { store: inner });
    expect(await getRun("o-1", { store: inner }).returnValue).toBe("delivered");
  });

  test("with an action id that was used has its first answer, also if its child was retried by hand meanwhile", async ({ scene }) => {
    const bank = new Bank();
    const child = workflow(scene.name("child"), async () => await bank.charge());
    const parent = workflow(scene.name("parent"), async () => await (await start(child)).returnValue);
    const { store } = await scene.work({ workflows: [child, parent] });
    await start(parent, [], { id: "p-1", store });
    await untilStatus(store, "p-1", "failed");
    bank.isDown = false;
    let acts = 0;
    const commit = async (batch: { run?: { verb: string } }) => {
      if (batch.run?.verb === "act" && ++acts === 2) throw new Error("the process dies");
      return await store.commit(batch as never);
    };
    const dying = Object.create(store, { commit: { value: commit } }) as typeof store;
    const [childId = ""] = (await retryRun("p-1", { store, dryRun: true })).children;
    await expect(retryRun("p-1", { store: dying, actionId: "a-1" })).rejects.toThrow("the process dies");
    await untilReleased(store, "p-1");
    await retryRun(childId, { store });
    expect(await getRun("p-1", { store }).returnValue).toBe("charged");
    expect(await retryRun("p-1", { store, actionId: "a-1" })).toMatchObject({ repeated: true, children: [childId] });
  });
});

onStores("wrong options of an action", ["memory"], (test) => {
  test("are refused with their name, and nothing is done", async ({ scene }) => {
    const bank = new Bank();
    const order = workflow(scene.name("order"), async () => await bank.charge());
    const { store } = await scene.work({ workflows: [order] });
    await start(order, [], { id: "o-1", store });
    await untilStatus(store, "o-1", "failed");
    const step = { runId: "o-1", stepId: "none", attempt: 1, store };
    const calls: [string, () => Promise<unknown>][] = [
      ["from", () => forkRun("o-1", { store } as never)],
      ["from", () => forkRun("o-1", { store, from: null } as never)],
      ["idx", () => forkRun("o-1", { store, from: { seq: 1, idx: 0 } } as never)],
      ["forkRun", () => forkRun("o-1", undefined as never)],
      ["retryRun", () => retryRun("o-1", null as never)],
      ["dryRun", () => retryRun("o-1", { store, dryRun: "false" } as never)],
      ["dryRun", () => deleteRun("o-1", { store, reason: "test", dryRun: 0 } as never)],
      ["dryRun", () => resolveStep({ reason: "test", ...step, dryRun: "no" } as never, "notApplied")],
      ["reason", () => resolveStep(step as never, "notApplied")],
      ["reason", () => resolveStep({ ...step, reason: "" }, "notApplied")],
      ["actor", () => resolveStep({ ...step, reason: "test", actor: "" }, "notApplied")],
      ["actionId", () => resolveStep({ ...step, reason: "test", actionId: "" }, "notApplied")],
      ["ifStatus", () => resolveStep({ ...step, reason: "test", ifStatus: "broken" } as never, "notApplied")],
      ["stepId", () => resolveStep({ ...step, reason: "test", stepId: "" }, "notApplied")],
      ["attempt", () => resolveStep({ ...step, reason: "test", attempt: 0.5 }, "notApplied")],
    ];
    for (const [name, call] of calls)
      await expect(call()).rejects.toMatchObject({ code: "INVALID_INPUT", message: expect.stringContaining(name) });
    expect(await getRun("o-1", { store }).status).toBe("failed");
    expect(await store.runs.list({ limit: 10 })).toHaveLength(1);
  });
});

async function chunksOf(stream: AsyncIterable<unknown>): Promise<unknown[]> {
  const chunks: unknown[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

onStores("a stream of a retried run", everyStore, (test) => {
  test("has what the code wrote before the failure and after the retry; its former end does not count", async ({ scene }) => {
    const bank = new Bank();
    const order = workflow(scene.name("order"), async () => {
      const writer = getWritable<string>().getWriter();
      await writer.write("started");
      try {
        await bank.charge();
        await writer.write("charged");
      } catch (error) {
        await writer.write("failed");
        await writer.write("for good");
        throw error;
      } finally {
        await writer.close();
      }
    });
    const { store } = await scene.work({ workflows: [order] });
    const run = await start(order, [], { id: "o-1", store });
    await untilStatus(store, "o-1", "failed");
    expect(await chunksOf(run.readable)).toEqual(["started", "failed", "for good"]);
    await retryRun("o-1", { store });
    await untilStatus(store, "o-1", "failed");
    bank.isDown = false;
    await retryRun("o-1", { store });
    await untilStatus(store, "o-1", "completed");
    expect(await chunksOf(run.readable)).toEqual(["started", "charged"]);
  });
});

onStores("a stream to which a step has written that a retry forgets by force", everyStore, (test) => {
  test("has nothing of that step any more, not even its end, and what the step writes anew", async ({ scene }) => {
    const bank = new Bank();
    const notify = step("notify", async (text: string) => {
      const writer = getWritable<string>().getWriter();
      await writer.write(`${text} 1`);
      await writer.write(`${text} 2`);
      await writer.close();
    });
    const order = workflow(scene.name("order"), async () => {
      const writer = getWritable<string>().getWriter();
      await writer.write("started");
      writer.releaseLock();
      const [charged] = await Promise.allSettled([bank.charge()]);
      await notify(charged.status === "rejected" ? "failed" : "charged");
      if (charged.status === "rejected") throw charged.reason as Error;
    });
    const { store } = await scene.work({ workflows: [order] });
    const run = await start(order, [], { id: "o-1", store });
    await untilStatus(store, "o-1", "failed");
    expect(await chunksOf(run.readable)).toEqual(["started", "failed 1", "failed 2"]);
    bank.isDown = false;
    await retryRun("o-1", { store, force: ["notify#0"] });
    await untilStatus(store, "o-1", "completed");
    expect(await chunksOf(run.readable)).toEqual(["started", "charged 1", "charged 2"]);
  });
});

onStores("a cancellation that came as the run failed", everyStore, (test) => {
  test("does not cancel the run after a retry", async ({ scene }) => {
    const bank = new Bank();
    const order = workflow(scene.name("order"), async () => await bank.charge());
    const inner = await scene.open();
    const held = heldAt(inner, "fail charge#0");
    await scene.work({ workflows: [order] }, held.store);
    const run = await start(order, [], { id: "o-1", store: held.store });
    await held.reached;
    await getRun("o-1", { store: inner }).cancel();
    held.free();
    await untilStatus(inner, "o-1", "failed");
    bank.isDown = false;
    await retryRun("o-1", { store: inner });
    expect(await run.returnValue).toBe("charged");
  });
});
