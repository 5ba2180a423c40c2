import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { inspect, open, operation, type Store } from "onceflow";
import { serveOperation } from "onceflow/http";
import { createInbox } from "onceflow/inbox";
import { EffectLedger } from "onceflow/testing";
import { describe, expect, inject, type TestContext, test } from "vitest";
import { letTimePass } from "../kit/real-time.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { freshDatabase } from "../servers/postgres/databases.js";

const server = inject("postgres");

interface Order {
  readonly id: string;
  readonly amount: number;
}

const places = {
  SQLite: async ({ onTestFinished }: TestContext): Promise<string> => {
    const folder = temporaryFolder(onTestFinished);
    return `sqlite:${join(folder, "ledger.db")}`;
  },
  PostgreSQL: async ({ onTestFinished, skip }: TestContext): Promise<string> => {
    if (!server.ok) return skip(server.reason);
    const database = await freshDatabase(server.url);
    onTestFinished(() => database.drop());
    return database.url;
  },
};

/** A route on a socket and a consumer, each with its own store handle, as in two processes. */
async function shop(context: TestContext, url: string) {
  const stores = await Promise.all([open(url), open(url)]);
  context.onTestFinished(async () => void (await Promise.all(stores.map((store) => store.close()))));
  const [forRoute, forInbox] = stores as [Store, Store];
  // The provider does not deduplicate keys: a second run is a second effect.
  const effects = new EffectLedger({ honoursKeys: false });
  let fails = 0;
  const charge = operation({
    name: "charge",
    key: ({ id }: Order) => id,
    run: async ({ id, amount }, { effectKey, number }) => {
      effects.call(effectKey, { attempt: number, result: undefined });
      await letTimePass(5, "the other side asks while this one runs");
      if (fails-- > 0) throw new Error("declined");
      return { charged: id, amount, attempt: number, nonce: Math.random() };
    },
  });
  const app = new Hono();
  const route = serveOperation(charge, { store: forRoute, input: async (request) => (await request.json()) as Order, onRunning: "wait" });
  app.post("/charges", (c) => route(c.req.raw));
  app.onError((error, c) => c.text(error.message, 500));
  const http = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
  context.onTestFinished(() => void http.close());
  await new Promise<void>((listening) => void http.once("listening", listening));
  const { port } = http.address() as AddressInfo;
  const inbox = createInbox(forInbox, { consumer: "billing", operation: charge, attemptsMax: 2 });
  return {
    ...{ effects, inbox, store: forInbox },
    failNext(times: number) {
      fails = times;
    },
    async post(order: Order) {
      const response = await fetch(`http://127.0.0.1:${port}/charges`, { method: "POST", body: JSON.stringify(order) });
      return { status: response.status, text: await response.text(), replayed: response.headers.get("idempotent-replayed") };
    },
    consume: (order: Order, id = `m-${order.id}`) => inbox.handle({ id, payload: order }),
  };
}

describe.each(Object.entries(places))("a route and a consumer of one operation, on %s", (_, placeOf) => {
  test("execute it once if they are called one after the other", async (context) => {
    const { effects, post, consume } = await shop(context, await placeOf(context));
    const first = await post({ id: "o-1", amount: 1 });
    const second = await consume({ id: "o-1", amount: 1 });
    expect(second).toEqual({ status: "duplicate", result: JSON.parse(first.text) });
    const third = await consume({ id: "o-2", amount: 2 });
    const fourth = await post({ id: "o-2", amount: 2 });
    expect([fourth.status, fourth.replayed]).toEqual([200, "true"]);
    expect(third).toEqual({ status: "processed", attempt: 1, result: JSON.parse(fourth.text) });
    expect(effects.keys().map((key) => effects.rawCalls(key))).toEqual([1, 1]);
  });

  test("execute it once if they are called concurrently, and all callers get the same bytes", async (context) => {
    const { effects, post, consume, inbox } = await shop(context, await placeOf(context));
    const orders = Array.from({ length: 6 }, (_, i) => ({ id: `o-${i}`, amount: i }));
    const answers = await Promise.all(
      orders.map(async (order) => {
        const asked = [post(order), consume(order, "a"), post(order), consume(order, "b"), consume(order, "c"), post(order)];
        return (await Promise.all(asked)).map((each) => {
          if (typeof each.status === "number") return each.text;
          if (each.status !== "processed" && each.status !== "duplicate") throw new Error(`unexpected status ${each.status}`);
          return JSON.stringify(each.result);
        });
      }),
    );
    for (const texts of answers) expect(new Set(texts).size).toBe(1);
    expect(effects.keys().map((key) => effects.rawCalls(key))).toEqual(Array(6).fill(1));
    expect(inbox.metrics.processed + inbox.metrics.duplicates).toBe(18);
  });

  test("count attempts together, and refuse another order with the same id", async (context) => {
    const { effects, post, consume, inbox, store, failNext } = await shop(context, await placeOf(context));
    failNext(2);
    expect(await post({ id: "o-1", amount: 1 })).toMatchObject({ status: 500, text: "declined" });
    expect(await consume({ id: "o-1", amount: 1 })).toMatchObject({ status: "dead", attempt: 2, error: { message: "declined" } });
    // The route answers with the error of the dead letter until it is retried.
    expect(await post({ id: "o-1", amount: 1 })).toMatchObject({ status: 500, text: "declined" });
    const retried = await inbox.retry("o-1");
    expect(retried).toMatchObject({ status: "processed", attempt: 3 });
    const after = await post({ id: "o-1", amount: 1 });
    expect({ status: "processed", attempt: 3, result: JSON.parse(after.text) }).toEqual(retried);
    expect(effects.keys().map((key) => effects.rawCalls(key))).toEqual([3]);
    expect((await post({ id: "o-1", amount: 2 })).status).toBe(422);
    expect(await consume({ id: "o-1", amount: 2 })).toMatchObject({ status: "dead", error: { code: "MISMATCH" } });
    expect((await inspect(store, { scope: "operation charge ", key: "o-1" }))?.state).toBe("completed");
  });
});
