import { setImmediate } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { Ajv2020 } from "ajv/dist/2020.js";
import { Hono } from "hono";
import { InvalidInputError } from "onceflow";
import { createApp, openApi } from "onceflow/server";
import { describe, expect, test, vi } from "vitest";
import { everyStore, onStores } from "../kit/scene.js";
import { problem, type Scene, scene } from "./scene.js";

const order = { orderId: "o-1", amount: 4200 };
const json = async (response: Response) => (await response.json()) as Record<string, unknown>;

onStores("a trigger", everyStore, (test) => {
  test("is accepted once per key, even if it is sent several times and formatted differently", async ({ scene: place }) => {
    const { trigger, call, effects } = await scene({ place });
    const first = await trigger(order, "order-1");
    expect([first.status, first.headers.get("idempotent-replayed")]).toEqual([202, null]);
    const { executionId, status } = await json(first);
    expect([status, first.headers.get("location")]).toEqual(["started", `/executions/${executionId}`]);
    for (const key of ["order-1", '"order-1"']) {
      const again = await trigger(order, key);
      expect([again.status, again.headers.get("idempotent-replayed"), await json(again)]).toEqual([
        200,
        "true",
        { executionId, status: "duplicate" },
      ]);
    }
    const ended = await json(await call(`/executions/${executionId}?wait=30`));
    expect(ended).toMatchObject({
      status: "completed",
      key: "order-1",
      input: order,
      outputs: [{ node: "Charge", data: { orderId: "o-1", paid: 4200 } }],
    });
    expect(effects.rawCalls("o-1-charge")).toBe(1);
  });

  test("with a key that was used with another payload is refused", async ({ scene: place }) => {
    const { trigger, effects, runtime } = await scene({ place });
    await trigger(order, "order-1");
    expect(await problem(await trigger({ ...order, amount: 1 }, "order-1"))).toMatchObject({ status: 422, name: "http:mismatch" });
    await runtime.idle();
    expect(effects.keys().length).toBe(1);
  });
});

describe("a trigger", () => {
  test("reports every problem of a payload, and nothing is written", async () => {
    const { trigger, runtime } = await scene();
    const { status, name, body } = await problem(await trigger({ to: 5, times: "x" }, "p-1", "pings"));
    expect([status, name]).toEqual([400, "server:payload-invalid"]);
    const found = body["problems"] as { pointer: string; message: string }[];
    expect(found.map(({ pointer }) => pointer).sort()).toEqual(expect.arrayContaining(["/times", "/to"]));
    expect(await runtime.executions()).toEqual([]);
    // The key is still unused.
    expect((await trigger({ to: "x" }, "p-1", "pings")).status).toBe(200);
    // A source without a handler passes its payload on, so the payload must match the source's output schema.
    const source = await problem(await trigger({ orderId: 5 }, "p-1"));
    expect(source).toMatchObject({ status: 400, name: "server:payload-invalid", body: { problems: [{}, {}] } });
    expect(await runtime.executions()).toEqual([]);
  });

  test.each([
    ["no JSON", "{", 400, "server:body-malformed"],
    ["nothing", "", 400, "server:body-malformed"],
    ["a list", "[1]", 400, "server:body-malformed"],
    ["a bad byte", "\ud800", 400, "server:body-malformed"],
    ["a deep one", `{"a":${"[".repeat(5000)}${"]".repeat(5000)}}`, 400, "server:body-malformed"],
    ["a prototype", '{"orderId":"o","amount":1,"__proto__":{"x":1}}', 400, "server:payload-invalid"],
    ["a long one", `{"orderId":"${"x".repeat(2000)}","amount":1}`, 413, "server:body-too-long"],
  ])("of %s is refused", async (_what, body, status, name) => {
    const { trigger, runtime } = await scene({ bodyBytesMax: 20_000, ...(status === 413 ? { bodyBytesMax: 1000 } : {}) });
    expect(await problem(await trigger(body))).toMatchObject({ status, name });
    expect(await runtime.executions()).toEqual([]);
  });

  test("whose body never ends is read up to the limit", async () => {
    const { server } = await scene({ bodyBytesMax: 1000 });
    const body = new ReadableStream({
      pull: async (controller) => {
        await setImmediate();
        controller.enqueue(new TextEncoder().encode("x".repeat(100)));
      },
    });
    const init = { method: "POST", headers: { "content-type": "application/json" }, body, duplex: "half" };
    const stop = new AbortController();
    const response = await fetch(`${server.url}/flows/orders/trigger`, { ...init, signal: stop.signal } as RequestInit);
    expect(response.status).toBe(413);
    stop.abort();
  });

  test("whose body is cut off is not reported as an error of the server", async () => {
    const errors: unknown[] = [];
    const { runtime } = await scene();
    const app = createApp(runtime, { onError: (error) => errors.push(error) });
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"orderId":'));
        controller.error(new Error("aborted"));
      },
    });
    const init = { method: "POST", headers: { "content-type": "application/json", host: "localhost" }, body, duplex: "half" as const };
    expect(await problem(await app.request("/flows/orders/trigger", init))).toMatchObject({ status: 400, name: "server:body-malformed" });
    expect([errors, await runtime.executions()]).toEqual([[], []]);
  });

  test("with a compressed body is refused", async () => {
    const { call, runtime } = await scene();
    const headers = { "content-type": "application/json", "content-encoding": "gzip" };
    const packed = await call("/flows/orders/trigger", { method: "POST", headers, body: gzipSync(JSON.stringify(order)) });
    expect(await problem(packed)).toMatchObject({ status: 415, name: "server:media-type-refused" });
    expect(await runtime.executions()).toEqual([]);
  });

  test("without a content type is JSON if it parses", async () => {
    const { call, runtime } = await scene();
    const send = (text: string) => call("/flows/orders/trigger", { method: "POST", body: new Blob([text]) });
    expect((await send(JSON.stringify(order))).status).toBe(202);
    expect(await problem(await send("orderId=o"))).toMatchObject({ status: 400, name: "server:body-malformed" });
    expect(await runtime.executions()).toHaveLength(1);
  });

  test("must be JSON, for an existing flow and entry point, with a valid key", async () => {
    const { trigger, call } = await scene();
    const form = await call("/flows/orders/trigger", { method: "POST", body: new URLSearchParams({ orderId: "o" }) });
    expect(await problem(form)).toMatchObject({ status: 415, name: "server:media-type-refused" });
    expect(await problem(await trigger(order, "k", "no-flow"))).toMatchObject({ status: 404, name: "server:flow-unknown" });
    expect(await problem(await trigger(order, "a b"))).toMatchObject({ status: 400, name: "http:key-malformed" });
    const elsewhere = await call("/flows/orders/trigger?entry=Charge", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(order),
    });
    expect(await problem(elsewhere)).toMatchObject({ status: 400, name: "server:query-invalid" });
  });

  test("that the filter rejects is answered as filtered", async () => {
    const { trigger } = await scene();
    const response = await trigger({ to: "nobody" }, undefined, "pings");
    expect([response.status, await json(response)]).toEqual([200, { status: "filtered" }]);
  });

  test("of a flow that stores nothing is answered when its nodes have returned, with an error's code but not its message", async () => {
    const { trigger } = await scene();
    const done = await trigger({ to: "x" }, "p-1", "pings");
    expect([done.status, done.headers.get("location")]).toEqual([200, null]);
    const replayed = await trigger({ to: "x" }, "p-1", "pings");
    expect([replayed.status, replayed.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
    expect(await problem(await trigger({ to: "y" }, "p-1", "pings"))).toMatchObject({ status: 422 });
    const failed = await problem(await trigger({ to: "broken" }, undefined, "pings"));
    expect(failed).toMatchObject({ status: 500, name: "server:node-failed", body: { code: "TEMPORARY", retryable: true } });
    expect(JSON.stringify(failed.body)).not.toContain("secret");
  });
});

onStores("flows", everyStore, (test) => {
  test("are listed, shown, paused, resumed and archived", async ({ scene: place }) => {
    const { call, trigger, effects, runtime } = await scene({ place });
    const post = (path: string) => call(path, { method: "POST" });
    expect(await json(await call("/flows"))).toMatchObject({ flows: [{ id: "orders", state: "active" }, { id: "pings" }] });
    expect(await json(await post("/flows/orders/pause"))).toEqual({ id: "orders", state: "paused" });
    const { executionId } = await json(await trigger(order));
    const shown = await json(await call("/flows/orders"));
    expect(shown).toMatchObject({
      state: "paused",
      edges: [{ mode: "durable", key: "{{payload.orderId}}-charge", deadLetters: "unpaid" }],
    });
    expect(shown["queues"]).toMatchObject([{ flow: "orders", due: 1 }]);
    await post("/flows/orders/archive");
    expect(await problem(await trigger(order))).toMatchObject({ status: 409, name: "server:flow-archived" });
    expect(effects.keys()).toEqual([]);
    expect(await json(await post("/flows/orders/resume"))).toEqual({ id: "orders", state: "active" });
    expect((await runtime.wait(String(executionId))).status).toBe("completed");
    // A flow that stores nothing has no packets that could wait.
    await post("/flows/pings/pause");
    expect(await problem(await trigger({ to: "x" }, undefined, "pings"))).toMatchObject({ status: 409, name: "server:flow-paused" });
    await post("/flows/pings/archive");
    expect(await problem(await trigger({ to: "x" }, undefined, "pings"))).toMatchObject({ status: 409, name: "server:flow-archived" });
    expect(await problem(await post("/flows/none/pause"))).toMatchObject({ status: 404 });
    expect(await problem(await call("/flows/none"))).toMatchObject({ status: 404 });
  });
});

onStores("executions", everyStore, (test) => {
  test("are listed a page at a time", async ({ scene: place }) => {
    const { call, trigger, runtime, hold } = await scene({ place });
    const go = hold("o-2");
    for (const orderId of ["o-0", "o-1"]) await trigger({ orderId, amount: 1 });
    await runtime.idle();
    await trigger({ orderId: "o-2", amount: 1 });
    const list = async (query: string) =>
      (await json(await call(`/executions?${query}`))) as { executions: { id: string }[]; next?: string };
    expect((await list("status=running")).executions.length).toBe(1);
    expect((await list("status=completed&flow=orders")).executions.length).toBe(2);
    expect((await list("flow=pings")).executions).toEqual([]);
    const first = await list("limit=2");
    const rest = await list(`limit=2&before=${first.next}`);
    const ids = [...first.executions, ...rest.executions].map(({ id }) => id);
    expect([new Set(ids).size, rest.next]).toEqual([3, undefined]);
    go();
    await runtime.idle();
  });

  test("can be waited for up to a limit", async ({ scene: place }) => {
    const { call, trigger, hold, effects } = await scene({ place, waitMsMax: 20 });
    const go = hold("o-1");
    const { executionId } = await json(await trigger(order));
    expect(await json(await call(`/executions/${executionId}?wait=600`))).toMatchObject({ status: "running" });
    go();
    await vi.waitUntil(async () => (await json(await call(`/executions/${executionId}?wait=600`)))["status"] === "completed", {
      timeout: 20_000,
    });
    expect(effects.rawCalls("o-1-charge")).toBe(1);
  });
});

describe("executions", () => {
  test.each(["limit=0", "limit=1001", "limit=x", "status=lost", "before=nobody", "before=ex_zzzz"])("?%s is refused", async (query) => {
    const { call } = await scene();
    expect(await problem(await call(`/executions?${query}`))).toMatchObject({ status: 400, name: "server:query-invalid" });
  });

  test("that do not exist get 404 for every form of id", async () => {
    const { call } = await scene();
    for (const id of ["ex_zzzz", "nobody", "..%2f..", "ex_%00"])
      expect(await problem(await call(`/executions/${id}`))).toMatchObject({ status: 404, name: "server:execution-unknown" });
  });
});

onStores("dead letters", everyStore, (test) => {
  async function declinedOrder({ trigger, declined, runtime }: Scene): Promise<string> {
    declined.add("o-1");
    await trigger(order, "order-1");
    await runtime.idle();
    return (await runtime.deadLetters())[0]?.id ?? "";
  }

  test("are listed and shown, retried with their key, and discarded", async ({ scene: place }) => {
    const all = await scene({ place });
    const { call, declined, runtime, effects } = all;
    const id = await declinedOrder(all);
    const listed = (await json(await call("/flows/orders/dead-letters?queue=unpaid")))["deadLetters"];
    expect(listed).toMatchObject([{ id, key: "o-1-charge", error: { code: "PERMANENT", message: "the card was declined" } }]);
    expect((await json(await call("/flows/orders/dead-letters?queue=others")))["deadLetters"]).toEqual([]);
    const path = `/flows/orders/dead-letters/${id}`;
    expect(await json(await call(path))).toMatchObject({ payload: order, history: [{ attempt: 1, code: "PERMANENT" }] });
    const events: string[] = [];
    runtime.on((event) => void events.push(event.type));
    // The card is still declined: the packet becomes a dead letter again, and nothing was charged.
    expect(await json(await call(`${path}/retry`, { method: "POST" }))).toMatchObject({ id, key: "o-1-charge", status: "retried" });
    await runtime.idle();
    expect([events.includes("reinjected"), effects.keys()]).toEqual([true, []]);
    declined.clear();
    // The deprecated name of the route.
    expect(await json(await call(`${path}/reinject`, { method: "POST" }))).toMatchObject({ id, key: "o-1-charge", status: "reinjected" });
    await runtime.idle();
    expect(effects.rawCalls("o-1-charge")).toBe(1);
    for (const verb of ["retry", "reinject"])
      expect(await problem(await call(`${path}/${verb}`, { method: "POST" }))).toMatchObject({ status: 404 });
  });

  test("are discarded once, and only by their own flow", async ({ scene: place }) => {
    const all = await scene({ place });
    const id = await declinedOrder(all);
    for (const [method, path] of [
      ["DELETE", ""],
      ["GET", ""],
      ["POST", "/retry"],
    ] as const)
      expect(await problem(await all.call(`/flows/pings/dead-letters/${id}${path}`, { method }))).toMatchObject({
        status: 404,
        name: "server:dead-letter-unknown",
      });
    const path = `/flows/orders/dead-letters/${id}`;
    expect((await all.call(path, { method: "DELETE" })).status).toBe(204);
    expect(await problem(await all.call(path, { method: "DELETE" }))).toMatchObject({ status: 404 });
    expect(await problem(await all.call(`/flows/orders/dead-letters?before=${id}`))).toMatchObject({ status: 400 });
    expect(await problem(await all.call("/flows/orders/dead-letters/nobody"))).toMatchObject({ status: 404 });
  });
});

describe("the state of the server", () => {
  test("metrics are counted, and names are escaped in labels", async () => {
    const { call, trigger, runtime } = await scene();
    await trigger(order);
    await runtime.idle();
    const response = await call("/metrics");
    expect(response.headers.get("content-type")).toContain("version=0.0.4");
    const text = await response.text();
    expect(text).toContain("\nonceflow_triggered_total 1\n");
    expect(text).toContain('onceflow_node_processed_total{flow="orders",node="Charge"} 1\n');
    expect(text).toMatch(/^onceflow_store_flushes_total\{store="memory"\} \d+$/m);
    for (const line of text.trim().split("\n")) expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{(\w+="[^"\\]*",?)+\})? [\d.e-]+)$/);
  });

  test("is unhealthy when its store is closed", async () => {
    const { call, store, server } = await scene();
    expect(await json(await call("/health"))).toEqual({ status: "ok" });
    await store.close();
    const ill = await call("/health");
    expect([ill.status, await json(ill)]).toEqual([503, { status: "store unreachable" }]);
    const refused = await call("/flows/orders/trigger", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(order),
    });
    expect(await problem(refused)).toMatchObject({ status: 503, name: "server:stopping" });
    await server.close();
  });

  test("internal errors are passed to onError and not sent to clients", async () => {
    const errors: unknown[] = [];
    const { runtime, call } = await scene({ onError: (error) => errors.push(error) });
    vi.spyOn(runtime, "flows").mockRejectedValue(new Error("password=hunter2"));
    const { status, name, body } = await problem(await call("/flows"));
    expect([status, name, JSON.stringify(body).includes("hunter2")]).toEqual([500, "server:internal", false]);
    expect(String(errors[0])).toContain("hunter2");
  });
});

describe("the OpenAPI document", () => {
  test("has every route, and the app has every path", async () => {
    const { runtime } = await scene();
    const routes = createApp(runtime)
      .routes.filter(({ method }) => method !== "ALL")
      .map(({ method, path }) => `${method} ${path.replace(/:(\w+)(\{\.\+\})?/g, "{$1}")}`);
    const documented = Object.entries(openApi.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(new Set(routes)).toEqual(new Set(documented));
    const names = Object.values(openApi.paths).flatMap((methods) => Object.values(methods).map(({ operationId }) => operationId as string));
    expect(new Set(names).size).toBe(names.length);
  });

  test("has every parameter of its paths, and every reference resolves", () => {
    for (const [path, methods] of Object.entries(openApi.paths))
      for (const { parameters } of Object.values(methods)) {
        const inPath = (parameters as { in: string; name: string }[]).filter((one) => one.in === "path").map(({ name }) => name);
        expect(inPath).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name));
      }
    const refs = [...JSON.stringify(openApi).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name = ""]) => name);
    expect(refs.filter((name) => !Object.hasOwn(openApi.components.schemas, name))).toEqual([]);
    expect(Object.keys(openApi.components.schemas).filter((name) => !refs.includes(name))).toEqual([]);
  });

  test("describes the responses", async () => {
    const all = await scene();
    const { call, trigger, declined, runtime } = all;
    declined.add("o-1");
    const ajv = new Ajv2020({ strict: false, allErrors: true });
    const answers: [string, Response][] = [["Triggered", await trigger(order, "order-1")]];
    await runtime.idle();
    const [letter] = await runtime.deadLetters();
    const [execution] = await runtime.executions();
    answers.push(["FlowList", await call("/flows")], ["FlowDetails", await call("/flows/orders")]);
    answers.push(["ExecutionList", await call("/executions")], ["ExecutionDetails", await call(`/executions/${execution?.id}`)]);
    const history = `/executions/${execution?.id}/history`;
    answers.push(["History", await call(history)], ["History", await call(`${history}?values=true&limit=1`)]);
    answers.push(["DeadLetterList", await call("/flows/orders/dead-letters")]);
    answers.push(["DeadLetterDetails", await call(`/flows/orders/dead-letters/${letter?.id}`)]);
    const retried = await call(`/flows/orders/dead-letters/${letter?.id}/retry`, { method: "POST" });
    await runtime.idle();
    answers.push(["Retried", retried], ["Reinjected", await call(`/flows/orders/dead-letters/${letter?.id}/reinject`, { method: "POST" })]);
    expect(openApi.paths["/flows/{flow}/dead-letters/{letter}/reinject"].post).toMatchObject({ deprecated: true });
    answers.push(["FlowState", await call("/flows/orders/pause", { method: "POST" })]);
    answers.push(["Health", await call("/health")], ["Problem", await trigger({}, undefined, "pings")]);
    for (const [name, response] of answers) {
      const valid = ajv.compile({ $ref: `#/components/schemas/${name}`, components: openApi.components });
      valid(await response.json());
      expect(valid.errors, name).toBeNull();
    }
    expect(await json(await call("/openapi.json"))).toMatchObject({ openapi: "3.1.0" });
  });
});

test("mounted in another app, the API is the same under its prefix", async () => {
  const { runtime } = await scene();
  const token = "0123456789abcdef";
  const app = new Hono().route("/api", createApp(runtime, { token }));
  const authorization = `Bearer ${token}`;
  const headers = { authorization, "content-type": "application/json" };
  expect((await app.request("/api/health")).status).toBe(200);
  expect((await app.request("/api/flows/health")).status).toBe(401);
  const taken = await app.request("/api/flows/orders/trigger", { method: "POST", headers, body: JSON.stringify(order) });
  const location = taken.headers.get("location") ?? "";
  expect([location, (await app.request(location, { headers })).status]).toEqual([expect.stringMatching(/^\/api\/executions\/ex_/), 200]);
});

test("unknown options are refused at once", async () => {
  const { runtime } = await scene();
  for (const options of [
    { token: "short" },
    { token: "with a space in the middle" },
    { bodyBytesMax: 0 },
    { heartbeatMs: -1 },
    { eventsMax: 1.5 },
  ])
    expect(() => createApp(runtime, options)).toThrow(InvalidInputError);
});

test("the history of an execution shows values only if the caller asks for them", async () => {
  const { call, trigger, declined, runtime } = await scene();
  declined.add("o-1");
  await trigger(order, "order-1");
  await runtime.idle();
  const [execution] = await runtime.executions();
  const path = `/executions/${execution?.id}/history`;
  const hidden = (await json(await call(path))) as { history: { verdict: string; code?: string }[] };
  expect(hidden.history.map(({ verdict }) => verdict)).toContain("dead");
  expect(JSON.stringify(hidden)).not.toContain("o-1");
  expect(JSON.stringify(await json(await call(`${path}?values=true`)))).toContain('\\"orderId\\":\\"o-1\\"');
  const first = (await json(await call(`${path}?limit=1`))) as { history: unknown[]; next: string };
  const second = (await json(await call(`${path}?limit=1000&cursor=${first.next}`))) as { history: unknown[] };
  expect([...first.history, ...second.history]).toEqual(hidden.history);
  expect((await call("/executions/ex_zzzz/history")).status).toBe(404);
  for (const query of ["cursor=x", "limit=0", "values=yes"]) expect((await call(`${path}?${query}`)).status).toBe(400);
});
