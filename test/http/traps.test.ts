import express from "express";
import { inspect, open, type Store } from "onceflow";
import { currentAttempt, idempotent } from "onceflow/http";
import { idempotency } from "onceflow/http/express";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { gate } from "../kit/gate.js";
import { settled, until } from "../kit/until.js";
import { listening } from "./servers.js";

/** Mistakes that other libraries make, one test each. */
let store: Store;
beforeEach(async () => {
  store = await open("memory:");
});
afterEach(() => store.close());

const url = "http://shop.test/orders";
const post = (key: string, body: string | Uint8Array<ArrayBuffer> = "{}", at = url) =>
  new Request(at, { method: "POST", headers: { "idempotency-key": key }, body });

async function expressApp(
  build: (app: express.Express) => void,
): Promise<(path: string, key: string, body?: unknown) => Promise<Response>> {
  const app = express();
  app.use(express.json());
  build(app);
  const server = await listening(app);
  onTestFinished(() => server.close());
  return (path, key, body = { amount: 1 }) =>
    fetch(server.url + path, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": key },
      body: JSON.stringify(body),
    });
}

describe("traps", () => {
  test("if the handler changes the body, the outcome is stored with the key and fingerprint of the request", async () => {
    let runs = 0;
    const send = await expressApp((app) => {
      app.post("/orders", idempotency({ store, scope: "" }), (request, response) => {
        runs += 1;
        request.body.amount = 999;
        request.body.added = true;
        response.json({ runs });
      });
    });
    expect(await (await send("/orders", "k")).json()).toEqual({ runs: 1 });
    const again = await send("/orders", "k");
    expect([again.headers.get("idempotent-replayed"), await again.json()]).toEqual(["true", { runs: 1 }]);
    expect((await send("/orders", "k", { amount: 999, added: true })).status).toBe(422);
  });

  test("a body that the framework has parsed is compared by its value", async () => {
    const send = await expressApp((app) => {
      app.post("/orders", idempotency({ store, scope: "" }), (_request, response) => void response.json({}));
    });
    expect((await send("/orders", "k", { a: 1, b: 2 })).status).toBe(200);
    expect((await send("/orders", "k", { b: 2, a: 1 })).headers.get("idempotent-replayed")).toBe("true");
    expect((await send("/orders", "k", { a: 1, b: 3 })).status).toBe(422);
  });

  test("a body that other middleware has consumed is an error, not an empty body", async () => {
    const send = await expressApp((app) => {
      app.post("/orders", idempotency({ store, scope: "" }), (_request, response) => void response.json({}));
      app.use(
        (error: Error, _request: unknown, response: express.Response, _next: unknown) => void response.status(500).send(error.message),
      );
    });
    const swallowing = await expressApp((app) => {
      app.use((request, _response, next) => {
        delete (request as { body?: unknown }).body;
        next();
      });
      app.post("/orders", idempotency({ store, scope: "" }), (_request, response) => void response.json({}));
      app.use(
        (error: Error, _request: unknown, response: express.Response, _next: unknown) => void response.status(500).send(error.message),
      );
    });
    expect((await send("/orders", "k")).status).toBe(200);
    const refused = await swallowing("/orders", "k2");
    expect([refused.status, await refused.text()]).toEqual([500, expect.stringContaining("was read before")]);
  });

  test("an attempt that returns late does not overwrite the newer result", async () => {
    let letGo = () => {};
    const stuck = new Promise<void>((go) => {
      letGo = go;
    });
    const handler = idempotent(
      async () => {
        const { number = 0 } = currentAttempt() ?? {};
        if (number === 1) await stuck;
        return Response.json({ attempt: number });
      },
      { store, scope: "", timeoutMs: 400, graceMs: 1 },
    );
    // The first attempt hangs and is given up. It returns long after the second attempt has responded.
    expect((await handler(post("k"))).status).toBe(504);
    expect(await (await handler(post("k"))).json()).toEqual({ attempt: 2 });
    letGo();
    await settled();
    expect(await (await handler(post("k"))).json()).toEqual({ attempt: 2 });
  });

  test("after a crash a key answers 409 only until the lease expires, then the next request runs", async () => {
    const crashed = { store, scope: "", leaseMs: 50 };
    // A process that died in its handler leaves a begin whose lease is not renewed.
    const dead = Object.create(store, { onLost: { value: () => () => {} } }) as Store;
    const released = gate();
    let release = () => {};
    const never = new Promise<Response>((go) => {
      release = () => go(new Response());
    });
    void idempotent(
      () => {
        const { scope, key } = currentAttempt() as { readonly scope: string; readonly key: string };
        void inspect(store, { scope, key })
          .then((record) => store.release(record?.owner ?? "", { scope, key }))
          .then(() => released.open());
        return never;
      },
      { ...crashed, store: dead },
    )(post("k"));
    await released.opened;
    const handler = idempotent(() => Response.json({ attempt: currentAttempt()?.number }), crashed);
    const statuses = new Set<number>();
    let response = await handler(post("k"));
    await until("the lease has expired", async () => {
      if (response.status !== 409) return true;
      statuses.add(response.status);
      response = await handler(post("k"));
      return false;
    });
    expect(await response.json()).toEqual({ attempt: 2 });
    expect(statuses).toEqual(new Set([409]));
    release();
  });

  test("bodies are never decoded as text", async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
    const handler = idempotent(async (request) => new Response(await request.arrayBuffer()), { store, scope: "" });
    for (let i = 0; i < 2; i++) expect(new Uint8Array(await (await handler(post("k", bytes))).arrayBuffer())).toEqual(bytes);
    const similar = bytes.slice();
    // Decoded as text, both would be the same replacement character.
    similar[200] = 201;
    expect((await handler(post("k", similar))).status).toBe(422);
  });

  test("the query is part of the fingerprint", async () => {
    const handler = idempotent(() => new Response("ok"), { store, scope: "" });
    expect((await handler(post("k", "{}", `${url}?a=1`))).status).toBe(200);
    expect((await handler(post("k", "{}", `${url}?a=2`))).status).toBe(422);
  });

  test("two mounts of one router do not share keys", async () => {
    let runs = 0;
    const send = await expressApp((app) => {
      const router = express.Router();
      router.post("/orders", idempotency({ store, scope: "" }), (_request, response) => {
        runs += 1;
        response.json({ runs });
      });
      app.use("/a", router);
      app.use("/b", router);
    });
    expect(await (await send("/a/orders", "k")).json()).toEqual({ runs: 1 });
    expect(await (await send("/b/orders", "k")).json()).toEqual({ runs: 2 });
  });

  test("a second request that fails does not free the key of the first", async () => {
    let letGo = () => {};
    const held = new Promise<void>((go) => {
      letGo = go;
    });
    let runs = 0;
    const handler = idempotent(
      async () => {
        runs += 1;
        await held;
        return Response.json({ runs });
      },
      { store, scope: "" },
    );
    const first = handler(post("k"));
    await until("the handler runs", () => runs > 0);
    const others = [await handler(post("k")), await handler(post("k", "other")), await handler(post("k", "x".repeat(2_000_000)))];
    expect(others.map(({ status }) => status)).toEqual([409, 422, 413]);
    expect((await handler(post("k"))).status).toBe(409);
    letGo();
    expect(await (await first).json()).toEqual({ runs: 1 });
    expect(runs).toBe(1);
  });

  test("the body is not part of the key: the same key with another body does not execute", async () => {
    let runs = 0;
    const handler = idempotent(() => Response.json({ runs: ++runs }), { store, scope: "" });
    await handler(post("k", "a"));
    expect((await handler(post("k", "b"))).status).toBe(422);
    expect(runs).toBe(1);
  });

  test("an error after part of the response was written gets the error response, without that part", async () => {
    const send = await expressApp((app) => {
      app.post("/orders", idempotency({ store, scope: "" }), (_request, response, next) => {
        response.status(200).write("half of it");
        next(new Error("broken"));
      });
      app.use(
        (error: Error, _request: unknown, response: express.Response, _next: unknown) => void response.status(500).send(error.message),
      );
    });
    const response = await send("/orders", "k");
    expect([response.status, await response.text()]).toEqual([500, "broken"]);
  });

  test("HEAD has the content-length of the body that it omits, also when it is replayed", async () => {
    const server = express().use(idempotency({ store, scope: "", methods: ["HEAD"] }), (_request, response) => {
      response.setHeader("content-length", 50_000_000);
      response.end();
    });
    const { url: at, close } = await listening(server);
    onTestFinished(close);
    for (const replayed of [null, "true"]) {
      const { status, headers } = await fetch(at, { method: "HEAD", headers: { "idempotency-key": "k" } });
      expect([status, headers.get("content-length"), headers.get("idempotent-replayed")]).toEqual([200, "50000000", replayed]);
    }
  });

  test("of a handler that responds twice only the first response is sent", async () => {
    const send = await expressApp((app) => {
      app.post("/orders", idempotency({ store, scope: "" }), (_request, response) => {
        response.writeHead(201, "Made", ["x-a", "1", "set-cookie", "a=1", "set-cookie", "b=2"]);
        response.end("first");
        if (!response.headersSent) response.end("second");
        response.end("third");
      });
    });
    for (const replayed of [null, "true"]) {
      const response = await send("/orders", "k");
      expect([response.status, response.headers.get("idempotent-replayed"), await response.text()]).toEqual([201, replayed, "first"]);
      expect(response.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
    }
  });
});

test("10,000 concurrent duplicates of one key cause one execution and few round trips, and all get the same response", async () => {
  let runs = 0;
  const all = gate();
  const handler = idempotent(
    async () => {
      runs += 1;
      await all.opened;
      return Response.json({ runs });
    },
    { store, scope: "", onRunning: "wait" },
  );
  const asking = Array.from({ length: 10_000 }, async () => await (await handler(post("k"))).text());
  // The other requests find the key running.
  await settled();
  all.open();
  const answers = await Promise.all(asking);
  expect(new Set(answers)).toEqual(new Set(['{"runs":1}']));
  expect(runs).toBe(1);
  // The requests share reads: the store does not get ten thousand.
  expect(store.metrics.flushes).toBeLessThan(200);
});
