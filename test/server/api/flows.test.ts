import { open } from "onceflow";
import { createRuntime, NodeError } from "onceflow/graph";
import { expect, onTestFinished, test } from "vitest";
import { apiScene, root } from "./scene.js";

const text = `
flowdsl: "1.0"
info: { title: Orders, version: "1.0.0" }
nodes:
  Start: { operationId: start, kind: source }
  Take: { operationId: take, kind: action }
edges:
  - { from: Start, to: Take, delivery: { mode: durable } }
`;

test("flows are triggered, their dead letters shown, retried and discarded, with or without the runtime", async () => {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  let isDown = true;
  let taken = 0;
  const runtime = await createRuntime({
    store,
    documents: [{ text }],
    nodes: {
      take: () => {
        if (isDown) throw new NodeError("PERMANENT", "secret: no");
        taken += 1;
      },
    },
  });
  const scene = await apiScene({ store, runtime });
  const { get, post } = scene;
  expect((await get("/flows")).body).toMatchObject({ items: [{ id: "orders", state: "active" }] });
  const trigger = { flow: "orders", payload: { id: "o" }, key: "o", attributes: { customer: "c-1" } };
  const { executionId } = (await post("/flows/trigger", trigger)).body;
  expect((await post("/flows/trigger", trigger)).body).toEqual({ status: "duplicate", executionId });
  expect(await post("/flows/trigger", { ...trigger, payload: {} })).toMatchObject({ status: 422, body: { code: "MISMATCH" } });
  expect(await post("/flows/trigger", { ...trigger, flow: "nothing" })).toMatchObject({ status: 404, body: { code: "FLOW_NOT_FOUND" } });
  await runtime.idle();
  const attribute = JSON.stringify({ name: "customer", value: "c-1" });
  expect((await get("/executions", { attribute })).body).toMatchObject({ items: [{ id: executionId, status: "dead" }] });
  expect((await get("/execution/history", { id: String(executionId) })).status).toBe(200);
  // Another server on the store, which knows no flows.
  const other = await apiScene({ store });
  expect(await other.get("/flows")).toMatchObject({ status: 501, body: { code: "NO_RUNTIME" } });
  const [letter] = (await other.get("/dead-letters")).body["items"] as { id: string }[];
  const id = letter?.id ?? "";
  expect((await other.get("/dead-letter", { id })).body).toMatchObject({ payload: { id: "o" }, error: { message: "secret: no" } });
  other.caller = { ...root, roles: ["view"] };
  expect(JSON.stringify((await other.get("/dead-letter", { id })).body)).not.toMatch(/secret|payload/);
  other.caller = root;
  isDown = false;
  const retry = { id, actionId: "a-1", reason: "the bank is up" };
  expect((await other.post("/dead-letters/retry", { ...retry, dryRun: true })).body).toMatchObject({ dryRun: true, repeated: false });
  expect((await other.post("/dead-letters/retry", retry)).body).toMatchObject({ id, status: "retried", repeated: false });
  await runtime.idle();
  await expect.poll(() => taken).toBe(1);
  expect((await other.post("/dead-letters/retry", retry)).body).toMatchObject({ id, actionId: "a-1", repeated: true });
  expect(await other.post("/dead-letters/retry", { id })).toMatchObject({ status: 404, body: { code: "DEAD_LETTER_NOT_FOUND" } });
  isDown = true;
  await post("/flows/trigger", { flow: "orders", payload: { id: "p" } });
  await runtime.idle();
  const [second] = (await get("/dead-letters", { flow: "orders" })).body["items"] as { id: string }[];
  expect(await post("/dead-letters/discard", { id: second?.id })).toMatchObject({ status: 400 });
  const discard = { id: second?.id, reason: "a test order", actionId: "a-2" };
  expect((await post("/dead-letters/discard", discard)).body).toMatchObject({ status: "discarded" });
  expect((await post("/dead-letters/discard", discard)).body).toMatchObject({ status: "discarded", repeated: true });
  expect(await post("/dead-letters/discard", { ...discard, actionId: "a-1" })).toMatchObject({ status: 400 });
  expect((await get("/dead-letters")).body).toEqual({ items: [] });
  for (const [verb, state] of [
    ["pause", "paused"],
    ["archive", "archived"],
    ["resume", "active"],
  ] as const)
    expect((await post(`/flows/${verb}`, { flow: "orders", actionId: verb })).body).toEqual({
      ...{ id: "orders", state },
      ...{ actionId: verb, repeated: false, dryRun: false },
    });
  const pause = { flow: "orders", actionId: "pause" };
  expect((await post("/flows/pause", pause)).body).toMatchObject({ repeated: true });
  expect((await post("/flows/pause", { flow: "orders", dryRun: true })).body).toMatchObject({ dryRun: true });
  expect((await get("/flows")).body).toMatchObject({ items: [{ state: "active" }] });
  const { items } = (await get("/log")).body as { items: { actionId: string; actor: string; runId: string; reason?: string }[] };
  expect(items.map(({ actionId }) => actionId)).toEqual(["resume", "archive", "pause", "a-2", "a-1"]);
  expect(items.at(-1)).toMatchObject({ actor: "ann", runId: id, reason: "the bank is up" });
  expect((await get("/log", { runId: id })).body).toMatchObject({ items: [{ actionId: "a-1" }] });
  // A tenant whose run has the name of the dead letter does not see what was done to the letter.
  await post("/runs/start", { workflow: "w", id, scope: "ours" });
  scene.caller = { ...root, scopes: ["ours"] };
  expect(await get("/log", { runId: id })).toMatchObject({ status: 200, body: { items: [] } });
});
