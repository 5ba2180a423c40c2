import "reflect-metadata";
import { randomBytes } from "node:crypto";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { Controller, Module, Post, UseInterceptors } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import compression from "compression";
import cors from "cors";
import express5, { type RequestHandler } from "express";
import session from "express-session";
import express4 from "express4";
import fastify from "fastify";
import helmet from "helmet";
import { Hono } from "hono";
import { cors as honoCors } from "hono/cors";
import { secureHeaders } from "hono/secure-headers";
import Koa from "koa";
import { open, type Store } from "onceflow";
import type { IdempotentOptions } from "onceflow/http";
import { idempotency as forExpress } from "onceflow/http/express";
import { idempotency as forFastify } from "onceflow/http/fastify";
import { idempotency as forHono } from "onceflow/http/hono";
import { idempotency as forKoa } from "onceflow/http/koa";
import { IdempotencyInterceptor } from "onceflow/http/nest";
import responseTime from "response-time";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { listening, type Server, serving } from "./servers.js";

/** Long enough to be compressed. */
const text = "once ".repeat(1000);
const kept = 8 * 1024;
let runs = 0;
let requests = 0;
let store: Store;
beforeAll(async () => {
  store = await open("memory:");
});
afterAll(() => store.close());
beforeEach(() => {
  runs = 0;
  requests = 0;
});

let made = 0;
const newKey = () => `earlier-${++made}`;
const options = () => ({ store, scope: "", responseBytesMax: kept }) satisfies IdempotentOptions<never>;

/** Earlier middleware that sets a new cookie for every request. */
const csrf: RequestHandler = (_request, response, next) => {
  response.append("set-cookie", `csrf=${++requests}`);
  next();
};
const earlier = (sessions: object) => [
  session({ secret: "s", resave: false, saveUninitialized: false, cookie: { path: "/" }, store: sessions }),
  compression({ threshold: 100 }),
  responseTime(),
  cors({ origin: "https://shop.test", credentials: true }),
  helmet(),
  csrf,
];

interface SessionRequest {
  readonly session: { views?: number };
}

function answer(request: SessionRequest, response: express5.Response): void {
  runs += 1;
  request.session.views = (request.session.views ?? 0) + 1;
  response.append("vary", "X-Plan");
  response.cookie("order", `o-${runs}`).status(201).type("text").send(`${runs} ${text}`);
}

function route(app: express5.Express, middleware: RequestHandler, sessions: object): void {
  app.use(...(earlier(sessions) as RequestHandler[]), middleware);
  app.post("/orders", (request, response) => answer(request as unknown as SessionRequest, response));
  app.post("/long", (_request, response) => {
    runs += 1;
    response.type("text");
    Readable.from(Array.from({ length: 40 }, (_, i) => String(i % 10).repeat(1000))).pipe(response);
  });
}

const expressLike: Record<string, (sessions: object) => Promise<Server>> = {
  "express 5": (sessions) => {
    const app = express5();
    route(app, forExpress(options()), sessions);
    return listening(app);
  },
  "express 4": (sessions) => {
    const app = express4();
    route(app, forExpress(options()) as RequestHandler, sessions);
    return listening(app);
  },
  nest: async (sessions) => {
    class Orders {
      orders(request: SessionRequest, response: express5.Response) {
        answer(request, response);
      }
      long(_request: SessionRequest, response: express5.Response) {
        runs += 1;
        response.status(200).type("text");
        Readable.from(Array.from({ length: 40 }, (_, i) => String(i % 10).repeat(1000))).pipe(response);
      }
    }
    const { Req, Res } = await import("@nestjs/common");
    for (const name of ["orders", "long"] as const) {
      Post(`/${name}`)(Orders.prototype, name, Object.getOwnPropertyDescriptor(Orders.prototype, name) as PropertyDescriptor);
      Req()(Orders.prototype, name, 0);
      Res()(Orders.prototype, name, 1);
    }
    UseInterceptors(new IdempotencyInterceptor(options()))(Orders);
    Controller()(Orders);
    class App {}
    Module({ controllers: [Orders] })(App);
    const app = await NestFactory.create(App, { logger: false });
    app.use(...earlier(sessions));
    await app.listen(0, "127.0.0.1");
    return { url: (await app.getUrl()).replace("[::1]", "127.0.0.1"), close: () => app.close() };
  },
};

describe.each(Object.keys(expressLike))("%s: the hooks of earlier middleware keep working", (name) => {
  let server: Server;
  let sessions: InstanceType<typeof session.MemoryStore>;
  beforeEach(async () => {
    sessions = new session.MemoryStore();
    server = await (expressLike[name] as (typeof expressLike)[string])(sessions);
  });
  afterEach(() => server.close());
  const post = (path: string, key: string, headers: Record<string, string> = {}, body = "{}") =>
    fetch(server.url + path, { method: "POST", headers: { "idempotency-key": key, "content-type": "application/json", ...headers }, body });
  const saved = () => new Promise<object[]>((resolve) => sessions.all((_: unknown, all: object) => resolve(Object.values(all))));
  const cookie = (response: Response, name: string) => response.headers.getSetCookie().filter((one) => one.startsWith(`${name}=`));

  test("express-session saves and sets its cookie, compression compresses, response-time measures", async () => {
    const key = newKey();
    const first = await post("/orders", key);
    expect([first.status, await first.text()]).toEqual([201, `1 ${text}`]);
    expect(cookie(first, "connect.sid")).toHaveLength(1);
    expect(await saved()).toEqual([expect.objectContaining({ views: 1 })]);
    expect(first.headers.get("content-encoding")).toBe("gzip");
    expect(first.headers.get("x-response-time")).toMatch(/ms$/);

    const again = await post("/orders", key);
    expect([again.status, await again.text(), again.headers.get("idempotent-replayed")]).toEqual([201, `1 ${text}`, "true"]);
    expect(again.headers.get("content-encoding")).toBe("gzip");
    expect(again.headers.get("x-response-time")).toMatch(/ms$/);
    // The session's cookie belongs to the first request, so it is not stored.
    expect(cookie(again, "connect.sid")).toEqual([]);
    const plain = await post("/orders", key, { "accept-encoding": "identity" });
    expect([plain.headers.get("content-encoding"), await plain.text()]).toEqual([null, `1 ${text}`]);
    expect(runs).toBe(1);
  });

  test("a session that the handler of a later request changes is saved", async () => {
    const first = await post("/orders", newKey());
    const sid = String(cookie(first, "connect.sid")[0]).split(";")[0] as string;
    await first.text();
    await (await post("/orders", newKey(), { cookie: sid })).text();
    expect(await saved()).toEqual([expect.objectContaining({ views: 2 })]);
  });

  test("replays and refusals have the headers that middleware set for this request, and replays those of the handler", async () => {
    const key = newKey();
    const first = await post("/orders", key);
    await first.text();
    for (const [body, status] of [
      ["{}", 201],
      ['{"another":1}', 422],
    ] as const) {
      const response = await post("/orders", key, {}, body);
      await response.text();
      expect(response.status).toBe(status);
      expect(response.headers.get("access-control-allow-origin")).toBe("https://shop.test");
      expect(response.headers.get("content-security-policy")).toBe(first.headers.get("content-security-policy"));
      expect(response.headers.get("x-frame-options")).toBe("SAMEORIGIN");
      expect(cookie(response, "csrf")).toEqual([`csrf=${requests}`]);
      expect(cookie(response, "order")).toHaveLength(status === 201 ? 1 : 0);
      const vary = String(response.headers.get("vary"));
      expect(vary).toContain("Origin");
      expect(vary.includes("X-Plan")).toBe(status === 201);
    }
    expect(runs).toBe(1);
  });

  test("a replay waits until the session is saved, and is complete", async () => {
    const key = newKey();
    const first = await post("/orders", key);
    await first.text();
    const sid = String(cookie(first, "connect.sid")[0]).split(";")[0] as string;
    // The session is touched in the store before the response ends.
    for (const [body, status] of [
      ["{}", 201],
      ['{"another":1}', 422],
    ] as const) {
      const response = await post("/orders", key, { cookie: sid }, body);
      const [type, sent] = [response.headers.get("content-type"), await response.text()];
      expect([response.status, type?.split(";")[0]]).toEqual([status, status === 201 ? "text/plain" : "application/problem+json"]);
      expect(status === 201 ? sent : JSON.parse(sent).type).toBe(status === 201 ? `1 ${text}` : "urn:onceflow:http:mismatch");
      expect(response.headers.get("x-response-time")).toMatch(/ms$/);
    }
    expect(runs).toBe(1);
  });

  test("a response that is too long to be stored is streamed through the compression", async () => {
    const response = await post("/long", newKey());
    expect((await response.text()).length).toBe(40_000);
    expect(response.headers.get("content-encoding")).toBe("gzip");
  });
});

const others: Record<string, () => Promise<Server>> = {
  hono: () => {
    const app = new Hono();
    app.use(honoCors({ origin: "https://shop.test" }), secureHeaders());
    app.use(async (c, next) => {
      c.header("set-cookie", `csrf=${++requests}`, { append: true });
      await next();
    });
    app.use(forHono(options()));
    app.post("/orders", (c) => {
      c.header("set-cookie", `order=${++runs}`, { append: true });
      return c.text("made", 201);
    });
    return serving(app.fetch);
  },
  koa: () => {
    const app = new Koa();
    app.use(async (ctx, next) => {
      ctx.set("access-control-allow-origin", "https://shop.test");
      ctx.set("x-frame-options", "SAMEORIGIN");
      ctx.append("set-cookie", `csrf=${++requests}`);
      await next();
    });
    app.use(forKoa(options()));
    app.use((ctx) => {
      ctx.append("set-cookie", `order=${++runs}`);
      ctx.status = 201;
      ctx.body = "made";
    });
    return listening(app.callback());
  },
  fastify: async () => {
    const app = fastify();
    app.addHook("onRequest", async (_request, reply) => {
      reply.raw.setHeader("x-frame-options", "SAMEORIGIN");
      reply.header("access-control-allow-origin", "https://shop.test");
      reply.header("set-cookie", `csrf=${++requests}`);
    });
    // @fastify/session does this: its cookie belongs to this request.
    app.addHook("onSend", async (_request, reply) => void reply.header("set-cookie", `sid=${requests}`));
    await app.register(forFastify, options());
    app.post("/orders", async (_request, reply) => {
      reply.header("set-cookie", `order=${++runs}`);
      return reply.code(201).type("text/plain").send("made");
    });
    await app.listen({ port: 0, host: "127.0.0.1" });
    return { url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`, close: () => app.close() };
  },
};

test.each(Object.keys(others))("%s: replays and refusals have the headers that middleware set for this request", async (name) => {
  const server = await (others[name] as () => Promise<Server>)();
  const key = newKey();
  const got: unknown[] = [];
  for (const body of ["a", "a", "b"]) {
    const response = await fetch(`${server.url}/orders`, {
      method: "POST",
      headers: { "idempotency-key": key, "content-type": "text/plain", origin: "https://shop.test" },
      body,
    });
    await response.text();
    const cookies = response.headers.getSetCookie().filter((one) => !one.startsWith("sid="));
    got.push([response.status, response.headers.get("access-control-allow-origin"), response.headers.get("x-frame-options"), cookies]);
    if (name === "fastify") expect(response.headers.getSetCookie().filter((one) => one.startsWith("sid="))).toEqual([`sid=${requests}`]);
  }
  const headers = ["https://shop.test", "SAMEORIGIN"];
  expect(got).toEqual([
    [201, ...headers, ["csrf=1", "order=1"]],
    [201, ...headers, ["csrf=2", "order=1"]],
    [422, ...headers, ["csrf=3"]],
  ]);
  await server.close();
});

test.each([
  ["express 5", express5],
  ["express 4", express4 as typeof express5],
])("%s: middleware that is mounted after ours is part of the handler", async (_name, express) => {
  const app = express();
  app.use(forExpress({ ...options(), keptHeaders: ["content-*", "x-response-time", "set-cookie"] }));
  app.use(...(earlier(new session.MemoryStore()) as RequestHandler[]));
  app.post("/orders", (request, response) => answer(request as unknown as SessionRequest, response));
  app.post("/long", (_request, response) => {
    response.type("text");
    Readable.from(Array.from({ length: 40 }, () => randomBytes(1000).toString("latin1"))).pipe(response);
  });
  const server = await listening(app);
  const key = newKey();
  const send = (path: string, key: string) => fetch(server.url + path, { method: "POST", headers: { "idempotency-key": key }, body: "{}" });
  const got = [];
  for (let i = 0; i < 2; i++) {
    const response = await send("/orders", key);
    const headers = ["content-encoding", "x-response-time", "set-cookie"].map((name) => response.headers.get(name));
    got.push([response.status, await response.text(), headers]);
  }
  expect(got[0]).toEqual([201, `1 ${text}`, ["gzip", expect.stringMatching(/ms$/), expect.stringContaining("connect.sid=")]]);
  expect(got[1]).toEqual(got[0]);
  expect(runs).toBe(1);
  expect((await (await send("/long", newKey())).text()).length).toBe(40_000);
  await server.close();
});
