import { createHook, getWritable, sleep, step, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { expect } from "vitest";
import { onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { apiScene } from "./scene.js";

onStores("runs by the API", ["memory", "sqlite", "postgres"], (test) => {
  test("a run is started, found, delivered to, and its result is read", async ({ scene: place }) => {
    const { get, post, store } = await apiScene({ place });
    const name = place.name("approve");
    const approve = workflow(name, async (order: string) => {
      const answer = await createHook<{ ok: boolean }>({ token: `approve:${order}` });
      return { order, ...answer };
    });
    expect(approve).toBeDefined();
    await place.work({}, store);
    const started = await post("/runs/start", { workflow: name, args: ["o-1"], id: "run-1" });
    expect(started).toMatchObject({ status: 200, body: { runId: "run-1" } });
    expect(await post("/runs/start", { workflow: name, args: ["o-1"], id: "run-1" })).toMatchObject({ status: 200 });
    expect(await post("/runs/start", { workflow: name, args: ["o-2"], id: "run-1" })).toMatchObject({
      status: 422,
      body: { code: "RUN_MISMATCH" },
    });
    const deliver = () => post("/hooks/deliver", { token: "approve:o-1", payload: { ok: true }, key: "m-1", actionId: "d-1" });
    await until("the hook exists", async () => (await store.runs.hook("approve:o-1")) !== undefined);
    expect(await deliver()).toMatchObject({ status: 200, body: { runId: "run-1", repeated: false } });
    await until("the run has ended", async () => (await get("/run", { id: "run-1" })).body["status"] === "completed");
    expect(await deliver()).toMatchObject({ status: 404 });
    expect((await get("/run", { id: "run-1" })).body).toMatchObject({ args: ["o-1"], result: { order: "o-1", ok: true } });
    expect((await get("/runs", { workflow: name })).body).toMatchObject({ items: [{ id: "run-1", status: "completed" }] });
    const journal = (await get("/run/journal", { id: "run-1" })).body["items"] as { type: string }[];
    expect(journal.map(({ type }) => type)).toContain("end");
    expect((await get("/workers")).body).toMatchObject({ items: [{ live: true }] });
  });

  test("actions are done once, compared with the state, and logged with the caller as actor", async ({ scene: place }) => {
    const { get, post, store } = await apiScene({ place });
    const name = place.name("fails");
    let isDown = true;
    const charge = step(
      place.name("charge"),
      async () => {
        if (isDown) throw new Error("the bank is down");
        return "paid";
      },
      { maxRetries: 0 },
    );
    const order = workflow(name, async () => await charge());
    await place.work({}, store);
    await start(order, [], { id: "r", store });
    await until("the run has failed", async () => (await get("/run", { id: "r" })).body["status"] === "failed");
    expect((await get("/run", { id: "r" })).body).toMatchObject({
      error: { message: expect.stringContaining("the bank is down") as string },
    });
    const retry = (more: object) => post("/runs/retry", { id: "r", actionId: "a-1", reason: "it is back", ...more });
    expect(await retry({ ifStatus: "running" })).toMatchObject({ status: 409, body: { code: "STALE", runStatus: "failed" } });
    expect((await retry({ dryRun: true })).body).toMatchObject({ dryRun: true, steps: [{ attempt: 1 }] });
    isDown = false;
    expect((await retry({ ifStatus: "failed" })).body).toMatchObject({ repeated: false, runId: "r" });
    expect((await retry({ ifStatus: "failed" })).body).toMatchObject({ repeated: true });
    await until("the run has ended", async () => (await get("/run", { id: "r" })).body["status"] === "completed");
    const { stepId } = ((await get("/run/journal", { id: "r" })).body["items"] as { stepId: string }[]).find((item) => item.stepId) ?? {
      stepId: "",
    };
    expect((await get("/run/attempts", { id: "r", stepId })).body).toMatchObject({
      items: [{ verdict: "failed" }, { verdict: "completed" }],
    });
    expect((await get("/log", { runId: "r" })).body).toMatchObject({
      items: [{ actor: "ann", action: "retry", reason: "it is back", actionId: "a-1" }],
    });
    expect(await post("/runs/delete", { id: "r" })).toMatchObject({ status: 400, body: { field: "reason" } });
    expect(await post("/runs/delete", { id: "r", reason: "test" })).toMatchObject({ status: 200 });
    expect(await get("/run", { id: "r" })).toMatchObject({ status: 404, body: { code: "RUN_NOT_FOUND" } });
  });

  test("a run is paused, resumed, woken, cancelled, terminated and forked", async ({ scene: place }) => {
    const { get, post, store } = await apiScene({ place });
    const name = place.name("sleeps");
    const sleeps = workflow(name, async () => {
      await sleep("1h");
      await sleep("1h");
      return "done";
    });
    await place.work({}, store);
    await start(sleeps, [], { id: "s", store });
    await start(sleeps, [], { id: "t", store });
    const status = async (id: string) => (await get("/run", { id })).body["status"];
    await until("it sleeps", async () => (await store.runs.read("s"))?.owner === null);
    expect((await post("/runs/pause", { id: "s" })).body).toMatchObject({ state: "paused" });
    expect(await post("/runs/resume", { id: "s" })).toMatchObject({ status: 200 });
    await until("it runs again", async () => (await status("s")) === "running");
    const fork = await post("/runs/fork", { id: "s", from: { seq: 1 }, forkId: "f", reason: "try" });
    expect(fork.body).toMatchObject({ forkId: "f" });
    expect((await post("/runs/wake", { id: "s" })).body).toMatchObject({ stoppedCount: 1, runId: "s" });
    expect((await post("/runs/cancel", { id: "s", reason: "not needed" })).body).toMatchObject({ runId: "s" });
    expect((await post("/runs/terminate", { id: "t", reason: "not needed" })).body).toMatchObject({ runId: "t" });
    await until("both are cancelled", async () => (await status("s")) === "cancelled" && (await status("t")) === "cancelled");
    expect(await post("/runs/cancel", { id: "nothing" })).toMatchObject({ status: 404 });
    expect(await post("/runs/resume", { id: "t" })).toMatchObject({ status: 409, body: { because: "ended" } });
    expect(await post("/runs/resolve", { id: "t", stepId: "x", attempt: 1, as: "notApplied", reason: "r" })).toMatchObject({
      status: 409,
      body: { code: "NOT_UNKNOWN" },
    });
  });

  test("a stream of a run is read as events", async ({ scene: place }) => {
    const { api, store, get } = await apiScene({ place });
    const write = step(place.name("write"), async () => {
      const writer = getWritable<object>().getWriter();
      for (const n of [1, 2]) await writer.write({ n });
      await writer.close();
    });
    const streams = workflow(place.name("streams"), async () => await write());
    await place.work({}, store);
    await start(streams, [], { id: "w", store });
    const response = await api(new Request("http://localhost/run/stream?id=w"));
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const text = await response.text();
    expect(text).toContain('event: chunk\nid: 0\ndata: {"index":0,"chunk":{"n":1}}');
    expect(text).toMatch(/"chunk":\{"n":2\}\}\n\nevent: end\n/);
    expect(await get("/run/stream", { id: "none" })).toMatchObject({ status: 404 });
  });
});
