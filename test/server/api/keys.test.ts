import { inspect, key, once } from "onceflow";
import { withCrashPoint } from "onceflow/testing";
import { expect } from "vitest";
import { onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { type ApiScene, apiScene } from "./scene.js";

class Died extends Error {}

/** An attempt whose client has died, and whose lease is over. */
async function abandoned({ post, store }: ApiScene, name: string, effect = "idempotent"): Promise<Readonly<Record<string, unknown>>> {
  const { body } = await post("/keys/begin", { key: name, effect, leaseMs: 50 });
  await until("the lease is over", async () => {
    // On a busy machine a renewal of this process may still be queued from before the answer; another write comes after it.
    await post("/keys/begin", { key: `after ${name}` });
    return (await inspect(store, { key: name }))?.lapsed;
  });
  return body;
}

onStores("actions on keys", ["memory", "sqlite", "postgres"], (test) => {
  test("an unknown outcome is resolved, once, with actor and reason in the attempt log", async ({ scene: place }) => {
    const scene = await apiScene({ place });
    const { post, get } = scene;
    const { owner } = await abandoned(scene, "k", "atMostOnce");
    const action = { key: "k", attempt: 1, as: { completed: { id: 7 } }, reason: "asked the bank", actionId: "act-1" };
    expect((await post("/keys/resolve", { ...action, dryRun: true })).body).toMatchObject({
      state: "completed",
      dryRun: true,
      repeated: false,
    });
    expect((await get("/key", { key: "k" })).body).toMatchObject({ state: "unknown" });
    expect((await post("/keys/resolve", action)).body).toMatchObject({ state: "completed", repeated: false, actionId: "act-1" });
    // Its answer was lost: sent again, also after the key has an outcome.
    expect((await post("/keys/resolve", action)).body).toMatchObject({ state: "completed", repeated: true });
    const { body } = await get("/key", { key: "k" });
    expect(body).toMatchObject({
      state: "completed",
      value: { id: 7 },
      attempts: [{ verdict: "resolved", note: "resolve by ann: asked the bank" }],
    });
    // The late owner is refused, and another action too.
    expect(await post("/keys/settle", { key: "k", owner, attempt: 1, completed: 0 })).toMatchObject({
      status: 409,
      body: { code: "LEASE_LOST" },
    });
    expect(await post("/keys/resolve", { ...action, actionId: "act-2" })).toMatchObject({
      status: 409,
      body: { code: "ACTION_REFUSED", because: "settled" },
    });
  });

  test("a process that dies before or after the write of an action: the action sent again is done once", async ({ scene: place }) => {
    for (const [n, point] of (["before resolve", "after resolve"] as const).entries()) {
      for (const action of ["resolve", "release", "erase"] as const) {
        const scene = await apiScene({ place });
        const { post, store } = scene;
        const name = `${action} ${n}`;
        if (action === "erase") await once(store, { key: key.of(name) }, () => "secret");
        else await abandoned(scene, name);
        const body = {
          ...{ key: name, reason: "r", actionId: name },
          ...(action === "resolve" ? { attempt: 1, as: { completed: 1 } } : {}),
        };
        const dying = await apiScene({
          store: withCrashPoint(store, point, () => {
            throw new Died();
          }),
          onError: () => {},
        });
        expect(await dying.post(`/keys/${action}`, body), name).toMatchObject({ status: 500 });
        expect((await post(`/keys/${action}`, body)).body, name).toMatchObject({ repeated: point === "after resolve" });
        const { attempts = [], state } = (await inspect(store, { key: name })) ?? {};
        expect(state).toBe(action === "release" ? "free" : "completed");
        expect(attempts.filter(({ note }) => note === `${action} by ann: r`)).toHaveLength(1);
      }
    }
  });

  test("a lapsed lease is released, but not one whose effect may have happened", async ({ scene: place }) => {
    const scene = await apiScene({ place });
    const { post } = scene;
    await abandoned(scene, "again");
    await abandoned(scene, "once", "atMostOnce");
    const release = (name: string, more: object = {}) => post("/keys/release", { key: name, reason: "died", ...more });
    expect(await release("again", { attempt: 2 })).toMatchObject({ status: 409, body: { code: "STALE" } });
    expect((await release("again", { actionId: "r" })).body).toMatchObject({ state: "free", attempt: 1 });
    expect((await post("/keys/begin", { key: "again" })).body).toMatchObject({ status: "started", attempt: 2 });
    expect((await release("again", { actionId: "r" })).body).toMatchObject({ state: "free", attempt: 1, repeated: true });
    expect(await release("again")).toMatchObject({ status: 409, body: { because: "running" } });
    expect(await release("once")).toMatchObject({ status: 409, body: { because: "mustResolve" } });
    expect(await release("none")).toMatchObject({ status: 404, body: { code: "KEY_NOT_FOUND" } });
  });

  test("an outcome is erased, and the operation does not run again", async ({ scene: place }) => {
    const { post, get, store } = await apiScene({ place });
    await once(store, { key: key.of("ok"), input: 1 }, () => "secret");
    const failing = { key: key.of("bad"), keepFailures: true };
    await once(store, failing, () => Promise.reject(new Error("secret"))).catch(() => {});
    expect(await post("/keys/erase", { key: "ok" })).toMatchObject({
      status: 400,
      body: { detail: expect.stringContaining("reason") as string },
    });
    for (const name of ["ok", "bad"]) {
      expect((await post("/keys/erase", { key: name, reason: "asked for", actionId: "e" })).body).toMatchObject({ repeated: false });
      expect((await post("/keys/erase", { key: name, reason: "asked for", actionId: "e" })).body).toMatchObject({ repeated: true });
      expect(JSON.stringify((await get("/key", { key: name })).body)).not.toContain("secret");
    }
    await expect(once(store, { key: key.of("ok"), input: 1 }, () => "again")).rejects.toMatchObject({ code: "RESULT_NOT_KEPT" });
    await expect(once(store, { key: key.of("ok"), input: 2 }, () => "again")).rejects.toMatchObject({ code: "MISMATCH" });
    await expect(once(store, failing, () => "again")).rejects.toMatchObject({ code: "ERASED" });
  });

  test("lists are filtered and paged, and show no owner that could settle", async ({ scene: place }) => {
    const { post, get } = await apiScene({ place });
    const owners: string[] = [];
    for (const name of ["a:1", "a:2", "b:1"]) owners.push(String((await post("/keys/begin", { key: name })).body["owner"]));
    const first = await get("/keys", { prefix: "a:", limit: "1" });
    expect(first.body).toMatchObject({ items: [{ key: "a:1", state: "running" }] });
    const second = await get("/keys", { prefix: "a:", limit: "1", cursor: String(first.body["cursor"]) });
    expect(second.body).toMatchObject({ items: [{ key: "a:2" }] });
    const shown = JSON.stringify([first.body, second.body, (await get("/key", { key: "b:1" })).body]);
    for (const owner of owners) expect(shown).not.toContain(owner.slice(4));
    expect(await get("/keys", { state: "runing" })).toMatchObject({ status: 400 });
  });
});
