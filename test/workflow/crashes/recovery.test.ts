import type { SqliteTx, Store, Tx } from "onceflow";
import { type EffectServer, serveEffects } from "onceflow/testing";
import { createHook, getStepMetadata, sleep, step, workflow } from "onceflow/workflow";
import { getRun, listRuns, readAttempts, readJournal, resumeHook, start } from "onceflow/workflow/api";
import type pg from "pg";
import { expect } from "vitest";
import { gate } from "../../kit/gate.js";
import { takeTurns } from "../../kit/heavy.js";
import { durableStores, everyStore, onStores, type Scene } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { Process } from "../process.js";
import { story, untilReleased } from "../scene.js";

takeTurns();

const leaseMs = 2500;

/** Has the name of the workflow in the processes: if a worker of this process took the run over, this body would fail it. */
const computed = workflow("process computed", async (_ms: number) => Promise.reject(new Error("it was taken over")));

async function provider(scene: Scene, latencyMs = 0): Promise<EffectServer> {
  const served = await serveEffects({ honoursKeys: false, latencyMs: () => latencyMs });
  scene.onEnd(() => served.close());
  return served;
}

onStores("starts in several processes", durableStores, (test) => {
  test("20 starts of one id in 4 processes make one run and one call", async ({ scene }) => {
    const { url: providerUrl, effects } = await provider(scene);
    const fleet = await Promise.all([1, 2, 3, 4].map((n) => Process.of(scene, { providerUrl, ...(n < 4 ? { worker: {} } : {}) })));
    for (const each of fleet) each.send({ kind: "start", times: 5, workflow: "charge", id: "one", args: [] });
    const started = await Promise.all(fleet.map((each) => each.next("started")));
    expect(started.flatMap(({ ids }) => ids)).toEqual(Array(20).fill("one"));
    const store = await scene.open();
    expect(await getRun("one", { store }).returnValue).toMatch(/^effect-/);
    expect(effects.keys().map((key) => effects.rawCalls(key))).toEqual([1]);
    expect((await listRuns({ store })).items).toHaveLength(1);
  });

  test("a run is durable before start returns: the process that started it may die at once", async ({ scene }) => {
    const { url: providerUrl, effects } = await provider(scene);
    const worker = await Process.of(scene, { providerUrl, worker: { leaseMs: 1000 } });
    worker.send({ kind: "startAndDie", workflow: "held", id: "by a worker", args: [] });
    await worker.end("SIGCONT");
    const client = await Process.of(scene, { providerUrl });
    client.send({ kind: "startAndDie", workflow: "charge", id: "by a client", args: [] });
    await client.end("SIGCONT");
    const store = await scene.open();
    expect(await getRun("by a client", { store }).exists).toBe(true);
    expect(await story(store, "by a worker")).toEqual(["step hold#0"]);
    const next = await Process.of(scene, { providerUrl, worker: {} });
    next.send({ kind: "free" });
    expect(await getRun("by a client", { store }).returnValue).toMatch(/^effect-/);
    expect(await getRun("by a worker", { store }).returnValue).toMatch(/^attempt/);
    expect(effects.keys().map((key) => effects.rawCalls(key))).toEqual([1]);
  });
});

onStores("processes that die, stall or compute", durableStores, (test) => {
  test("a worker that is killed during a step loses the run to another worker after its lease expires, without a restart", async ({
    scene,
  }) => {
    const victim = await Process.of(scene, { worker: { leaseMs } });
    const survivor = await Process.of(scene, { worker: { leaseMs } });
    victim.send({ kind: "start", times: 1, workflow: "held", id: "r", args: [] });
    const { stepId } = await victim.next("called");
    await victim.end("SIGKILL");
    const store = await scene.open();
    const lapsesAt = Number((await store.runs.read("r"))?.wakeAt);
    expect(await survivor.next("called")).toMatchObject({ stepId, attempt: 2 });
    const claim = (await readJournal("r", { store })).find(({ type }) => type === "claim");
    expect(Number(claim?.at)).toBeGreaterThanOrEqual(lapsesAt);
    expect(await getRun("r", { store }).returnValue).toBe("attempt 2");
    const attempts = await readAttempts("r", stepId, { store });
    expect(attempts.map(({ verdict }) => verdict)).toEqual(["lapsed", "completed"]);
  });

  test("a stalled worker whose run was taken over cannot commit when it resumes, and its signal aborts", async ({ scene }) => {
    const stalled = await Process.of(scene, { worker: { leaseMs: 1000 } });
    stalled.send({ kind: "start", times: 1, workflow: "held", id: "r", args: [] });
    const { stepId } = await stalled.next("called");
    await stalled.stall();
    const next = await Process.of(scene, { worker: {} });
    expect(await next.next("called")).toMatchObject({ stepId, attempt: 2 });
    const store = await scene.open();
    expect(await getRun("r", { store }).returnValue).toBe("attempt 2");
    const journal = await readJournal("r", { store });
    stalled.signal("SIGCONT");
    expect((await stalled.next("aborted")).reason).toContain("this worker lost run");
    stalled.send({ kind: "free" });
    await stalled.next("ended");
    // One more turn, in which the stalled process would write its result.
    stalled.send({ kind: "measure", ms: 50 });
    await stalled.next("cpu");
    expect(await readJournal("r", { store })).toEqual(journal);
  });

  test("a stalled worker whose run was not taken over continues it as if nothing had happened", async ({ scene }) => {
    const stalled = await Process.of(scene, { worker: { leaseMs: 1000 } });
    stalled.send({ kind: "start", times: 1, workflow: "held", id: "r", args: [] });
    const { stepId } = await stalled.next("called");
    const store = await scene.open();
    await stalled.stall();
    const lapsesAt = Number((await store.runs.read("r"))?.wakeAt);
    await until(
      "its lease is over",
      async () => (await store.runs.claim({ owner: "clock reader", workflows: [], leaseMs, limit: 1 })).now > lapsesAt + 100,
    );
    stalled.signal("SIGCONT");
    stalled.send({ kind: "free" });
    expect(await getRun("r", { store }).returnValue).toBe("attempt 1");
    expect(await readAttempts("r", stepId, { store })).toHaveLength(1);
  });

  test("a step that blocks the event loop for longer than its lease does not lose it", async ({ scene }) => {
    const computing = await Process.of(scene, { worker: { leaseMs: 3000 } });
    const { store, worker } = await scene.work({ workflows: [computed] as never });
    computing.send({ kind: "start", times: 1, workflow: "computed", id: "r", args: [6500] });
    const { stepId } = await computing.next("called");
    let taken = 0;
    await until("it has ended", async () => {
      taken += await worker.tick();
      return taken > 0 || (await getRun("r", { store }).status) !== "running";
    });
    expect(taken).toBe(0);
    expect(await getRun("r", { store }).returnValue).toBe(1);
    expect(await readAttempts("r", stepId, { store })).toMatchObject([{ attempt: 1, verdict: "completed" }]);
  });

  test("a stopped worker finishes the steps in progress and releases waiting runs, and the next worker continues at once", async ({
    scene,
  }) => {
    const first = await Process.of(scene, { worker: {} });
    first.send({ kind: "start", times: 1, workflow: "held", id: "busy", args: [] });
    const { stepId } = await first.next("called");
    first.send({ kind: "start", times: 1, workflow: "waiting", id: "idle", args: ["t"] });
    await first.next("started");
    first.send({ kind: "stop" });
    first.send({ kind: "free" });
    await first.next("stopped");
    const store = await scene.open();
    for (const id of ["busy", "idle"]) expect((await store.runs.read(id))?.owner).toBeNull();
    await Process.of(scene, { worker: {} });
    await resumeHook("t", "resumed", { store });
    expect(await getRun("idle", { store }).returnValue).toBe("resumed");
    expect(await getRun("busy", { store }).returnValue).toBe("attempt 1");
    expect(await readAttempts("busy", stepId, { store })).toMatchObject([{ attempt: 1, verdict: "completed" }]);
  });
});

async function ask(tx: Tx, sql: string): Promise<Record<string, unknown>[]> {
  return "prepare" in tx
    ? ((tx as SqliteTx).prepare(sql).all() as Record<string, unknown>[])
    : (await (tx as pg.PoolClient).query(sql)).rows;
}

onStores("a process that is killed around the commit of a transaction", durableStores, (test) => {
  for (const [dies, row] of [
    ["before commit", "attempt 2"],
    ["after commit", "attempt 1"],
  ] as const) {
    test(`${dies}: leaves exactly one row, the one that the journal has`, async ({ scene }) => {
      const store = await scene.open();
      const table = scene.name("booked").replace(" ", "_");
      await store.transact((tx) => ask(tx, `CREATE TABLE ${table} (row_text text NOT NULL)`));
      const victim = await Process.of(scene, { dies, worker: { leaseMs: 1000 } });
      victim.send({ kind: "start", times: 1, workflow: "booked", id: "r", args: [table] });
      await victim.end("SIGCONT");
      await Process.of(scene, { worker: {} });
      expect(await getRun("r", { store }).returnValue).toBe(Number(row.at(-1)));
      const rows = await store.transact((tx) => ask(tx, `SELECT row_text FROM ${table}`));
      expect(rows.map((each) => each["row_text"])).toEqual([row]);
    });
  }
});

onStores("a graceful stop", everyStore, (test) => {
  test("lets bodies finish, begins nothing new, and the next worker continues without a counted crash", async ({ scene }) => {
    const [called, free] = [gate(), gate()];
    const attempts: string[] = [];
    const note = (name: string) => attempts.push(`${name} ${getStepMetadata().attempt}`);
    const first = step("first", async () => {
      note("first");
      called.open();
      await free.opened;
      return 1;
    });
    const second = step("second", async () => note("second"), { crashMax: 0 });
    const run = workflow(scene.name("run"), async () => [await first(), await second()]);
    const { store, worker } = await scene.work();
    const started = await start(run, [], { store });
    await called.opened;
    const stopped = worker.stop();
    free.open();
    await stopped;
    expect(attempts).toEqual(["first 1"]);
    expect(worker.running).toBe(0);
    expect((await store.runs.read(started.id))?.owner).toBeNull();
    const next = await scene.work();
    expect(await getRun(started.id, { store: next.store }).returnValue).toEqual([1, 2]);
    expect(attempts).toEqual(["first 1", "second 1"]);
    expect((await story(store, started.id)).filter((line) => line.startsWith("claim"))).toEqual([]);
  });

  test("begins nothing new while a claim is in progress, and releases the runs that the claim returns", async ({ scene }) => {
    const own = await scene.open();
    const [called, free, claiming, claimed] = [gate(), gate(), gate(), gate()];
    let holds = false;
    const claim: Store["runs"]["claim"] = async (query) => {
      if (holds) {
        claiming.open();
        await claimed.opened;
      }
      return await own.runs.claim(query);
    };
    const runs = { value: Object.create(own.runs, { claim: { value: claim } }) as unknown };
    const { store, worker } = await scene.work({}, Object.create(own, { runs }) as Store);
    const begun: string[] = [];
    const first = step("first", async () => {
      called.open();
      await free.opened;
    });
    const second = step("second", async () => void begun.push("second"));
    const run = workflow(scene.name("run"), async () => {
      await first();
      await second();
    });
    const endless = workflow(scene.name("endless"), async () => await new Promise(() => {}));
    const { id } = await start(run, [], { store });
    await called.opened;
    holds = true;
    const brought = await start(endless, [], { store: await scene.open() });
    const ticked = worker.tick();
    await claiming.opened;
    const stopped = worker.stop({ graceMs: 60_000 });
    free.open();
    await until("the first step is done", async () => (await story(own, id)).includes("done first#0"));
    claimed.open();
    await Promise.all([ticked, stopped]);
    expect(begun).toEqual([]);
    expect(await own.runs.read(brought.id)).toMatchObject({ epoch: 1, owner: null });
  });

  test("of a run in its replay journals the claim first: an entry of its previous owner would otherwise still fit", async ({ scene }) => {
    const called = gate();
    const hold = step("hold", async () => {
      called.open();
      await new Promise(() => {});
    });
    const run = workflow(scene.name("run"), async () => await hold());
    const doomed = await scene.workAndDie({ workflows: [run] });
    const { id } = await start(run, [], { store: doomed.store });
    await called.opened;
    doomed.die();
    const { store, worker } = await scene.work({ workflows: [run], auto: false });
    await until("its lease is over", async () => ((await store.runs.read(id))?.wakeAt ?? 0) < Date.now() - 50);
    const ticked = worker.tick();
    // The grace is over before the code got its first answer.
    await worker.stop({ graceMs: 0 });
    expect(await ticked).toBe(1);
    expect(await story(store, id)).toEqual(["step hold#0", expect.stringMatching(/^claim /)]);
    expect(await store.runs.read(id)).toMatchObject({ epoch: 2, owner: null, status: "running" });
  });

  test("leaves a body behind that does not end within the grace: its signal aborts, and the next worker need not wait for a lease", async ({
    scene,
  }) => {
    const called = gate<AbortSignal>();
    const deaf = step("deaf", async () => {
      const { attempt, signal } = getStepMetadata();
      if (attempt > 1) return attempt;
      called.open(signal);
      return await new Promise<never>(() => {});
    });
    const run = workflow(scene.name("run"), async () => await deaf());
    const { store, worker } = await scene.work();
    const started = await start(run, [], { store });
    const signal = await called.opened;
    await worker.stop({ graceMs: 20 });
    expect(signal.aborted).toBe(true);
    expect((await store.runs.read(started.id))?.owner).toBeNull();
    const next = await scene.work();
    expect(await getRun(started.id, { store: next.store }).returnValue).toBe(2);
  });

  test("releases sleeping, waiting and retrying runs as they are", async ({ scene }) => {
    let fails = 0;
    const flaky = step(
      "flaky",
      async () => {
        fails += 1;
        if (fails === 1) throw new Error("once");
        return fails;
      },
      { backoff: { minMs: 700, maxMs: 700, jitter: 0 } },
    );
    const asleep = workflow(scene.name("asleep"), async () => {
      await sleep(700);
      return "awake";
    });
    const waiting = workflow(scene.name("waiting"), async () => await createHook({ token: "t" }));
    const retrying = workflow(scene.name("retrying"), async () => await flaky());
    const { store, worker } = await scene.work();
    const runs = [await start(asleep, [], { store }), await start(waiting, [], { store }), await start(retrying, [], { store })];
    await until("it has failed once", async () => (await story(store, runs[2]?.id ?? "")).includes("fail flaky#0"));
    await worker.stop();
    for (const { id } of runs) expect((await store.runs.read(id))?.owner).toBeNull();
    await resumeHook("t", "resumed", { store });
    const next = await scene.work();
    const results = runs.map(({ id }) => getRun(id, { store: next.store }).returnValue);
    expect(await Promise.all(results)).toEqual(["awake", "resumed", 2]);
  });

  test("is final: the worker claims nothing more, and runs that are started later go to other workers", async ({ scene }) => {
    const run = workflow(scene.name("run"), async () => 1);
    const { store, worker } = await scene.work();
    await Promise.all([worker.stop(), worker.stop()]);
    expect(worker.stopped).toBe(true);
    const started = await start(run, [], { store });
    expect(await started.status).toBe("pending");
    expect(await worker.tick()).toBe(0);
    expect(await started.status).toBe("pending");
    await scene.work();
    expect(await started.returnValue).toBe(1);
  });

  test("a second stop waits for the first", async ({ scene }) => {
    const [called, free] = [gate(), gate()];
    const slow = step("slow", async () => {
      called.open();
      await free.opened;
    });
    const run = workflow(scene.name("run"), async () => await slow());
    const { store, worker } = await scene.work();
    await start(run, [], { store });
    await called.opened;
    const stops = [worker.stop(), worker.stop()];
    setImmediate(() => free.open());
    await stops[1];
    expect(worker.running).toBe(0);
    await stops[0];
  });
});

onStores("tick", everyStore, (test) => {
  test("is one round by hand: claims due runs, works until they wait, and returns how many it claimed", async ({ scene }) => {
    const calls: string[] = [];
    const act = step("act", async (name: string) => void calls.push(name));
    const run = workflow(scene.name("run"), async (name: string) => {
      await act(`${name} before`);
      await createHook({ token: name });
      await act(`${name} after`);
      return name;
    });
    const { store, worker } = await scene.work({ auto: false });
    const runs = [await start(run, ["a"], { store }), await start(run, ["b"], { store })];
    expect(await Promise.all(runs.map((each) => each.status))).toEqual(["pending", "pending"]);
    expect(calls).toEqual([]);
    expect(await worker.tick()).toBe(2);
    expect(calls.sort()).toEqual(["a before", "b before"]);
    expect(await worker.tick()).toBe(0);
    for (const { id } of runs) await untilReleased(store, id);
    await resumeHook("a", 1, { store });
    expect(await worker.tick()).toBe(1);
    expect(calls).toContain("a after");
    expect(await runs[0]?.returnValue).toBe("a");
    expect(await runs[1]?.status).toBe("running");
  });

  test("is the only way in which a worker with auto: false does anything", async ({ scene }) => {
    let calls = 0;
    const act = step("act", async () => ++calls);
    const run = workflow(scene.name("run"), async () => await act());
    const { store, worker } = await scene.work({ auto: false, pollMs: 1 });
    const started = await start(run, [], { store });
    for (let look = 0; look < 10; look++) await store.runs.read(started.id);
    expect(calls).toBe(0);
    expect(await worker.tick()).toBe(1);
    expect(await started.returnValue).toBe(1);
  });
});
