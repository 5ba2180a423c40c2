import { readFileSync } from "node:fs";
import { connect, createServer as createHttp2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import express5, { type RequestHandler } from "express";
import express4 from "express4";
import fastify from "fastify";
import Koa from "koa";
import bodyParser from "koa-bodyparser";
import { key, once, open, type Store } from "onceflow";
import { currentAttempt } from "onceflow/http";
import { idempotency as forExpress } from "onceflow/http/express";
import { idempotency as forFastify } from "onceflow/http/fastify";
import { idempotency as forKoa } from "onceflow/http/koa";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { listening, type Server } from "./servers.js";

/** Requests and the records that version 0.1.0 wrote for them: the options that it passed to `once`, and the outcome. */
interface Fixture {
  readonly name: string;
  readonly request: { readonly path: string; readonly type: string; readonly body: string };
  readonly scope: string;
  readonly key: string;
  readonly fingerprint: string;
  readonly outcome: string;
}
const fixtures = JSON.parse(readFileSync(new URL("../fixtures/0.1.0/http.json", import.meta.url), "utf8")) as readonly Fixture[];

let executed: { readonly number: number; readonly effectKey: string }[] = [];
beforeEach(() => {
  executed = [];
});
const ran = () => {
  const { number = 0, effectKey = "" } = currentAttempt() ?? {};
  executed.push({ number, effectKey });
  return { made: "now" };
};
const handler: RequestHandler = (_request, response) => void response.status(201).json(ran());

function expressApp(express: typeof express5, kind: string, store: Store) {
  const [app, idempotency] = [express(), forExpress({ store, scope: "me" })];
  if (kind === "json") app.use(express.json());
  if (kind === "used" || kind === "json") return app.use(idempotency).post("/orders/:id", handler);
  if (kind === "routed") return app.post("/orders/:id", idempotency, handler);
  return app.use("/orders", express.Router().post("/:id", idempotency, handler));
}

async function start(name: string, store: Store): Promise<Server> {
  const [, version, kind] = /^express (\d) (.*)$/.exec(name) ?? [];
  if (kind !== undefined) return await listening(expressApp(version === "5" ? express5 : (express4 as typeof express5), kind, store));
  if (name === "fastify http2") {
    const app = fastify({ http2: true });
    await app.register(forFastify, { store, scope: "me" });
    app.post("/orders/:id", async (_request, reply) => reply.code(201).send(ran()));
    await app.listen({ port: 0, host: "127.0.0.1" });
    return { url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`, close: () => app.close() };
  }
  const app = new Koa();
  if (name === "koa bodyparser") app.use(bodyParser());
  app.use(forKoa({ store, scope: "me" })).use((ctx) => {
    ctx.status = 201;
    ctx.body = ran();
  });
  if (name === "koa bodyparser") return await listening(app.callback());
  const server = createHttp2Server(app.callback() as never);
  await new Promise<void>((ready) => void server.listen(0, "127.0.0.1", ready));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: async () => void server.close() };
}

interface Got {
  readonly status: number;
  readonly replayed: boolean;
  readonly text: string;
}

async function post(server: Server, { name, request, key }: Fixture): Promise<Got> {
  const headers = { "idempotency-key": key, "content-type": request.type };
  if (!name.endsWith("http2")) {
    const response = await fetch(server.url + request.path, { method: "POST", headers, body: request.body });
    const replayed = response.headers.get("idempotent-replayed") === "true";
    return { status: response.status, replayed, text: await response.text() };
  }
  return await new Promise((resolve, reject) => {
    const session = connect(server.url).on("error", reject);
    const sent = session.request({ ":method": "POST", ":path": request.path, ...headers }).on("error", reject);
    sent.on("response", (head) => {
      let text = "";
      sent.on("data", (chunk) => {
        text += String(chunk);
      });
      sent.on("end", () => {
        session.close();
        resolve({ status: Number(head[":status"]), replayed: head["idempotent-replayed"] === "true", text });
      });
    });
    sent.end(request.body);
  });
}

async function storeWith(...records: readonly Fixture[]): Promise<Store> {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  for (const { scope, key: name, fingerprint, outcome } of records)
    await once(store, { scope, key: key.of(name), fingerprint, effect: "keyed" }, async () => JSON.parse(outcome));
  return store;
}

const replayed = { status: 201, replayed: true, text: '{"made":"by 0.1.0"}' };
const titled = fixtures.map((fixture) => [`${fixture.name} ${JSON.stringify(fixture.request)}`, fixture] as const);

describe("a duplicate of a request of 0.1.0", () => {
  test.each(titled)("gets the stored response: %s", async (_title, fixture) => {
    const server = await start(fixture.name, await storeWith(fixture));
    onTestFinished(() => server.close());
    expect(await post(server, fixture)).toEqual(replayed);
    expect(await post(server, fixture)).toEqual(replayed);
    expect(executed).toEqual([]);
  });

  test.each(titled)("runs as the next attempt with the same effect key if the first attempt failed: %s", async (_title, fixture) => {
    const store = await storeWith();
    let effectKey = "";
    const { scope, key: name, fingerprint } = fixture;
    const failed = once(store, { scope, key: key.of(name), fingerprint }, async (attempt) => {
      effectKey = attempt.effectKey;
      throw new Error("failed");
    });
    await expect(failed).rejects.toThrow("failed");
    const server = await start(fixture.name, store);
    onTestFinished(() => server.close());
    expect(await post(server, fixture)).toMatchObject({ status: 201, replayed: false });
    expect(executed).toEqual([{ number: 2, effectKey }]);
    expect(await post(server, fixture)).toMatchObject({ status: 201, replayed: true, text: '{"made":"now"}' });
    expect(executed).toHaveLength(1);
  });

  test.each(["used", "routed", "mounted"])(
    "gets the stored response of its spelling if 0.1.0 executed two spellings with one key: %s",
    async (kind) => {
      const both = fixtures.filter(({ name }) => name === `express 5 ${kind}`);
      expect(both.map(({ request }) => request.path)).toEqual(["/orders/AbC", "/Orders/AbC/"]);
      const server = await start(`express 5 ${kind}`, await storeWith(...both));
      onTestFinished(() => server.close());
      for (const fixture of both) expect(await post(server, fixture)).toEqual(replayed);
      expect(executed).toEqual([]);
    },
  );
});

test.each(["used", "mounted"])("another spelling of the path of a request of 0.1.0 is refused: %s", async (kind) => {
  const [first, other] = fixtures.filter(({ name }) => name === `express 5 ${kind}`) as [Fixture, Fixture];
  const folded = { ...first, scope: "http POST /orders/abc me", request: { ...first.request, path: "/orders/abc" } };
  const server = await start(first.name, await storeWith(kind === "used" ? folded : first));
  onTestFinished(() => server.close());
  expect((await post(server, other)).status).toBe(422);
  expect(executed).toEqual([]);
});
