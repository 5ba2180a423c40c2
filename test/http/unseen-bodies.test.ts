import { connect, createServer as createHttp2Server, type Http2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import express5 from "express";
import express4 from "express4";
import fastify from "fastify";
import Koa from "koa";
import bodyParser from "koa-bodyparser";
import { open, type Store } from "onceflow";
import { idempotency as forExpress } from "onceflow/http/express";
import { idempotency as forFastify } from "onceflow/http/fastify";
import { idempotency as forKoa } from "onceflow/http/koa";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { listening } from "./servers.js";

/** Bodies that version 0.1.0 did not see: another body with the same key got the first response. */
let store: Store;
let runs = 0;
const bodies: string[] = [];
beforeAll(async () => {
  store = await open("memory:");
});
afterAll(() => store.close());
beforeEach(() => {
  runs = 0;
  bodies.length = 0;
});
let made = 0;
const newKey = () => `unseen-${++made}`;

interface Got {
  readonly status: number;
  readonly replayed: boolean;
}

/** Sends a POST over HTTP/2, with a content-length if `length`. */
function postHttp2(url: string, key: string, body: string, length: boolean): Promise<Got> {
  return new Promise((resolve, reject) => {
    const session = connect(url);
    const sent = session.request({
      ":method": "POST",
      ":path": "/orders",
      "content-type": "application/octet-stream",
      "idempotency-key": key,
      ...(length ? { "content-length": Buffer.byteLength(body) } : {}),
    });
    session.on("error", reject);
    sent.on("error", reject);
    sent.on("response", (headers) => {
      sent.resume();
      sent.on("end", () => {
        session.close();
        resolve({ status: Number(headers[":status"]), replayed: headers["idempotent-replayed"] === "true" });
      });
    });
    // Two frames: the second arrives after the head of the request.
    const half = Math.floor(body.length / 2);
    if (half > 0) sent.write(body.slice(0, half));
    setImmediate(() => sent.end(body.slice(half)));
  });
}

const http2Servers: Record<string, () => Promise<{ readonly url: string; close(): unknown }>> = {
  fastify: async () => {
    const app = fastify({ http2: true });
    app.addContentTypeParser("*", { parseAs: "string" }, (_request, body, done) => done(null, body));
    await app.register(forFastify, { store, scope: "" });
    app.post("/orders", async (request, reply) => {
      bodies.push(String(request.body ?? ""));
      return reply.code(201).send({ runs: ++runs });
    });
    await app.listen({ port: 0, host: "127.0.0.1" });
    return { url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`, close: () => app.close() };
  },
  koa: async () => {
    const app = new Koa();
    app.use(forKoa({ store, scope: "" }));
    app.use(async (ctx) => {
      let body = "";
      for await (const chunk of ctx.req) body += String(chunk);
      bodies.push(body);
      ctx.status = 201;
      ctx.body = { runs: ++runs };
    });
    const server: Http2Server = createHttp2Server(app.callback() as never);
    await new Promise<void>((ready) => void server.listen(0, "127.0.0.1", ready));
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
  },
};

describe.each(Object.keys(http2Servers))("HTTP/2 on %s", (name) => {
  test.each([false, true])("another body is refused, and the handler gets the whole body (content-length: %s)", async (length) => {
    const server = await (http2Servers[name] as (typeof http2Servers)[string])();
    onTestFinished(() => void server.close());
    const key = newKey();
    const got = [];
    for (const body of ["first order", "first order", "another order", ""]) got.push(await postHttp2(server.url, key, body, length));
    expect(got).toEqual([
      { status: 201, replayed: false },
      { status: 201, replayed: true },
      { status: 422, replayed: false },
      { status: 422, replayed: false },
    ]);
    const empty = newKey();
    expect(await postHttp2(server.url, empty, "", length)).toEqual({ status: 201, replayed: false });
    expect(await postHttp2(server.url, empty, "", length)).toEqual({ status: 201, replayed: true });
    expect((await postHttp2(server.url, empty, "something", length)).status).toBe(422);
    expect([runs, bodies]).toEqual([2, ["first order", ""]]);
    const large = "x".repeat(300_000);
    expect((await postHttp2(server.url, newKey(), large, length)).status).toBe(201);
    expect(bodies[2]?.length).toBe(large.length);
  });
});

const skippingParsers: Record<string, () => Parameters<typeof listening>[0]> = {
  "express 4 and json()": () => {
    const app = express4();
    app.use(express4.json(), forExpress({ store, scope: "" }));
    app.use(express4.text());
    app.post("/orders", (request: { body: unknown }, response: express5.Response) => {
      bodies.push(JSON.stringify(request.body));
      response.status(201).json({ runs: ++runs });
    });
    return app;
  },
  "express 5 and json()": () => {
    const app = express5();
    app.use(express5.json(), forExpress({ store, scope: "" }));
    app.use(express5.text());
    app.post("/orders", (request, response) => {
      bodies.push(JSON.stringify(request.body));
      response.status(201).json({ runs: ++runs });
    });
    return app;
  },
  "koa and koa-bodyparser": () => {
    const app = new Koa();
    app.use(bodyParser());
    app.use(forKoa({ store, scope: "" }));
    app.use(bodyParser({ enableTypes: ["text"] }));
    app.use((ctx) => {
      bodies.push(JSON.stringify((ctx.request as { body?: unknown }).body));
      ctx.status = 201;
      ctx.body = { runs: ++runs };
    });
    return app.callback();
  },
};

test.each(Object.keys(skippingParsers))("%s: a body that the parser skipped is compared by its bytes", async (name) => {
  const server = await listening((skippingParsers[name] as (typeof skippingParsers)[string])());
  onTestFinished(() => server.close());
  const send = async (key: string, type: string, body: string) => {
    const headers = { "idempotency-key": key, "content-type": type };
    const response = await fetch(`${server.url}/orders`, { method: "POST", headers, body });
    return [response.status, response.headers.get("idempotent-replayed") === "true"];
  };
  const key = newKey();
  expect(await send(key, "text/plain", "first")).toEqual([201, false]);
  expect(await send(key, "text/plain", "first")).toEqual([201, true]);
  expect(await send(key, "text/plain", "another")).toEqual([422, false]);
  // A parsed empty object is a body that the middleware has seen.
  const empty = newKey();
  expect(await send(empty, "application/json", "{}")).toEqual([201, false]);
  expect(await send(empty, "application/json", "{ }")).toEqual(name.startsWith("express") ? [201, true] : [422, false]);
  expect(await send(empty, "text/plain", "another")).toEqual([422, false]);
  expect(runs).toBe(2);
});

test("a body that was consumed and replaced by an empty object is an error", async () => {
  const app = express5();
  app.use(async (request, _response, next) => {
    for await (const _chunk of request);
    request.body = {};
    next();
  });
  app.use(forExpress({ store, scope: "" }));
  app.post("/orders", (_request, response) => void response.json({ runs: ++runs }));
  app.use((error: Error, _request: unknown, response: express5.Response, _next: unknown) => void response.status(500).send(error.message));
  const server = await listening(app);
  onTestFinished(() => server.close());
  const send = (body: string) => fetch(`${server.url}/orders`, { method: "POST", headers: { "idempotency-key": newKey() }, body });
  const refused = await send("text");
  expect([refused.status, await refused.text()]).toEqual([500, expect.stringContaining("was read before")]);
  // A request without a body is accepted.
  expect((await send("")).status).toBe(200);
  expect(runs).toBe(1);
});
