import "reflect-metadata";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { serve } from "@hono/node-server";
import { Controller, Module, Post, Req, Res, UseInterceptors } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import express, { type Request as ExpressRequest, type Response as ExpressResponse } from "express";
import fastify from "fastify";
import { Hono } from "hono";
import Koa from "koa";
import { type IdempotentOptions, idempotent } from "onceflow/http";
import { idempotency as forExpress } from "onceflow/http/express";
import { idempotency as forFastify } from "onceflow/http/fastify";
import { idempotency as forHono } from "onceflow/http/hono";
import { idempotency as forKoa } from "onceflow/http/koa";
import { IdempotencyInterceptor } from "onceflow/http/nest";

/** A response, independent of the framework. Chunks are streamed. */
export interface Exchange {
  readonly status: number;
  readonly headers?: readonly (readonly [string, string])[];
  readonly body?: string | Buffer | AsyncIterable<Buffer>;
}

/** Handlers by path: `/orders` is the route "orders". */
export type Routes = Readonly<Record<string, (body: Buffer) => Promise<Exchange>>>;

export interface Server {
  readonly url: string;
  close(): Promise<void>;
}

/** A header names the caller; an app would take the caller from a session. */
type Options = Omit<IdempotentOptions<unknown>, "scope">;
const callerOf = (header: string | null | undefined) => header ?? "anonymous";

/** The same routes in every framework, each in that framework's own way, over a real socket. */
export const frameworks: Readonly<Record<string, (routes: Routes, options: Options) => Promise<Server>>> = {
  async fetch(routes, options) {
    const handler = idempotent(
      async (request: Request) => {
        const route = routes[new URL(request.url).pathname.slice(1)];
        if (route === undefined) return new Response(null, { status: 404 });
        return webResponse(await route(Buffer.from(await request.arrayBuffer())));
      },
      { ...options, scope: (request: Request) => callerOf(request.headers.get("x-caller")) },
    );
    return await serving(handler);
  },

  async hono(routes, options) {
    const app = new Hono();
    app.use(forHono({ ...options, scope: (c) => callerOf(c.req.header("x-caller")) }));
    app.onError((error, c) => c.text(error.message, 500));
    for (const [name, route] of Object.entries(routes))
      app.on(["POST", "PUT", "HEAD"], `/${name}`, async (c) => webResponse(await route(Buffer.from(await c.req.arrayBuffer()))));
    return await serving(app.fetch);
  },

  async express(routes, options) {
    const app = express();
    app.use(forExpress({ ...options, scope: (request) => callerOf(request.get("x-caller")) }));
    // The parser runs after our middleware and finds the body unread.
    app.use(express.raw({ type: () => true, limit: "50mb" }));
    for (const [name, route] of Object.entries(routes)) app.all(`/${name}`, (request, response) => onExpress(request, response, route));
    app.use(
      (error: Error, _request: ExpressRequest, response: ExpressResponse, _next: unknown) => void response.status(500).send(error.message),
    );
    return await listening(app);
  },

  async koa(routes, options) {
    const app = new Koa();
    app.silent = true;
    app.use(forKoa({ ...options, scope: (ctx) => callerOf(ctx.get("x-caller")) }));
    app.use(async (ctx) => {
      const route = routes[ctx.path.slice(1)];
      if (route === undefined) return ctx.throw(404);
      const chunks: Buffer[] = [];
      for await (const chunk of ctx.req) chunks.push(chunk as Buffer);
      const { status, headers = [], body } = await route(Buffer.concat(chunks));
      ctx.body = body === undefined ? null : typeof body === "string" || Buffer.isBuffer(body) ? body : Readable.from(body);
      ctx.status = status;
      for (const [name, value] of headers) ctx.append(name, value);
    });
    return await listening(app.callback());
  },

  async fastify(routes, options) {
    const app = fastify({ bodyLimit: 50 * 1024 * 1024 });
    await app.register(forFastify, { ...options, scope: (request) => callerOf(request.headers["x-caller"] as string | undefined) });
    app.removeAllContentTypeParsers();
    app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
    for (const [name, route] of Object.entries(routes))
      app.route({
        method: ["POST", "PUT"],
        url: `/${name}`,
        handler: async (request, reply) => {
          const { status, headers = [], body } = await route((request.body as Buffer | undefined) ?? Buffer.alloc(0));
          reply.code(status);
          for (const [header, value] of headers) reply.header(header, header === "set-cookie" ? [value] : value);
          return reply.send(
            body === undefined ? undefined : typeof body === "string" || Buffer.isBuffer(body) ? body : Readable.from(body),
          );
        },
      });
    await app.listen({ port: 0, host: "127.0.0.1" });
    return { url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`, close: () => app.close() };
  },

  async nest(routes, options) {
    const interceptor = new IdempotencyInterceptor({ ...options, scope: (request) => callerOf(request.get("x-caller")) });
    class Routed {
      async handle(request: ExpressRequest, response: ExpressResponse) {
        const route = routes[request.path.slice(1)];
        if (route === undefined) return void response.status(404).end();
        await onExpress(request, response, route);
      }
    }
    // Decorators are applied by hand: the tests are compiled without decorators.
    const handle = Object.getOwnPropertyDescriptor(Routed.prototype, "handle") as PropertyDescriptor;
    Post("*path")(Routed.prototype, "handle", handle);
    Req()(Routed.prototype, "handle", 0);
    Res()(Routed.prototype, "handle", 1);
    UseInterceptors(interceptor)(Routed);
    Controller()(Routed);
    class App {}
    Module({ controllers: [Routed] })(App);
    const app = await NestFactory.create(App, { logger: false, bodyParser: false });
    app.use(express.raw({ type: () => true, limit: "50mb" }));
    await app.listen(0, "127.0.0.1");
    return { url: (await app.getUrl()).replace("[::1]", "127.0.0.1"), close: () => app.close() };
  },
};

async function onExpress(request: ExpressRequest, response: ExpressResponse, route: (body: Buffer) => Promise<Exchange>): Promise<void> {
  const { status, headers = [], body } = await route(Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0));
  response.status(status);
  for (const [name, value] of headers) response.append(name, value);
  if (body === undefined) response.end();
  else if (typeof body === "string" || Buffer.isBuffer(body)) response.send(body);
  else await pipeline(Readable.from(body), response);
}

function webResponse({ status, headers = [], body }: Exchange): Response {
  const content = body === undefined || typeof body === "string" || Buffer.isBuffer(body) ? (body ?? null) : ReadableStream.from(body);
  return new Response(content as string | null, { status, headers: headers.map(([name, value]): [string, string] => [name, value]) });
}

export function serving(handler: (request: Request) => Response | Promise<Response>): Promise<Server> {
  return new Promise((resolve) => {
    const server = serve({ fetch: handler, port: 0, hostname: "127.0.0.1" }, ({ port }) =>
      resolve({ url: `http://127.0.0.1:${port}`, close: () => closed(server) }),
    );
  });
}

export async function listening(handler: Parameters<typeof import("node:http").createServer>[1]): Promise<Server> {
  const { createServer } = await import("node:http");
  const server = createServer(handler as never);
  await new Promise<void>((ready) => void server.listen(0, "127.0.0.1", ready));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => closed(server) };
}

function closed(server: { close(done: () => void): unknown; closeAllConnections?: () => void }): Promise<void> {
  return new Promise((done) => {
    server.close(() => done());
    server.closeAllConnections?.();
  });
}
