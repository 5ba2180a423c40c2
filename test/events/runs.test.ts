import { type Store, UnreachableError } from "onceflow";
import { FatalError, sleep, step, workflow } from "onceflow/workflow";
import { getRun, retryRun, start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { gate } from "../kit/gate.js";
import { fullStores, onStores, shortMs } from "../kit/scene.js";
import { until } from "../kit/until.js";
import { muteWarnings } from "../kit/warnings.js";
import { Process } from "../workflow/process.js";
import { quick, untilReleased, untilStatus } from "../workflow/scene.js";
import { eventually, heard, inShort, withoutClaims } from "./heard.js";

onStores("events of runs and steps", fullStores, (test) => {
  test("a step that fails twice and then succeeds: every attempt begins after its entry, every verdict follows its own", async ({
    scene,
  }) => {
    const { store } = await scene.work();
    const flaky = step(
      scene.name("flaky"),
      async (secret: string) => {
        calls += 1;
        if (calls < 3) throw new Error(`no ${secret}`);
        return secret;
      },
      quick,
    );
    let calls = 0;
    const run = workflow(scene.name("retried"), async (secret: string) => await flaky(secret));
    const id = scene.name("run");
    const runs = heard("onceflow:run", { scene, isWanted: (event) => event.run === id });
    const steps = heard("onceflow:step", { scene, isWanted: (event) => event.run === id });
    expect(await (await start(run, ["hush"], { id, store })).returnValue).toBe("hush");
    const inOrder = steps.map((event) => `${event.type} ${event.attempt}${event.type === "verdict" ? ` ${event.verdict}` : ""}`);
    expect(inOrder).toEqual(["begin 1", "verdict 1 retry", "begin 2", "verdict 2 retry", "begin 3", "verdict 3 completed"]);
    expect(runs.find(({ type }) => type === "started")).toMatchObject({
      type: "started",
      store: store.name,
      run: id,
      workflow: expect.any(String),
      parent: null,
    });
    expect(runs.map(inShort).at(-1)).toBe("ended completed");
    // Neither arguments nor results nor error messages.
    expect(JSON.stringify([runs, steps])).not.toContain("hush");
    expect(new Set(steps.map(({ stepId }) => stepId)).size).toBe(1);
    for (const event of [...runs, ...steps]) expect(Object.isFrozen(event)).toBe(true);
    for (const event of steps) if (event.type === "verdict") expect(event.ms).toBeGreaterThanOrEqual(0);
  });

  test("a run that sleeps, goes on and fails, is retried and fails again", async ({ scene }) => {
    const { store } = await scene.work();
    const fails = step(scene.name("fails"), async () => Promise.reject(new FatalError("always")));
    const run = workflow(scene.name("sleeps"), async () => {
      await sleep("1h");
      await fails();
    });
    const id = scene.name("run");
    const runs = heard("onceflow:run", { scene, isWanted: (event) => event.run === id });
    const { returnValue } = await start(run, [], { id, store });
    await untilReleased(store, id);
    await getRun(id, { store }).wakeUp();
    await expect(returnValue).rejects.toThrow("always");
    await eventually(() => expect(withoutClaims(runs)).toEqual(["started", "rested", "ended failed"]));
    expect(runs.find(({ type }) => type === "rested")).toMatchObject({ wakeAt: expect.any(Number) });
    await retryRun(id, { store, reason: "the provider works again" });
    await eventually(() => expect(runs.map(inShort).slice(-4)).toEqual(["retried", "claimed", "resumed", "ended failed"]));
  });

  test("a step of unknown outcome: its verdict and the run say so", async ({ scene }) => {
    const { store } = await scene.work();
    const charge = step(scene.name("charge"), async () => Promise.reject(new Error("timed out")), { effect: "atMostOnce" });
    const run = workflow(scene.name("charged"), async () => await charge());
    const id = scene.name("run");
    const runs = heard("onceflow:run", { scene, isWanted: (event) => event.run === id });
    const steps = heard("onceflow:step", { scene, isWanted: (event) => event.run === id && event.type === "verdict" });
    await start(run, [], { id, store });
    await untilStatus(store, id, "unknown");
    await eventually(() => expect(withoutClaims(runs)).toEqual(["started", "unknown"]));
    await eventually(() => expect(steps).toMatchObject([{ verdict: "unknown", attempt: 1 }]));
  });

  test("a run whose code has changed diverges", async ({ scene }) => {
    muteWarnings("ONCEFLOW_RUN_PARKED");
    const name = scene.name("changed");
    const before = await scene.work();
    const [first, second] = [step(scene.name("first"), async () => 1), step(scene.name("second"), async () => 2)];
    const id = scene.name("run");
    let isChanged = false;
    const changing = workflow(name, async () => {
      if (isChanged) return await second();
      await first();
      return await sleep("1h");
    });
    const { store } = before;
    await start(changing, [], { id, store });
    await untilReleased(store, id);
    await before.worker.stop();
    isChanged = true;
    const runs = heard("onceflow:run", { scene, isWanted: (event) => event.run === id });
    await store.commit({ run: { verb: "send", to: { run: id }, kind: "wake", about: null, payload: null, key: "look" } });
    await scene.work({}, store);
    await untilStatus(store, id, "diverged");
    await eventually(() => expect(runs.map(inShort).slice(0, 2)).toEqual(["claimed", "diverged"]));
    expect(JSON.stringify(runs)).not.toContain("second");
  });
});

onStores("events of a takeover", ["sqlite"], (test) => {
  test("a run of a process that died is claimed as taken over, resumes, and its attempt begins again", async ({ scene }) => {
    const dying = await Process.of(scene, { worker: { leaseMs: 1000 } });
    dying.send({ kind: "startAndDie", workflow: "shipped", id: "held", args: [] });
    await dying.end("SIGCONT");
    const hold = step("hold", async () => "here");
    workflow("process shipped", async () => await hold());
    const runs = heard("onceflow:run", { scene, isWanted: (event) => event.run === "held" });
    const steps = heard("onceflow:step", { scene, isWanted: (event) => event.run === "held" });
    const { store, worker } = await scene.work();
    await untilStatus(store, "held", "completed");
    await eventually(() => expect(runs.map(inShort)).toEqual(["claimed, taken over", "resumed, taken over", "ended completed"]));
    await eventually(() => expect(steps.map(({ type, attempt }) => `${type} ${attempt}`)).toEqual(["begin 2", "verdict 2"]));
    expect(runs[0]).toMatchObject({ worker: worker.owner, epoch: 2 });
  });

  test("a worker that cannot renew loses its lease, and then its run to another worker", async ({ scene }) => {
    const store = await scene.open();
    let isAway = false;
    const renew: Store["runs"]["renew"] = async (query) => {
      if (isAway) throw new UnreachableError("away");
      return await store.runs.renew(query);
    };
    const cut = Object.create(store, { runs: { value: Object.create(store.runs, { renew: { value: renew } }) } }) as Store;
    muteWarnings("ONCEFLOW_STORE_TROUBLE");
    const { worker } = await scene.work({ leaseMs: shortMs }, cut);
    const [called, freed] = [gate(), gate()];
    scene.onEnd(() => freed.open());
    const name = scene.name("lost");
    const slow = step(scene.name("slow"), async () => {
      called.open();
      await freed.opened;
    });
    const run = workflow(name, async () => await slow());
    const leases = heard("onceflow:lease", { scene, isWanted: (event) => event.of === "runs" && event.worker === worker.owner });
    await start(run, [], { id: "lost", store: cut });
    await called.opened;
    await eventually(() =>
      expect(leases).toContainEqual({ type: "renewed", store: "sqlite", of: "runs", worker: worker.owner, run: undefined }),
    );
    const other = await scene.open();
    isAway = true;
    const claim = () => other.runs.claim({ owner: "other", workflows: [name], leaseMs: 60_000, limit: 1 });
    await until("another worker owns the run", async () => (await claim()).claimed.length === 1);
    await until("the lease is lost", () => leases.some(({ type }) => type === "lost"));
    isAway = false;
    await until("the run is lost", () => leases.some((event) => event.type === "lost" && event.of === "runs" && event.run === "lost"));
    // One event for the lease, however often its renewal has failed.
    expect(leases.filter((event) => event.type === "lost" && event.of === "runs" && event.run === undefined)).toHaveLength(1);
  });
});
