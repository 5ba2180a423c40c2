import "reflect-metadata";
import type { AddressInfo } from "node:net";
import { Controller, Module, Post, UseInterceptors } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import express5, { type RequestHandler } from "express";
import express4 from "express4";
import fastify from "fastify";
import { Hono } from "hono";
import Koa from "koa";
import { open, type Store } from "onceflow";
import { idempotent } from "onceflow/http";
import { idempotency as forExpress } from "onceflow/http/express";
import { idempotency as forFastify } from "onceflow/http/fastify";
import { idempotency as forHono } from "onceflow/http/hono";
import { idempotency as forKoa } from "onceflow/http/koa";
import { IdempotencyInterceptor } from "onceflow/http/nest";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { listening, type Server, serving } from "./servers.js";

let store: Store;
/** The paths of the handlers' executions. */
let executed: string[] = [];
beforeAll(async () => {
  store = await open("memory:");
});
afterAll(() => store.close());
beforeEach(() => {
  executed = [];
});
let made = 0;
const newKey = () => `path-${++made}`;
const options = () => ({ store, scope: "me" });

const handler: RequestHandler = (request, response) => {
  executed.push(request.originalUrl);
  response.status(201).json({ made: request.originalUrl });
};

async function start(app: Parameters<typeof listening>[0]): Promise<(path: string, key: string) => Promise<string>> {
  const server = await listening(app);
  onTestFinished(() => server.close());
  return sender(server);
}

/** Sends a POST and returns a short form of the response. */
const sender = (server: Server) => async (path: string, key: string) => {
  const response = await fetch(server.url + path, { method: "POST", headers: { "idempotency-key": key }, body: "{}" });
  const text = await response.text();
  if (response.status === 201)
    return `${response.headers.get("idempotent-replayed") === "true" ? "replayed" : "executed"} ${JSON.parse(text).made}`;
  return `${response.status} ${String(JSON.parse(text).type ?? text)
    .split(":")
    .at(-1)}`;
};

describe.each([
  ["express 5", express5],
  ["express 4", express4 as typeof express5],
])("%s", (_name, express) => {
  test("all spellings of a matched route are one operation, and parameters are case-sensitive", async () => {
    const app = express();
    app.post("/orders", forExpress(options()), handler);
    app.post("/Users/:id/pay", forExpress(options()), handler);
    const send = await start(app);
    const key = newKey();
    expect(await send("/orders", key)).toBe("executed /orders");
    expect(await send("/orders/", key)).toBe("replayed /orders");
    expect(await send("/Orders", key)).toBe("replayed /orders");
    const other = newKey();
    expect(await send("/users/AbC/PAY/", other)).toBe("executed /users/AbC/PAY/");
    expect(await send("/Users/AbC/pay", other)).toBe("replayed /users/AbC/PAY/");
    expect(await send("/users/abc/pay", other)).toBe("executed /users/abc/pay");
    expect(executed).toHaveLength(3);
  });

  test("all spellings of a mounted router's route are one operation, and another spelling of the mount path is refused", async () => {
    const app = express();
    const router = express.Router();
    router.post("/", forExpress(options()), handler);
    router.post("/:id/pay", forExpress(options()), handler);
    app.use("/orders", router);
    const send = await start(app);
    const [key, paid] = [newKey(), newKey()];
    expect(await send("/orders", key)).toBe("executed /orders");
    expect(await send("/orders/", key)).toBe("replayed /orders");
    expect(await send("/Orders", key)).toBe("422 mismatch");
    expect(await send("/orders/A/PAY", paid)).toBe("executed /orders/A/PAY");
    expect(await send("/orders/A/pay", paid)).toBe("replayed /orders/A/PAY");
    expect(await send("/ORDERS/A/pay", paid)).toBe("422 mismatch");
    expect(await send("/orders/a/pay", paid)).toBe("executed /orders/a/pay");
    expect(executed).toHaveLength(3);
  });

  test.each(["/orders/AbC", "/orders/abc", "/Orders/AbC/"])(
    "before a route is matched, the key belongs to the first spelling: %s",
    async (first) => {
      const app = express();
      app.use(forExpress(options()));
      app.post("/orders/:id", handler);
      const send = await start(app);
      const key = newKey();
      expect(await send(first, key)).toBe(`executed ${first}`);
      for (const path of ["/orders/AbC", "/orders/abc", "/Orders/AbC/", "/ORDERS/abc/"])
        expect(await send(path, key)).toBe(path === first ? `replayed ${first}` : "422 mismatch");
      expect(executed).toEqual([first]);
      // Another resource has its own key. Of all spellings that arrive concurrently with one key, one executes.
      const race = newKey();
      const answers = await Promise.all(
        ["/orders/x", "/orders/X", "/Orders/x", "/orders/x/", "/ORDERS/X/"].map((path) => send(path, race)),
      );
      expect(answers.filter((one) => one.startsWith("executed"))).toHaveLength(1);
      expect(answers.filter((one) => one === "422 mismatch")).toHaveLength(4);
      expect(executed).toHaveLength(2);
    },
  );

  test("paths that the app's settings distinguish have separate keys", async () => {
    const app = express();
    app.enable("case sensitive routing").enable("strict routing");
    app.use(forExpress(options()));
    app.post(["/orders", "/Orders", "/orders/"], handler);
    const send = await start(app);
    const key = newKey();
    for (const path of ["/orders", "/Orders", "/orders/"]) expect(await send(path, key)).toBe(`executed ${path}`);
    for (const path of ["/orders", "/Orders", "/orders/"]) expect(await send(path, key)).toBe(`replayed ${path}`);
  });

  test("a route that called next() does not name the operation", async () => {
    const app = express();
    app.all("/:section", (_request, _response, next) => next());
    app.use(forExpress(options()));
    app.post("/orders", handler);
    const send = await start(app);
    const key = newKey();
    expect(await send("/orders", key)).toBe("executed /orders");
    expect(await send("/Orders", key)).toBe("422 mismatch");
  });

  test("if the middleware is mounted twice, the inner one passes the request on", async () => {
    const app = express();
    app.use(forExpress(options()), forExpress(options()));
    app.post("/orders", forExpress(options()), handler);
    const send = await start(app);
    for (const path of ["/orders", "/Orders/"]) {
      const key = newKey();
      expect(await send(path, key)).toBe(`executed ${path}`);
      expect(await send(path, key)).toBe(`replayed ${path}`);
    }
    expect(executed).toHaveLength(2);
  });
});

test("if a process dies between the claim and the record, the same spelling continues and another one is refused", async () => {
  // The process dies after it has claimed the key and before it begins the record of the request.
  const dying = Object.create(store, {
    commit: {
      value: (...rest: Parameters<Store["commit"]>) => {
        if (JSON.stringify(rest).includes("http POST /Orders ")) throw new Error("died");
        return store.commit(...rest);
      },
    },
  }) as Store;
  const appOf = (store: Store) => {
    const app = express5();
    app.use(forExpress({ store, scope: "me" }));
    app.post("/orders", handler);
    app.use(
      (_error: Error, _request: unknown, response: express5.Response, _next: unknown) => void response.status(500).json({ type: "died" }),
    );
    return start(app);
  };
  const key = newKey();
  expect(await (await appOf(dying))("/Orders", key)).toBe("500 died");
  const send = await appOf(store);
  expect(await send("/orders", key)).toBe("422 mismatch");
  expect(await send("/Orders", key)).toBe("executed /Orders");
  expect(await send("/Orders", key)).toBe("replayed /Orders");
});

test("nest: all spellings of a route are one operation", async () => {
  class Orders {
    pay(request: express5.Request) {
      executed.push(request.originalUrl);
      return { made: request.originalUrl };
    }
  }
  const { Req } = await import("@nestjs/common");
  Post("/orders/:id")(Orders.prototype, "pay", Object.getOwnPropertyDescriptor(Orders.prototype, "pay") as PropertyDescriptor);
  Req()(Orders.prototype, "pay", 0);
  UseInterceptors(new IdempotencyInterceptor(options()), new IdempotencyInterceptor(options()))(Orders);
  Controller()(Orders);
  class App {}
  Module({ controllers: [Orders] })(App);
  const app = await NestFactory.create(App, { logger: false });
  await app.listen(0, "127.0.0.1");
  onTestFinished(() => app.close());
  const send = sender({ url: (await app.getUrl()).replace("[::1]", "127.0.0.1"), close: () => app.close() });
  const key = newKey();
  expect(await send("/orders/A", key)).toBe("executed /orders/A");
  expect(await send("/Orders/A/", key)).toBe("replayed /orders/A");
  expect(await send("/orders/a", key)).toBe("executed /orders/a");
});

test("fastify with lenient routing: all spellings of a route are one operation, and registering the plugin twice works", async () => {
  const app = fastify({ routerOptions: { caseSensitive: false, ignoreTrailingSlash: true, ignoreDuplicateSlashes: true } });
  await app.register(forFastify, options());
  await app.register(forFastify, options());
  for (const url of ["/orders/:id", "/files/*"])
    app.post(url, async (request, reply) => {
      executed.push(request.originalUrl);
      return reply.code(201).send({ made: request.originalUrl });
    });
  await app.listen({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => app.close());
  const send = sender({ url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`, close: () => app.close() });
  const key = newKey();
  expect(await send("/orders/A", key)).toBe("executed /orders/A");
  expect(await send("/Orders/A/", key)).toBe("replayed /orders/A");
  expect(await send("/orders/a", key)).toBe("executed /orders/a");
  expect(await send("/files/A", key)).toBe("executed /files/A");
  expect(await send("/FILES//A", key)).toBe("422 mismatch");
});

test("hono without strict: a trailing slash is the same operation, and mounting the middleware twice works", async () => {
  const app = new Hono({ strict: false });
  app.use(forHono(options()), forHono(options()));
  app.post("/orders", (c) => {
    executed.push(c.req.url);
    return c.json({ made: new URL(c.req.url).pathname }, 201);
  });
  const server = await serving(app.fetch);
  onTestFinished(() => server.close());
  const send = sender(server);
  const key = newKey();
  expect(await send("/orders/", key)).toBe("executed /orders/");
  expect(await send("/orders", key)).toBe("replayed /orders/");
});

test("koa and fetch: mounting the middleware twice works", async () => {
  const app = new Koa();
  app.use(forKoa(options())).use(forKoa(options()));
  app.use((ctx) => {
    ctx.status = 201;
    ctx.body = { made: ctx.path };
  });
  const koa = await start(app.callback());
  const twice = idempotent(
    idempotent(async (request) => Response.json({ made: new URL(request.url).pathname }, { status: 201 }), options()),
    options(),
  );
  const server = await serving(twice);
  onTestFinished(() => server.close());
  for (const send of [koa, sender(server)]) {
    const key = newKey();
    expect(await send(`/${key}`, key)).toBe(`executed /${key}`);
    expect(await send(`/${key}`, key)).toBe(`replayed /${key}`);
  }
  // One Request object that is passed in twice counts as two requests.
  let runs = 0;
  const once = idempotent(async () => Response.json({ runs: ++runs }), { ...options(), onRunning: "wait" });
  const request = new Request("http://shop.test/once", { method: "POST", headers: { "idempotency-key": newKey() } });
  expect(await Promise.all([once(request), once(request)].map(async (answer) => (await answer).text()))).toEqual([
    '{"runs":1}',
    '{"runs":1}',
  ]);
});
