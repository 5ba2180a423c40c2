import { createHash } from "node:crypto";
import { inspect, key, once } from "onceflow";
import { expect, test } from "vitest";
import { onStores } from "../../kit/scene.js";
import { apiScene } from "./scene.js";

const requestId = "a request id of random";

onStores("begin, renew and settle", ["memory", "sqlite", "postgres"], (test) => {
  test("an attempt is begun, renewed and settled, and later begins get its result", async ({ scene: place }) => {
    const { post, store } = await apiScene({ place });
    const begun = await post("/keys/begin", { key: "charge", input: { amount: 10 }, leaseMs: 60_000 });
    expect(begun).toMatchObject({ status: 200, body: { status: "started", attempt: 1, effect: "idempotent", leaseMs: 60_000 } });
    const { owner, attempt } = begun.body;
    const busy = await post("/keys/begin", { key: "charge", input: { amount: 10 } });
    expect(busy).toMatchObject({ status: 409, body: { code: "RUNNING", retryAfterMs: expect.any(Number) as number, attempt: 1 } });
    expect(Number(busy.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await post("/keys/begin", { key: "charge", input: { amount: 11 } })).toMatchObject({ status: 422, body: { code: "MISMATCH" } });
    expect(await post("/keys/renew", { key: "charge", owner, attempt, leaseMs: 3_600_000 })).toMatchObject({ status: 200 });
    const settle = { key: "charge", owner, attempt, completed: { paid: true } };
    expect(await post("/keys/settle", settle)).toMatchObject({ status: 200, body: { state: "completed", kept: true } });
    // Its reply was lost: the client sends it again.
    expect(await post("/keys/settle", settle)).toMatchObject({ status: 200, body: { state: "completed" } });
    const again = await post("/keys/begin", { key: "charge", input: { amount: 10 } });
    expect(again.body).toMatchObject({ status: "replayed", state: "completed", value: { paid: true }, attempt: 1 });
    // The same key space as once in a process.
    const here = await once(store, { key: key.of("charge"), input: { amount: 10 } }, () => "must not run");
    expect(here).toEqual({ status: "replayed", value: { paid: true }, attempt: 1 });
  });

  test("a begin whose answer was lost finds its own attempt", async ({ scene: place }) => {
    const scene = await apiScene({ place });
    const begin = { key: "k", requestId };
    const first = await scene.post("/keys/begin", begin);
    const second = await scene.post("/keys/begin", begin);
    expect(second.body).toMatchObject({ status: "started", attempt: 1, owner: first.body["owner"] });
    // Another sender with the same id does not get the attempt.
    scene.caller = { ...scene.caller, actor: "eve" };
    expect(await scene.post("/keys/begin", begin)).toMatchObject({ status: 409, body: { code: "RUNNING" } });
  });

  test("a stored failure is replayed; a free key runs again; an unknown outcome is refused", async ({ scene: place }) => {
    const { post, store } = await apiScene({ place });
    const begin = async (name: string, more: object = {}) => (await post("/keys/begin", { key: name, ...more })).body;
    const settle = async (name: string, end: object, more: object = {}) => {
      const { owner, attempt } = await begin(name, more);
      return await post("/keys/settle", { key: name, owner, attempt, ...end });
    };
    await settle("failed", { failed: { name: "CardError", message: "declined", code: "declined" } });
    expect(await begin("failed")).toMatchObject({
      status: "replayed",
      error: { name: "CardError", message: "declined", code: "declined" },
    });
    await settle("free", { free: true });
    expect(await begin("free")).toMatchObject({ status: "started", attempt: 2 });
    await settle("unknown", { unknown: true }, { effect: "reconcile" });
    const unknown = await post("/keys/begin", { key: "unknown", effect: "reconcile", reconcileAfterMs: 0 });
    expect(unknown).toMatchObject({ status: 409, body: { code: "UNKNOWN_OUTCOME", attempt: 1, effect: "reconcile" } });
    expect(await begin("unknown", { effect: "reconcile", over: 1 })).toMatchObject({ status: "started", attempt: 2 });
    expect((await inspect(store, { key: "free" }))?.attempts.map(({ verdict }) => verdict)).toEqual(["released", "running"]);
  });

  test("the owner of another attempt, or of a process, is refused", async ({ scene: place }) => {
    const { post, store } = await apiScene({ place });
    const { owner } = (await post("/keys/begin", { key: "k" })).body;
    for (const attempt of [2, 17]) {
      expect(await post("/keys/settle", { key: "k", owner, attempt, completed: 1 })).toMatchObject({
        status: 409,
        body: { code: "LEASE_LOST" },
      });
      expect(await post("/keys/renew", { key: "k", owner, attempt })).toMatchObject({ status: 409 });
    }
    expect(await post("/keys/settle", { key: "k", owner: "api x", attempt: 1, completed: 1 })).toMatchObject({ status: 409 });
    await once(store, { key: key.of("own") }, async () => {
      const of = (await inspect(store, { key: "own" }))?.owner;
      expect(await post("/keys/settle", { key: "own", owner: of, attempt: 1, completed: 1 })).toMatchObject({ status: 400 });
    });
  });
});

test("keys and scopes are never part of a path: any text that can be a key works", async () => {
  const { post, get } = await apiScene();
  for (const name of ["..", "%2f", "a/b", "ключ 🔑", "?scope=x", "__proto__", "' or 1=1"]) {
    const { owner, attempt } = (await post("/keys/begin", { key: name, scope: name })).body;
    expect(await post("/keys/settle", { key: name, scope: name, owner, attempt, completed: name })).toMatchObject({ status: 200 });
    const { body } = await get("/key", { scope: name, key: name });
    expect(body).toMatchObject({ scope: name, key: name, state: "completed", value: name });
  }
  expect(await post("/keys/begin", { key: "new\nline" })).toMatchObject({ status: 400, body: { code: "INVALID_INPUT", field: "key" } });
});

test("mistakes in a request are answered with what is wrong", async () => {
  const { post } = await apiScene();
  const mistakes: [string, object, string][] = [
    ["/keys/begin", {}, "key: is missing"],
    ["/keys/begin", { key: "k", leasMs: 1 }, 'did you mean "leaseMs"?'],
    ["/keys/begin", { key: "k", leaseMs: "1" }, "leaseMs: must be a whole number"],
    ["/keys/begin", { key: "k", effect: "once" }, "effect: must be one of"],
    ["/keys/begin", { key: "k", requestId: "short" }, "requestId: must have at least 16"],
    ["/keys/begin", { key: "k", actor: "root" }, "actor: is not part of a request"],
    ["/keys/begin", { key: "k", retentionMs: "ever" }, "retentionMs: must be a number"],
    ["/keys/settle", { key: "k", owner: "api o", attempt: 1 }, "needs one of completed, failed"],
    ["/keys/settle", { key: "k", owner: "api o", attempt: 1, completed: 1, free: true }, "needs one of"],
    ["/keys/settle", { key: "k", owner: "api o", attempt: 1, failed: { message: 7 } }, "failed.message: must be a text"],
  ];
  for (const [path, body, detail] of mistakes)
    expect(await post(path, body), detail).toMatchObject({ status: 400, body: { detail: expect.stringContaining(detail) as string } });
});

test("this process does not renew the lease of a client", async () => {
  const { post, store } = await apiScene();
  await post("/keys/begin", { key: "k", leaseMs: 50 });
  // A lease that the process holds would be renewed after a third of it.
  await expect.poll(async () => (await inspect(store, { key: "k" }))?.lapsed).toBe(true);
});

test("the effect key is the one that handlers get", async () => {
  const { post } = await apiScene();
  const { effectKey } = (await post("/keys/begin", { scope: "s", key: "k" })).body;
  expect(effectKey).toBe(createHash("sha256").update("s\0k").digest("hex"));
});
