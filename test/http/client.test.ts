import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { open } from "onceflow";
import { idempotent, idempotentFetch } from "onceflow/http";
import { expect, onTestFinished, test } from "vitest";
import { serving } from "./servers.js";

/** Serves these responses in turn and records the requests. */
async function server(...answers: ((request: IncomingMessage, response: ServerResponse) => void)[]) {
  const seen: { readonly key: string; readonly body: string; readonly type: string }[] = [];
  const listening = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => void chunks.push(chunk));
    request.on("end", () => {
      const { "idempotency-key": key, "content-type": type } = request.headers;
      seen.push({ key: String(key), body: Buffer.concat(chunks).toString("latin1"), type: String(type) });
      (answers[seen.length - 1] ?? ok)(request, response);
    });
  });
  await new Promise<void>((ready) => void listening.listen(0, "127.0.0.1", ready));
  onTestFinished(() => {
    listening.closeAllConnections();
    listening.close();
  });
  return { url: `http://127.0.0.1:${(listening.address() as AddressInfo).port}/`, seen };
}

const ok = (_: IncomingMessage, response: ServerResponse) => void response.end("ok");
const status =
  (code: number, headers: Record<string, string> = {}) =>
  (_: IncomingMessage, response: ServerResponse) =>
    void response.writeHead(code, headers).end("no");
const cut = (request: IncomingMessage) => void request.socket.destroy();

/** A clock whose waits end at once and are recorded. */
function watch() {
  const waitsMs: number[] = [];
  const clock = {
    now: () => 0,
    soon: (fn: () => void) => void setImmediate(fn),
    after: (ms: number, fn: () => void, background = false) => {
      if (background) return () => {};
      waitsMs.push(ms);
      const timer = setImmediate(fn);
      return () => clearImmediate(timer);
    },
  };
  return { waitsMs, clock };
}

test("network errors, 409 with Retry-After, 429 and 5xx are retried with the same key", async () => {
  const { url, seen } = await server(cut, status(409, { "retry-after": "2" }), status(429, { "retry-after": "3" }), status(503));
  const { clock, waitsMs } = watch();
  const response = await idempotentFetch(url, { method: "POST", body: "b" }, { clock });
  expect([response.status, await response.text()]).toEqual([200, "ok"]);
  expect(seen).toHaveLength(5);
  expect(new Set(seen.map(({ key }) => key)).size).toBe(1);
  expect(seen[0]?.key).toMatch(/^[0-9a-f-]{36}$/);
  expect(waitsMs.slice(1, 3)).toEqual([2000, 3000]);
  expect(waitsMs[0]).toBeLessThanOrEqual(200);
  expect(waitsMs[3]).toBeGreaterThanOrEqual(800);
});

test.each([200, 201, 302, 400, 401, 404, 409, 412, 422])("%i is returned without a retry", async (code) => {
  const { url, seen } = await server(status(code));
  expect((await idempotentFetch(url, { method: "POST", redirect: "manual" }, { clock: watch().clock })).status).toBe(code);
  expect(seen).toHaveLength(1);
});

test("every try sends the same bytes, also of a form and of a stream", async () => {
  const { url, seen } = await server(status(500), cut, ok, status(500));
  const form = new FormData();
  form.set("file", new Blob([Uint8Array.of(0, 255, 10)]), "a.bin");
  await idempotentFetch(url, { method: "POST", body: form }, { clock: watch().clock });
  expect(new Set(seen.map((each) => JSON.stringify(each))).size).toBe(1);
  const stream = ReadableStream.from([Buffer.from("a"), Buffer.from("b")]);
  await idempotentFetch(url, { method: "POST", body: stream as never, duplex: "half" } as RequestInit, {
    clock: watch().clock,
    key: "mine, quoted",
  });
  expect(seen.slice(3).map(({ key, body }) => [key, body])).toEqual(Array(2).fill(['"mine, quoted"', "ab"]));
});

test("after the last try the caller gets the last response, or an error with the key", async () => {
  const failing = await server(...Array.from({ length: 3 }, () => status(503)));
  expect((await idempotentFetch(failing.url, { method: "POST" }, { clock: watch().clock, triesMax: 3 })).status).toBe(503);
  const away = await server(...Array.from({ length: 3 }, () => cut));
  const error = await idempotentFetch(away.url, { method: "POST" }, { clock: watch().clock, triesMax: 3, key: "k" }).catch(
    (error: unknown) => error,
  );
  expect(error).toMatchObject({ code: "NOT_ANSWERED", key: "k", retryable: true });
  expect(away.seen).toHaveLength(3);
});

test("a Retry-After that is too long is not waited for, and an abort ends the retries", async () => {
  const { url, seen } = await server(status(503, { "retry-after": "3600" }));
  expect((await idempotentFetch(url, { method: "POST" }, { clock: watch().clock })).status).toBe(503);
  const controller = new AbortController();
  const waiting = idempotentFetch(
    url,
    { method: "POST", signal: controller.signal, headers: { "idempotency-key": "own" } },
    {
      fetch: async () => {
        queueMicrotask(() => controller.abort(new Error("enough")));
        return new Response(null, { status: 500 });
      },
    },
  );
  await expect(waiting).rejects.toThrow("enough");
  expect(seen).toHaveLength(1);
  await expect(idempotentFetch(url, { headers: { "idempotency-key": "a" } }, { key: "b" })).rejects.toThrow(/^key:/);
  await expect(idempotentFetch(url, {}, { triesMax: 0 })).rejects.toThrow(/^triesMax:/);
});

test("a try that hangs is aborted, and the next try gets its response", async () => {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  let [runs, asks] = [0, 0];
  let letGo = () => {};
  const held = new Promise<void>((go) => {
    letGo = go;
  });
  const handler = idempotent(
    async () => {
      runs += 1;
      await held;
      return new Response(`run ${runs}`);
    },
    { store, scope: "", onRunning: "wait" },
  );
  const { url, close } = await serving((request) => {
    asks += 1;
    if (asks === 2) letGo();
    return handler(request);
  });
  onTestFinished(close);
  const response = await idempotentFetch(url, { method: "POST" }, { tryMs: 200, backoffMs: 10, triesMax: 50 });
  expect([await response.text(), runs]).toEqual(["run 1", 1]);
});

test.each([307, 308])("%i: the body is sent to the new location too, and a retry starts at the original URL", async (code) => {
  const { url, seen } = await server(status(code, { location: "/moved" }), status(503), status(code, { location: "/moved" }));
  const { clock } = watch();
  const bodies = ["text", new Uint8Array([0, 255, 254])] as const;
  for (const body of bodies) {
    const response = await idempotentFetch(url, { method: "POST", body, headers: { "content-type": "text/x" } }, { clock, triesMax: 2 });
    expect([response.status, await response.text()]).toEqual([200, "ok"]);
  }
  const [text, bytes] = bodies.map((body) => Buffer.from(body as string).toString("latin1"));
  expect(seen.map(({ body, type }) => [body, type])).toEqual([...Array(4).fill([text, "text/x"]), [bytes, "text/x"]]);
  expect(new Set(seen.slice(0, 4).map(({ key }) => key)).size).toBe(1);
});

test("options that only fetch knows are passed on to it, for example the dispatcher", async () => {
  const { url, seen } = await server();
  const asked: string[] = [];
  // Behaves as an undici dispatcher that delegates to the global one.
  const original = (globalThis as Record<symbol, unknown>)[Symbol.for("undici.globalDispatcher.1")] as {
    dispatch(options: { readonly path: string }, handler: unknown): boolean;
  };
  const dispatcher = {
    dispatch(options: { readonly path: string }, handler: unknown) {
      asked.push(options.path);
      return original.dispatch(options, handler);
    },
  };
  const response = await idempotentFetch(`${url}orders`, { method: "POST", body: "b", dispatcher } as RequestInit);
  expect([response.status, asked, seen.length]).toEqual([200, ["/orders"], 1]);
});
