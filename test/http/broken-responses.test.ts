import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import compression from "compression";
import express5, { type RequestHandler } from "express";
import express4 from "express4";
import fastify from "fastify";
import Koa from "koa";
import { inspect, open, operation, type Store } from "onceflow";
import { currentAttempt, idempotent, serveOperation } from "onceflow/http";
import { idempotency as forExpress } from "onceflow/http/express";
import { idempotency as forFastify } from "onceflow/http/fastify";
import { idempotency as forKoa } from "onceflow/http/koa";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { listening, type Server } from "./servers.js";

let store: Store;
let runs = 0;
beforeAll(async () => {
  store = await open("memory:");
});
afterAll(() => store.close());
beforeEach(() => {
  runs = 0;
});
let made = 0;
const newKey = () => `broken-${++made}`;
const options = () => ({ store, scope: "me" });

async function* breaking(): AsyncGenerator<string> {
  yield "half of it";
  throw new Error("the file is gone");
}

/** Returns status and text, or "broken" if the connection was cut. */
async function post(server: Server, path: string, key: string): Promise<string> {
  try {
    const response = await fetch(server.url + path, { method: "POST", headers: { "idempotency-key": key }, body: "{}" });
    return `${response.status} ${await response.text()}`;
  } catch {
    return "broken";
  }
}

describe("a response that breaks frees the key", () => {
  const broken: Record<string, RequestHandler> = {
    "/pipeline": async (_request, response) => {
      if (++runs === 1) await pipeline(Readable.from(breaking()), response).catch(() => {});
      else response.send("made");
    },
    "/pipeline-rejects": async (_request, response, next) => {
      if (++runs === 1) await pipeline(Readable.from(breaking()), response).catch(next);
      else response.send("made");
    },
    "/destroy": (_request, response) => {
      if (++runs === 1) response.destroy();
      else response.send("made");
    },
    "/destroy-later": (_request, response) => {
      if (++runs === 1) {
        response.write("half of it");
        setImmediate(() => response.destroy(new Error("broken")));
      } else response.send("made");
    },
  };

  test.each(
    ["express 5", "express 4", "express 5 behind compression"].flatMap((name) => Object.keys(broken).map((path) => [name, path] as const)),
  )("%s %s", async (name, path) => {
    const app = name === "express 4" ? (express4() as express5.Express) : express5();
    if (name.endsWith("compression")) app.use(compression());
    app.post(path, forExpress(options()), broken[path] as RequestHandler);
    app.use((_error: Error, _request: unknown, response: express5.Response, _next: unknown) => void response.status(500).end());
    const server = await listening(app);
    onTestFinished(() => server.close());
    const key = newKey();
    expect(await post(server, path, key)).toBe("broken");
    expect(await inspect(store, { scope: `http POST ${path} me`, key })).toMatchObject({ state: "free", attempt: 1 });
    expect(await post(server, path, key)).toBe("200 made");
    expect(await post(server, path, key)).toBe("200 made");
    expect(runs).toBe(2);
  });

  test.each(["stream", "response"])("fastify: %s", async (kind) => {
    const app = fastify();
    await app.register(forFastify, options());
    app.post("/orders", async (_request, reply) => {
      runs += 1;
      if (kind === "stream") return reply.type("text/plain").send(Readable.from(runs === 1 ? breaking() : ["made"]));
      const body = ReadableStream.from<unknown>(runs === 1 ? breaking() : [Buffer.from("made")]);
      return reply.send(new Response(body as ReadableStream<Uint8Array>, { status: 202, headers: { location: "/orders/1" } }));
    });
    await app.listen({ port: 0, host: "127.0.0.1" });
    onTestFinished(() => app.close());
    const server = { url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`, close: () => app.close() };
    const key = newKey();
    expect(await post(server, "/orders", key)).toContain("500 ");
    const status = kind === "stream" ? 200 : 202;
    expect(await post(server, "/orders", key)).toBe(`${status} made`);
    const again = await fetch(`${server.url}/orders`, { method: "POST", headers: { "idempotency-key": key }, body: "{}" });
    expect([again.status, again.headers.get("idempotent-replayed"), await again.text()]).toEqual([status, "true", "made"]);
    expect(again.headers.get("location")).toBe(kind === "stream" ? null : "/orders/1");
    expect(runs).toBe(2);
  });
});

test("express: a client that disconnected before the handler started a pipeline gets the response when it retries", async () => {
  let letGo = () => {};
  const left = new Promise<void>((go) => {
    letGo = go;
  });
  let entered = () => {};
  const working = new Promise<void>((go) => {
    entered = go;
  });
  const app = express5();
  app.post("/orders", forExpress(options()), async (request, response) => {
    runs += 1;
    entered();
    await left;
    expect([request.socket.destroyed, response.destroyed]).toEqual([true, false]);
    await pipeline(Readable.from(["made"]), response);
  });
  const server = await listening(app);
  onTestFinished(() => server.close());
  const key = newKey();
  const leaving = new AbortController();
  const first = fetch(`${server.url}/orders`, { method: "POST", headers: { "idempotency-key": key }, body: "{}", signal: leaving.signal });
  await working;
  app.post("/gone", (_request, response) => void response.end());
  leaving.abort();
  await expect(first).rejects.toThrow();
  // The server notices the disconnect later: wait for a request on another connection, which it handles after that.
  await post(server, "/gone", newKey());
  letGo();
  let back = await post(server, "/orders", key);
  while (back.startsWith("409")) back = await post(server, "/orders", key);
  expect([back, runs]).toEqual(["200 made", 1]);
});

describe("koa", () => {
  async function start(handler: Koa.Middleware, outer?: Koa.Middleware): Promise<Server> {
    const app = new Koa();
    app.silent = true;
    if (outer !== undefined) app.use(outer);
    app.use(forKoa(options())).use(handler);
    const server = await listening(app.callback());
    onTestFinished(() => server.close());
    return server;
  }
  const asJson: Koa.Middleware = async (ctx, next) => {
    try {
      await next();
    } catch (error) {
      const { status, message, name, details, code } = error as Record<string, unknown>;
      ctx.status = status as number;
      ctx.body = { message, name, details, code };
    }
  };

  test("outer middleware formats a thrown refusal, also when it is replayed", async () => {
    const server = await start((ctx) => {
      runs += 1;
      ctx.set("x-half", "done");
      ctx.throw(400, "no such order", { details: [{ field: "id", runs }], code: "NO_ORDER", headers: { "retry-after": "7" } });
    }, asJson);
    const key = newKey();
    const answers = [];
    for (let i = 0; i < 2; i++) {
      const response = await fetch(`${server.url}/thrown`, { method: "POST", headers: { "idempotency-key": key }, body: "{}" });
      answers.push([response.status, await response.json(), response.headers.get("idempotent-replayed")]);
    }
    const body = { message: "no such order", name: "BadRequestError", details: [{ field: "id", runs: 1 }], code: "NO_ORDER" };
    expect(answers).toEqual([
      [400, body, null],
      [400, body, "true"],
    ]);
    expect(runs).toBe(1);
  });

  test("without outer middleware Koa formats a thrown refusal, also when it is replayed, and a failed request runs again", async () => {
    const server = await start((ctx) => {
      runs += 1;
      if (ctx.path === "/failure") ctx.throw(500, "secret");
      ctx.throw(404, `no order ${runs}`, { headers: { "retry-after": "7" } });
    });
    const key = newKey();
    for (const replayed of [null, "true"]) {
      const response = await fetch(`${server.url}/thrown`, { method: "POST", headers: { "idempotency-key": key }, body: "{}" });
      expect([response.status, await response.text(), response.headers.get("retry-after")]).toEqual([404, "no order 1", "7"]);
      expect(response.headers.get("idempotent-replayed")).toBe(replayed);
      expect(response.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    }
    expect([await post(server, "/failure", key), await post(server, "/failure", key), runs]).toEqual([
      "500 Internal Server Error",
      "500 Internal Server Error",
      3,
    ]);
  });

  test("a response that has only a status is replayed with the body that Koa generates for it", async () => {
    const server = await start((ctx) => {
      runs += 1;
      if (ctx.path === "/accepted") ctx.status = 202;
      if (ctx.path === "/empty") ctx.body = null;
    });
    for (const [path, text] of [
      ["/accepted", "202 Accepted"],
      ["/missing", "404 Not Found"],
      ["/empty", "204 "],
    ] as const) {
      const key = newKey();
      expect([await post(server, path, key), await post(server, path, key)]).toEqual([text, text]);
    }
    expect(runs).toBe(3);
  });
});

test("serveOperation replays a redirect", async () => {
  const charge = operation({ name: "redirecting", key: (id: string) => id, run: async (id) => ({ id, runs: ++runs }) });
  const respond = ({ id }: { id: string }) => Response.redirect(`http://shop.test/orders/${id}`, 303);
  const serve = serveOperation(charge, { store, input: (request) => request.text(), respond });
  for (const replayed of [null, "true"]) {
    const { status, headers } = await serve(new Request("http://shop.test/orders", { method: "POST", body: "o-1" }));
    expect([status, headers.get("location"), headers.get("idempotent-replayed")]).toEqual([303, "http://shop.test/orders/o-1", replayed]);
  }
  expect(runs).toBe(1);
});

test("an attempt has the same signal object at every access", async () => {
  const handler = idempotent(() => {
    const signals = [currentAttempt()?.signal, currentAttempt()?.signal];
    return Response.json({ same: signals[0] !== undefined && signals[0] === signals[1] });
  }, options());
  const response = await handler(new Request("http://shop.test/signal", { method: "POST", headers: { "idempotency-key": newKey() } }));
  expect(await response.json()).toEqual({ same: true });
});
