import { randomUUID } from "node:crypto";
import { testWorkflows } from "onceflow/testing";
import { createHook, sleep, step, uuid, workflow } from "onceflow/workflow";
import { acceptCall, getRun, readJournal, resumeHook, start } from "onceflow/workflow/api";
import { expect, test as plain } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores, shortMs } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { captureWarnings } from "../../kit/warnings.js";
import { story, untilReleased, untilStatus } from "../scene.js";

onStores("the replay check", everyStore, (test) => {
  test("arguments that differ are reported when the run first waits, with their values, the place and possible fixes", async ({
    scene,
  }) => {
    const warnings = captureWarnings();
    const charged: string[] = [];
    const charge = step("charge", async (order: { id: string; nonce: string }) => void charged.push(order.nonce));
    const run = workflow(scene.name("run"), async () => {
      await charge({ id: "order-1", nonce: randomUUID() });
      await sleep("1h");
    });
    const { store } = await scene.work();
    const id = scene.name("r");
    await start(run, [], { id, store });
    await untilStatus(store, id, "diverged");
    const trouble = (await getRun(id, { store }).trouble) ?? "";
    expect(trouble).toContain(`run "${id}" would diverge from its journal at its next replay. Expected: step charge#0`);
    expect(trouble).toMatch(
      /at \S*replay-check\.test\.ts:\d+:\d+\. Of the step, argument 1\.nonce was '[\w-]{36}' and is now '[\w-]{36}'\. /,
    );
    expect(trouble).toContain("uuid() of onceflow/workflow");
    expect(trouble).toContain("None of its steps was executed, and it starts from the beginning under corrected code.");
    expect(charged).toHaveLength(0);
    expect(await story(store, id)).toEqual([]);
    await until("it warned", () => warnings.some(({ code, message }) => code === "ONCEFLOW_REPLAY_CHECK" && trouble.startsWith(message)));
  });

  test("a run begins anew with corrected code: the check parked it before its first step", async ({ scene }) => {
    const charged: string[] = [];
    const charge = step("charge", async (id: string) => void charged.push(id));
    let makeId: () => string = randomUUID;
    const run = workflow(scene.name("run"), async () => await charge(makeId()));
    const { store, worker } = await scene.work({ workflows: [run] });
    await start(run, [], { id: "r", store });
    await untilStatus(store, "r", "diverged");
    await worker.stop();
    makeId = uuid;
    const { store: next } = await scene.work({ workflows: [run] });
    await getRun("r", { store: next }).returnValue;
    expect(charged).toHaveLength(1);
  });

  test("code that waits for something that is not journaled is reported", async ({ scene }) => {
    const note = step("note", async () => {});
    const waits: Record<string, () => Promise<unknown>> = {
      setImmediate: () => new Promise((resolve) => setImmediate(resolve)),
      "crypto.subtle": () => crypto.subtle.digest("SHA-256", new Uint8Array(1_000_000)),
      CompressionStream: () =>
        new Response(new Blob(["x".repeat(100_000)]).stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer(),
    };
    const run = workflow(scene.name("run"), async (wait: string) => {
      await note();
      await waits[wait]?.();
      await note();
      await sleep("1h");
    });
    const { store } = await scene.work();
    for (const wait of Object.keys(waits)) {
      await start(run, [wait], { id: wait, store });
      await untilStatus(store, wait, "diverged");
      expect(await getRun(wait, { store }).trouble).toMatch(/the code (waits for something else|did not ask for it)/);
      expect(await getRun(wait, { store }).trouble).toContain("crypto.subtle, streams and other I/O into a step");
    }
  });

  test("a Blob in memory is reported, or read before the event loop turns (Node 20): then every replay reads it, too", async ({
    scene,
  }) => {
    const note = step("note", async (size: number) => size);
    const run = workflow(scene.name("run"), async () => {
      await note(0);
      const size = (await new Response(new Blob(["x".repeat(100_000)]).stream()).text()).length;
      await createHook({ token: `blob ${scene.on}` });
      return await note(size);
    });
    const { store, worker } = await scene.work({ workflows: [run] });
    const started = await start(run, [], { id: "r", store });
    const isFound = async () => (await started.status) === "diverged";
    await until("it was checked", async () => (await isFound()) || (!worker.has("r") && (await story(store, "r")).includes("hook hook#0")));
    if (await isFound()) return;
    await worker.stop();
    await scene.work({ workflows: [run] });
    await resumeHook(`blob ${scene.on}`, 1, { store });
    expect(await started.returnValue).toBe(100_000);
  });

  test("differences after the first wait are reported when the run leaves memory", async ({ scene }) => {
    const note = step("note", async (_id: string) => {});
    const run = workflow(scene.name("run"), async () => {
      await note(uuid());
      await sleep(1);
      await note(randomUUID());
      await createHook({ token: `later ${scene.on}` });
    });
    const { store } = await scene.work();
    await start(run, [], { id: "r", store });
    await untilStatus(store, "r", "diverged");
    expect(await getRun("r", { store }).trouble).toContain("Expected: step note#1");
  });

  test("runs no step, writes nothing, passes the code its own arguments, and the run continues", async ({ scene }) => {
    const executions: string[][] = [];
    const bodies: string[] = [];
    const note = step("note", async (text: string) => {
      bodies.push(text);
      return text;
    });
    const run = workflow(scene.name("run"), async (orders: string[]) => {
      executions.push([...orders]);
      orders.push("changed by the code");
      const first = await note(orders.join());
      const payload = await createHook<string>({ token: `go ${scene.on}` });
      return [first, payload, await note("last")];
    });
    const { store } = await scene.work();
    const started = await start(run, [["a"]], { id: "r", store });
    await until("it was checked", () => executions.length === 2);
    await until("it has its hook", async () => (await story(store, "r")).includes("hook hook#0"));
    expect(executions).toEqual([["a"], ["a"]]);
    await resumeHook(`go ${scene.on}`, "payload", { store });
    expect(await started.returnValue).toEqual(["a,changed by the code", "payload", "last"]);
    expect(bodies).toEqual(["a,changed by the code", "last"]);
    expect(await story(store, "r")).toEqual([
      "step note#0",
      "done note#0",
      "hook hook#0",
      "got hook#0",
      "step note#1",
      "done note#1",
      "end completed",
    ]);
  });

  test("replayCheck: false lets such a run leave memory, as in production", async ({ scene }) => {
    const note = step("note", async (_id: string) => {});
    const run = workflow(scene.name("run"), async () => {
      await note(randomUUID());
      await createHook({ token: `off ${scene.on}` });
    });
    const { store } = await scene.work({ replayCheck: false });
    await start(run, [], { id: "r", store });
    await until("it has its hook", async () => (await story(store, "r")).includes("hook hook#0"));
    await untilReleased(store, "r");
    expect(await getRun("r", { store }).status).toBe("running");
  });

  test("acceptCall: the journaled outcome stays, nothing runs again, and the acceptance is journaled", async ({ scene }) => {
    const charged: string[] = [];
    const charge = step("charge", async (nonce: string) => {
      charged.push(nonce);
      return "receipt";
    });
    const name = scene.name("run");
    const run = workflow(name, async () => {
      const receipt = await charge(randomUUID());
      const other = await charge(randomUUID());
      await createHook({ token: `pay ${scene.on}` });
      return [receipt, other];
    });
    const { store } = await scene.work({ replayCheck: false });
    const started = await start(run, [], { id: "r", store });
    await untilReleased(store, "r");
    await getRun("r", { store }).wakeUp();
    await untilStatus(store, "r", "diverged");
    expect(await started.trouble).toContain('acceptCall({"runId":"r","stepId":"step_');
    const [first] = await readJournal("r", { store });
    await acceptCall({ runId: "r", stepId: first?.stepId ?? "", store });
    await until("the second call is in the way", async () => ((await started.trouble) ?? "").includes("charge#1"));
    await acceptCall({ runId: "r", callId: "charge#1", store });
    await until("it goes on", async () => (await started.status) === "running");
    await until("it is journaled", async () => (await story(store, "r")).filter((line) => line.startsWith("accept")).length === 2);
    // Once more from the journal alone.
    await untilReleased(store, "r");
    await resumeHook(`pay ${scene.on}`, 1, { store });
    expect(await started.returnValue).toEqual(["receipt", "receipt"]);
    expect(charged).toHaveLength(2);
  });

  test("acceptCall: a worker that dies before the acceptance is journaled loses nothing", async ({ scene }) => {
    let charged = 0;
    const charge = step("charge", async (_nonce: string) => (charged += 1));
    const [looked, second] = [gate(), gate()];
    const look = step("look", async () => {
      looked.open();
      await second.opened;
    });
    const run = workflow(scene.name("run"), async () => {
      const receipt = await charge(randomUUID());
      await createHook({ token: `die ${scene.on}` });
      await look();
      return receipt;
    });
    const { store, worker } = await scene.work({ replayCheck: false });
    await start(run, [], { id: "r", store });
    await untilReleased(store, "r");
    await getRun("r", { store }).wakeUp();
    await untilStatus(store, "r", "diverged");
    await worker.stop();
    await acceptCall({ runId: "r", callId: "charge#0", store });
    await resumeHook(`die ${scene.on}`, 1, { store });
    // The worker claims the run, accepts, runs a step and dies in it.
    const doomed = await scene.workAndDie();
    await looked.opened;
    doomed.die();
    second.open();
    const next = await scene.work({ leaseMs: shortMs });
    expect(await getRun("r", { store: next.store }).returnValue).toBe(1);
    expect(charged).toBe(1);
    expect((await story(store, "r")).filter((line) => line.startsWith("accept"))).toEqual(["accept charge#0"]);
  });

  test("acceptCall refuses calls that it cannot accept", async ({ scene }) => {
    const held = gate();
    const hold = step("hold", async () => await held.opened);
    const run = workflow(scene.name("run"), async () => await hold());
    const { store } = await scene.work();
    const started = await start(run, [], { id: "r", store });
    await until("it is called", async () => (await story(store, "r")).includes("step hold#0"));
    await expect(acceptCall({ runId: "r", callId: "hold#0", store })).rejects.toThrow("has no outcome in the journal");
    await expect(acceptCall({ runId: "r", callId: "hold#1", store })).rejects.toThrow("is not a step call of this run");
    await expect(acceptCall({ runId: "r", store })).rejects.toThrow("needs either a stepId or a callId");
    await expect(acceptCall({ runId: "none", callId: "hold#0", store })).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
    held.open();
    await started.returnValue;
    await expect(acceptCall({ runId: "r", callId: "hold#0", store })).rejects.toThrow("has ended: completed");
  });
});

plain("onceflow/testing: the next call of the test fails, or its close() does", async () => {
  const note = step("note", async (_id: string) => {});
  const run = workflow("replay check in a test", async () => {
    await note(randomUUID());
    await sleep("1d");
  });
  const message = /would diverge from its journal at its next replay\. Expected: step note#0/;
  await using first = await testWorkflows({ ambient: false });
  await expect(first.waitForSleep(await first.start(run))).rejects.toThrow(message);
  const second = await testWorkflows({ ambient: false });
  await second.start(run);
  await expect(second.settle()).rejects.toThrow(message);
  await second.close();
  const third = await testWorkflows({ ambient: false });
  await third.start(run);
  await third.store.runs.read("run-1");
  await until("it is parked", async () => (await getRun("run-1", { store: third.store }).status) === "diverged");
  await expect(third.close()).rejects.toThrow(message);
  await using off = await testWorkflows({ ambient: false, worker: { replayCheck: false } });
  await off.waitForSleep(await off.start(run));
});

plain("is off by default if NODE_ENV is production", async () => {
  const before = process.env["NODE_ENV"];
  const { checkedWorkerOptions } = await import("../../../src/workflow/worker/checked-worker-options.js");
  try {
    expect(checkedWorkerOptions({}).replayCheck).toBe(true);
    process.env["NODE_ENV"] = "production";
    expect(checkedWorkerOptions({}).replayCheck).toBe(false);
    expect(checkedWorkerOptions({ replayCheck: true }).replayCheck).toBe(true);
  } finally {
    process.env["NODE_ENV"] = before;
  }
});
