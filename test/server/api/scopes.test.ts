import { createRuntime } from "onceflow/graph";
import { createHook, sleep, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { expect, test } from "vitest";
import { onStores, type Scene as Place } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { type ApiScene, apiScene, root, routes } from "./scene.js";

const run = { id: "theirs-run" };
const acting = { ...run, reason: "r" };
const key = { scope: "theirs", key: "theirs-key" };
const owned = { ...key, owner: "api x", attempt: 1 };

/** For every route: a request that names something of the other tenant, or something that belongs to no scope. */
const foreign: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  listRuns: { scope: "theirs" },
  countRuns: { scope: "theirs" },
  findErrorText: { scope: "theirs", text: "x", createdAfter: "2026-01-01T00:00:00Z", createdBefore: "2026-01-02T00:00:00Z" },
  listHooks: { scope: "theirs" },
  showRun: run,
  readJournal: run,
  readAttempts: { ...run, stepId: "s" },
  readStream: run,
  readOperatorLog: { runId: "theirs-run" },
  listWorkers: {},
  listRunsWithoutWorker: {},
  startRun: { workflow: "w", scope: "theirs" },
  cancelRun: acting,
  terminateRun: acting,
  pauseRun: { ...acting, waitMs: 0 },
  resumeRun: acting,
  wakeRun: acting,
  retryRun: acting,
  forkRun: { ...acting, from: { seq: 1 } },
  resolveStep: { ...acting, stepId: "s", attempt: 1, as: "notApplied" },
  deleteRun: acting,
  deliverToHook: { token: "theirs-token", payload: 1 },
  listKeys: { scope: "theirs" },
  showKey: key,
  resolveKey: { ...key, attempt: 1, as: "free", reason: "r" },
  releaseKey: { ...key, reason: "r" },
  eraseKey: { ...key, reason: "r" },
  beginKey: key,
  renewKey: owned,
  settleKey: { ...owned, completed: 1 },
  listDeadLetters: {},
  showDeadLetter: { id: "pk_1" },
  retryDeadLetter: { id: "pk_1" },
  discardDeadLetter: { id: "pk_1", reason: "r" },
  listFlows: {},
  listExecutions: { scope: "theirs" },
  showExecution: { id: "ex_1" },
  readHistory: { id: "ex_1" },
  triggerFlow: { flow: "orders", payload: { orderId: "o", amount: 1 }, scope: "theirs" },
  pauseFlow: { flow: "orders" },
  resumeFlow: { flow: "orders" },
  archiveFlow: { flow: "orders" },
  listen: { scope: "theirs" },
};

/** What a caller may always ask: it is about the caller itself. */
const ownOnly = new Set(["readCapabilities"]);

async function ask({ get, post }: ApiScene, { method, path }: (typeof routes)[number], input: Readonly<Record<string, unknown>>) {
  return method === "POST" ? await post(path, input) : await get(path, input as Record<string, string>);
}

const flow = `
flowdsl: "1.0"
info: { title: Orders, version: "1.0.0" }
nodes:
  Start: { operationId: start, kind: source }
  Take: { operationId: take, kind: action }
edges:
  - { from: Start, to: Take, delivery: { mode: durable } }
`;

/** A run of another tenant that waits at a hook, and a key of that tenant with a result. */
async function theirs(scene: ApiScene, place: Place): Promise<void> {
  const waits = workflow(place.name("waits"), async () => {
    await createHook({ token: "theirs-token" });
    await sleep("1h");
  });
  await place.work({}, scene.store);
  await start(waits, [], { id: "theirs-run", scope: "theirs", store: scene.store });
  await until("the hook exists", async () => (await scene.store.runs.hook("theirs-token")) !== undefined);
  await until("the run is at rest", async () => (await scene.store.runs.read("theirs-run"))?.owner === null);
  const { owner, attempt } = (await scene.post("/keys/begin", key)).body;
  await scene.post("/keys/settle", { ...key, owner, attempt, completed: "theirs-secret" });
}

onStores("scopes", ["memory", "sqlite", "postgres"], (test) => {
  test("no route shows or changes anything of another tenant", async ({ scene: place }) => {
    const store = await place.open();
    const runtime = await createRuntime({ store, documents: [{ text: flow }], nodes: { take: () => {} } });
    place.onEnd(() => runtime.stop());
    const scene = await apiScene({ place, store, runtime });
    await theirs(scene, place);
    const trigger = { flow: "orders", payload: { id: "theirs-secret" }, key: "o-1" };
    const { executionId } = (await scene.post("/flows/trigger", { ...trigger, scope: "theirs" })).body;
    expect((await scene.get("/execution", { id: String(executionId) })).body).toMatchObject({
      scope: "theirs",
      input: { id: "theirs-secret" },
    });
    const requests = { ...foreign, showExecution: { id: executionId }, readHistory: { id: executionId } };
    await runtime.idle();
    const before = JSON.stringify([await scene.store.runs.read("theirs-run"), await scene.store.read(key)].map(withoutTimes));
    scene.caller = { ...root, scopes: ["mine"] };
    for (const route of routes) {
      if (ownOnly.has(route.id)) continue;
      const input = requests[route.id as keyof typeof requests] as Readonly<Record<string, unknown>> | undefined;
      if (input === undefined) throw new Error(`add a request of another tenant for the new route ${route.id}`);
      const answer = await ask(scene, route, input);
      expect([403, 404], `${route.id}: ${JSON.stringify(answer.body)}`).toContain(answer.status);
      expect(JSON.stringify(answer.body), route.id).not.toContain("theirs-secret");
    }
    expect(JSON.stringify([await scene.store.runs.read("theirs-run"), await scene.store.read(key)].map(withoutTimes))).toBe(before);
    expect(await scene.store.runs.log({ limit: 10 })).toEqual([]);
    // The keys of a flow are shared, but nothing is said about the execution of another tenant.
    expect(await scene.post("/flows/trigger", trigger)).toMatchObject({ status: 422, body: { code: "MISMATCH" } });
    expect(JSON.stringify((await scene.post("/flows/trigger", trigger)).body)).not.toContain(executionId);
    // Its own lists are empty.
    for (const path of ["/runs", "/keys", "/hooks", "/executions"]) expect((await scene.get(path)).body, path).toEqual({ items: [] });
    expect((await scene.get("/runs/count")).body).toMatchObject({ running: { count: 0 } });
    // The answer about a run of another tenant is that about no run.
    const [existing, none] = [await scene.get("/run", run), await scene.get("/run", { id: "none" })];
    expect(existing.body).toEqual(JSON.parse(JSON.stringify(none.body).replaceAll('\\"none\\"', '\\"theirs-run\\"')));
  });

  test("a tenant starts, sees and acts on its own runs; children, forks and hooks belong to it", async ({ scene: place }) => {
    const scene = await apiScene({ place });
    const { post, get, store } = scene;
    await theirs(scene, place);
    scene.caller = { ...root, scopes: ["mine"] };
    const name = place.name("parent");
    const child = workflow(place.name("child"), async () => await createHook({ token: "mine-token" }));
    const parent = workflow(name, async () => await (await start(child, [])).returnValue);
    expect(parent).toBeDefined();
    await place.work({}, store);
    expect(await post("/runs/start", { workflow: name, id: "mine-run", attributes: { customer: "c-1" } })).toMatchObject({ status: 200 });
    expect(await post("/runs/start", { workflow: name, id: "theirs-run" })).toMatchObject({ status: 422, body: { code: "RUN_MISMATCH" } });
    await until("the hook exists", async () => (await store.runs.hook("mine-token")) !== undefined);
    const ids = async (query: Record<string, string> = {}) =>
      ((await get("/runs", query)).body["items"] as { id: string; scope: string }[]).map(({ id }) => id);
    expect(await ids()).toHaveLength(2);
    expect(await ids({ attribute: JSON.stringify({ name: "customer", value: "c-1" }) })).toEqual(["mine-run"]);
    expect((await get("/hooks")).body).toMatchObject({ items: [{ token: "mine-token" }] });
    const fork = await post("/runs/fork", { id: "mine-run", from: { seq: 1 }, forkId: "mine-fork", reason: "try" });
    expect(fork.status).toBe(200);
    expect(await ids()).toContain("mine-fork");
    expect(await post("/hooks/deliver", { token: "mine-token", payload: "ok" })).toMatchObject({ status: 200 });
    await until("the run has ended", async () => (await get("/run", { id: "mine-run" })).body["status"] === "completed");
    scene.caller = { ...root, scopes: ["mine", "other"] };
    expect(await get("/runs")).toMatchObject({ status: 400, body: { code: "SCOPE_MISSING" } });
    expect(await ids({ scope: "other" })).toEqual([]);
    scene.caller = { ...root, scopes: [] };
    expect(await get("/keys")).toMatchObject({ status: 403 });
  });
});

test("live events of another tenant are not sent", async () => {
  const scene = await apiScene({ pollMs: 10 });
  const listen = async (scopes: readonly string[] | "*") => {
    scene.caller = { ...root, scopes };
    const response = await scene.api(new Request("http://localhost/live"));
    let text = "";
    const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
    void (async () => {
      for (let next = await reader.read(); !next.done; next = await reader.read()) text += next.value;
    })().catch(() => {});
    await until("it is ready", () => text.includes("event: ready"));
    return { text: () => text, end: () => reader.cancel() };
  };
  const [mine, all] = [await listen(["mine"]), await listen("*")];
  for (const scope of ["theirs", "mine"]) {
    await scene.post("/runs/start", { workflow: "w", id: `${scope}-run`, scope });
    await scene.post("/runs/pause", { id: `${scope}-run`, reason: `${scope}-reason`, waitMs: 0 });
  }
  await until("all is seen", () => all.text().includes("mine-reason") && mine.text().includes("mine-reason"));
  expect(all.text()).toContain("theirs-run");
  expect(mine.text()).not.toContain("theirs");
  await mine.end();
  await all.end();
});

/** Renewals of a lease are no change. */
function withoutTimes(found: object | undefined): object {
  return { ...found, now: 0 };
}
