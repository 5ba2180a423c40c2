import { open } from "onceflow";
import { createApi, serve } from "onceflow/server";
import { workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { expect, onTestFinished, test } from "vitest";
import { onStores } from "../../kit/scene.js";
import { until } from "../../kit/until.js";
import { apiScene, root } from "./scene.js";

const liveUrl = "http://localhost/live";

/** Reads events until the stream ends or the test leaves it. */
function reader(response: Response) {
  const stream = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let isOver = false;
  const done = (async () => {
    for (;;) {
      const { value, done: ended } = await stream.read();
      if (ended) break;
      text += value;
    }
    isOver = true;
  })().catch(() => {});
  const events = () =>
    [...text.matchAll(/event: (\w+)\ndata: (.*)\n/g)].map(([, type, data]) => ({
      type,
      data: JSON.parse(data ?? "") as Record<string, unknown>,
    }));
  return { events, text: () => text, isOver: () => isOver, done, cancel: () => stream.cancel() };
}

onStores("live events", ["sqlite", "postgres"], (test) => {
  test("changes that another process makes arrive, and nothing else", async ({ scene: place }) => {
    const { api } = await apiScene({ place, pollMs: 20 });
    const other = await place.open();
    const quick = workflow(place.name("quick"), async () => "done");
    await start(quick, [], { id: "before", store: other });
    const live = reader(await api(new Request(liveUrl)));
    await until("the stream is ready", () => live.events().length > 0);
    await start(quick, [], { id: "new", store: other });
    await until("the run is seen", () => live.events().some(({ type }) => type === "run"));
    await place.work({}, other);
    const statuses = () =>
      live
        .events()
        .flatMap(({ data }) =>
          (data["run"] as { id?: string } | undefined)?.id === "new" ? [(data["run"] as { status: string }).status] : [],
        );
    await until("the end is seen", () => statuses().at(-1) === "completed");
    expect(live.events()[0]).toMatchObject({ type: "ready" });
    await live.cancel();
  });

  test("actions of operators are events, with actor and reason", async ({ scene: place }) => {
    const { api, post, store } = await apiScene({ place, pollMs: 20 });
    const waits = workflow(place.name("waits"), async () => await new Promise<never>(() => {}));
    await start(waits, [], { id: "w", store });
    const live = reader(await api(new Request(liveUrl)));
    await until("the stream is ready", () => live.events().length > 0);
    await post("/runs/terminate", { id: "w", reason: "test" });
    await until("the action is seen", () => live.events().some(({ type }) => type === "action"));
    expect(live.events().find(({ type }) => type === "action")?.data).toMatchObject({
      entry: { actor: "ann", action: "terminate", runId: "w", reason: "test" },
    });
    await live.cancel();
  });
});

test("the number of open streams is bounded, and a client that leaves frees its place", async () => {
  const { api, get } = await apiScene({ listenersMax: 2, pollMs: 10 });
  const open = await Promise.all([1, 2].map(async () => reader(await api(new Request(liveUrl)))));
  expect(await get("/live")).toMatchObject({ status: 503, body: { code: "TOO_MANY_LISTENERS" } });
  expect((await api(new Request(liveUrl, { method: "HEAD" }))).status).toBe(200);
  await open[0]?.cancel();
  const next = reader(await api(new Request(liveUrl)));
  await until("it is open", () => next.text() !== "");
  await open[1]?.cancel();
  await next.cancel();
});

test("an idle stream has heartbeats", async () => {
  const { api } = await apiScene({ heartbeatMs: 10 });
  const live = reader(await api(new Request(liveUrl)));
  await until("two heartbeats", () => live.text().split(": still here").length > 2);
  await live.cancel();
});

test("streams end when the server stops, and new ones are refused", async () => {
  const stop = new AbortController();
  const { api, get } = await apiScene({ signal: stop.signal });
  const live = reader(await api(new Request(liveUrl)));
  stop.abort();
  await live.done;
  expect(live.isOver()).toBe(true);
  expect(await get("/live")).toMatchObject({ status: 503, body: { code: "STOPPING" } });
});

test("serve({ store, token }) listens on the loopback address, and knows one token", async () => {
  const store = await open("memory:");
  const token = "a-token-that-is-long-enough";
  await expect(serve({ store } as never)).rejects.toMatchObject({ code: "TOKEN_MISSING" });
  await expect(serve({ store, token: "short" })).rejects.toMatchObject({ field: "token" });
  await expect(serve({ store, token, prot: 1 } as never)).rejects.toThrow('"port"');
  const server = await serve({ store, token, port: 0, actor: "ops" });
  onTestFinished(async () => {
    await server.close();
    await store.close();
  });
  const get = (authorization?: string) =>
    fetch(`${server.url}/capabilities`, { headers: authorization === undefined ? {} : { authorization } });
  for (const wrong of [undefined, "", "Bearer", `Bearer ${token}x`, `Basic ${token}`, `Bearer ${token.slice(1)}`])
    expect((await get(wrong)).status).toBe(401);
  expect(await (await get(`Bearer ${token}`)).json()).toMatchObject({
    store: "memory",
    readOnly: false,
    you: { actor: "ops", scopes: "*" },
  });
});

test("an API can be mounted below a path", async () => {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  const api = createApi({ store, authorize: () => root, path: "/ops/onceflow" });
  expect((await api(new Request("http://localhost/ops/onceflow/keys"))).status).toBe(200);
  expect((await api(new Request("http://localhost/keys"))).status).toBe(404);
});
