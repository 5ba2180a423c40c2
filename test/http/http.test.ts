import { join } from "node:path";
import {
  ConfigurationError,
  inspect,
  list,
  MismatchError,
  NotApplied,
  open,
  resolve,
  type SqliteTx,
  type Store,
  UnreachableError,
} from "onceflow";
import { currentAttempt, type IdempotentOptions, idempotent } from "onceflow/http";
import type { Batch } from "onceflow/store";
import { EffectLedger } from "onceflow/testing";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { callsIn } from "../kit/effects.js";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { captureWarnings } from "../kit/warnings.js";
import { asked, type Init, problemIn, url } from "./requests.js";

let store: Store;
let effects: EffectLedger;
beforeEach(async () => {
  store = await open("memory:");
  effects = new EffectLedger({ honoursKeys: false });
});
afterEach(() => store.close());

/** Counts its calls and responds differently each time. */
async function create(request: Request): Promise<Response> {
  const key = currentAttempt()?.effectKey ?? "none";
  const { number: attempt = 0 } = currentAttempt() ?? {};
  effects.call(key, { attempt, result: undefined });
  return Response.json({ n: effects.rawCalls(key), got: await request.text() }, { status: 201 });
}

const handlerOf = (options: Partial<IdempotentOptions> = {}, handler = create) => idempotent(handler, { store, scope: "me", ...options });
const total = () => callsIn(effects);

describe("the responses", () => {
  test("a missing or malformed key gets 400 with a link to the policy", async () => {
    const handler = handlerOf({ policyUrl: "https://shop.test/keys" });
    const missing = await handler(asked());
    expect([missing.status, missing.headers.get("link")]).toEqual([400, '<https://shop.test/keys>; rel="describedby"']);
    expect(await problemIn(missing)).toBe("key-missing");
    for (const key of ['""', '"open', "a b", "a,b", '"\u00e9"', "x".repeat(256)]) {
      const refused = await handler(asked({ key }));
      expect([key, refused.status, await problemIn(refused)]).toEqual([key, 400, "key-malformed"]);
    }
    expect(total()).toBe(0);
    expect((await list(store, {})).items).toEqual([]);
  });

  test("a key whose record is gone gets 412 within the horizon, and is executed again after it", async () => {
    const handler = handlerOf({ retentionMs: 0, horizonMs: 60_000 });
    expect((await handler(asked({ key: "k" }))).status).toBe(201);
    const late = await handler(asked({ key: "k" }));
    expect([late.status, await problemIn(late)]).toEqual([412, "gone"]);
    expect(total()).toBe(1);
  });

  test("if the store is unreachable the response is 503, and the handler does not run", async () => {
    const away = Object.create(store, {
      commit: { value: async () => Promise.reject(new UnreachableError("away")) },
      closed: { value: true },
    }) as Store;
    const refused = await handlerOf({ store: away })(asked({ key: "k" }));
    expect([refused.status, refused.headers.get("retry-after"), await problemIn(refused)]).toEqual([503, "1", "store-unreachable"]);
    expect(total()).toBe(0);
    const warnings = captureWarnings();
    expect((await handlerOf({ store: away, onUnreachable: "run" })(asked({ key: "k" }))).status).toBe(201);
    await new Promise((go) => void setImmediate(go));
    expect([total(), warnings.map(({ code }) => code)]).toEqual([1, ["ONCEFLOW_HTTP_UNPROTECTED"]]);
  });

  test('onUnreachable "run" also runs the handler if the store is misconfigured, and never runs it a second time', async () => {
    const wrong = Object.create(store, {
      commit: { value: async () => Promise.reject(new ConfigurationError("wrong password", { code: "STORE_NOT_USABLE" })) },
    }) as Store;
    expect((await handlerOf({ store: wrong, onUnreachable: "run" })(asked({ key: "k" }))).status).toBe(201);
    expect(total()).toBe(1);

    let ended = false;
    const commit = async (batch: Batch) => {
      if (!("ledger" in batch) || batch.ledger.verb !== "settle") return store.commit(batch as never);
      // The store is closed while the outcome is being saved.
      ended = true;
      throw new UnreachableError("away");
    };
    const closing = Object.create(store, { commit: { value: commit }, closed: { get: () => ended } }) as Store;
    const notSaved = await handlerOf({ store: closing, onUnreachable: "run" })(asked({ key: "other" }));
    expect([notSaved.status, total()]).toEqual([503, 2]);
  });

  test("an outcome that cannot be saved gets 503 after a timeout, and saving is retried", async () => {
    for (const [key, ended] of [
      ["returned", () => Promise.resolve(new Response("done"))],
      ["thrown", () => Promise.reject(new Error("broken"))],
    ] as const) {
      let away = true;
      const commit = async (batch: Batch) => {
        if (away && "ledger" in batch && batch.ledger.verb === "settle") throw new UnreachableError("away");
        return store.commit(batch as never);
      };
      const handler = handlerOf({ store: Object.create(store, { commit: { value: commit } }) as Store, timeoutMs: 30 }, ended);
      const late = await handler(asked({ key }));
      expect([late.status, late.headers.get("retry-after"), await problemIn(late)]).toEqual([503, "1", "not-saved"]);
      expect((await handler(asked({ key }))).status).toBe(409);
      away = false;
      const state = async () => (await inspect(store, { scope: "http POST /orders me", key }))?.state;
      await vi.waitUntil(async () => (await state()) !== "running", { timeout: 60_000 });
      expect(await state()).toBe(key === "returned" ? "completed" : "free");
    }
  });

  test("an unknown outcome gets 409 with its own problem type, and is not run again until it is resolved", async () => {
    const handler = handlerOf({ effect: "atMostOnce" }, async (request) => {
      await create(request);
      return new Response("?", { status: 502 });
    });
    expect((await handler(asked({ key: "k" }))).status).toBe(502);
    const again = await handler(asked({ key: "k" }));
    expect([again.status, again.headers.get("retry-after"), await problemIn(again)]).toEqual([409, null, "outcome-unknown"]);
    expect(total()).toBe(1);
    const [record] = (await list(store, { state: "unknown" })).items;
    if (record === undefined) return expect.unreachable("the record is not unknown");
    await resolve(store, { scope: record.scope, key: record.key, attempt: 1 }, "notApplied");
    expect((await handler(asked({ key: "k" }))).status).toBe(502);
    expect(total()).toBe(2);
  });

  test("a refusal below 500 that is not stored frees the key in every effect class", async () => {
    let busy = true;
    const handler = handlerOf({ effect: "atMostOnce" }, (request) =>
      busy ? Promise.resolve(new Response(null, { status: 429 })) : create(request),
    );
    expect((await handler(asked({ key: "k" }))).status).toBe(429);
    busy = false;
    expect((await handler(asked({ key: "k" }))).status).toBe(201);
  });

  test("reconcile turns the provider's result into the response", async () => {
    const handler = handlerOf(
      {
        effect: "reconcile",
        leaseMs: 50,
        reconcile: ({ effectKey }) =>
          effects.rawCalls(effectKey) > 0 ? { found: Response.json({ found: 1 }, { status: 201 }) } : "absent",
        onRunning: "wait",
      },
      async (request) => {
        await create(request);
        throw new Error("lost");
      },
    );
    await expect(handler(asked({ key: "k" }))).rejects.toThrow("lost");
    const found = await handler(asked({ key: "k" }));
    expect([found.status, await found.json(), total()]).toEqual([201, { found: 1 }, 1]);
  });

  test("a policy decides which statuses are stored", async () => {
    const handler = handlerOf({ keeps: () => true }, async (request) => {
      await create(request);
      return new Response("broken", { status: 500 });
    });
    await handler(asked({ key: "k" }));
    const again = await handler(asked({ key: "k" }));
    expect([again.status, again.headers.get("idempotent-replayed"), total()]).toEqual([500, "true", 1]);
  });

  test("an error of the handler is thrown to the caller, and NotApplied frees the key in every effect class", async () => {
    const handler = handlerOf({ effect: "atMostOnce" }, () => Promise.reject(new NotApplied("no")));
    await expect(handler(asked({ key: "k" }))).rejects.toThrow("no");
    await expect(handler(asked({ key: "k" }))).rejects.toThrow("no");
    // A ledger error that comes from a nested `once` in the handler is an error of the handler.
    const own = new MismatchError({ scope: "", key: "other" });
    await expect(handlerOf({}, () => Promise.reject(own))(asked({ key: "k2" }))).rejects.toBe(own);
  });

  test("other methods, and requests without a key if none is required, reach the handler unchanged", async () => {
    const seen: Request[] = [];
    const handler = handlerOf({ required: false }, async (request) => {
      seen.push(request);
      return new Response("ok");
    });
    const plain = [asked({ method: "PUT", key: "k" }), asked({ method: "GET", key: "k" }), asked()];
    for (const request of plain) await handler(request);
    expect(seen).toEqual(plain);
    expect((await list(store, {})).items).toEqual([]);
    const some = handlerOf({ required: (request) => request.headers.has("x-strict") });
    expect((await some(asked())).status).toBe(201);
    expect((await some(asked({ headers: { "x-strict": "1" } }))).status).toBe(400);
  });

  test("HEAD keeps the content-length of the body that it omits", async () => {
    const handler = handlerOf({ methods: ["HEAD"] }, async () => new Response(null, { headers: { "content-length": "50000000" } }));
    for (const replayed of [null, "true"]) {
      const { status, headers } = await handler(asked({ method: "HEAD", key: "k" }));
      expect([status, headers.get("content-length"), headers.get("idempotent-replayed")]).toEqual([200, "50000000", replayed]);
    }
  });

  test("a misspelt option is refused when the handler is made", () => {
    expect(() => handlerOf({ efect: "atMostOnce" } as Partial<IdempotentOptions>)).toThrow(
      /efect: is not an option; did you mean "effect"\?/,
    );
  });

  test("every option is checked when the handler is made", () => {
    const bad: Record<string, unknown>[] = [
      ...[{ scope: undefined }, { store: {} }, { leaseMs: 5 }, { effect: "twice" }, { effect: "reconcile" }, { keyCharsMax: 1000 }],
      ...[{ onRunning: "throw" }, { timeoutMs: 0 }, { header: "a b" }, { fingerprint: "md5" }, { responseBytesMax: -1 }, { operation: "" }],
      ...[{ policyUrl: "https://x/>; y" }, { methods: "POST" }, { onTooLong: "hide" }, { onUnreachable: "hope" }, { retentionMs: -1 }],
    ];
    for (const options of bad) {
      const [field = ""] = Object.keys(options);
      expect(() => handlerOf(options as Partial<IdempotentOptions>), field).toThrow(
        new RegExp(`^${field === "effect" ? "(effect|reconcile)" : field}:`),
      );
    }
  });
});

describe("the fingerprint", () => {
  const twice = async (options: Partial<IdempotentOptions>, first: Init, second: Init) => {
    const handler = handlerOf(options);
    await handler(asked({ key: "k", ...first }));
    return (await handler(asked({ key: "k", ...second }))).status;
  };

  test('"bytes": a different byte makes a different request', async () => {
    expect(await twice({}, { body: '{"a":1,"b":2}' }, { body: '{"b":2,"a":1}' })).toBe(422);
  });

  test('"json": order of properties and white space are ignored, and a body that is not JSON is compared by its bytes', async () => {
    const json = { fingerprint: "json" } as const;
    expect(await twice(json, { body: '{"a":1,"b":2}' }, { body: '{ "b": 2, "a": 1 }' })).toBe(201);
    expect(await twice({ ...json, operation: "2" }, { body: '{"a":1}' }, { body: '{"a":2}' })).toBe(422);
    expect(await twice({ ...json, operation: "3" }, { body: "a" }, { body: "b" })).toBe(422);
    const deep = "[".repeat(300) + "]".repeat(300);
    const refused = await handlerOf(json)(asked({ key: "deep", body: deep }));
    expect([refused.status, await problemIn(refused)]).toEqual([400, "body-malformed"]);
  });

  test("can be a list of fields or a function", async () => {
    const fields = { fingerprint: { fields: ["amount", "customer.id"] } };
    const body = (amount: number, id: number, at: number) => ({ body: JSON.stringify({ amount, customer: { id }, at }) });
    expect(await twice(fields, body(1, 1, 1), body(1, 1, 2))).toBe(201);
    expect(await twice({ ...fields, operation: "2" }, body(1, 1, 1), body(1, 2, 1))).toBe(422);
    expect(await twice({ fingerprint: (sent) => (sent as { at: number }).at, operation: "3" }, body(1, 1, 1), body(2, 2, 1))).toBe(201);
  });

  test("of an operation that routes share has no path and no method, but the query", async () => {
    const at = { operation: "create" };
    expect(await twice(at, { url: "http://shop.test/v1/orders" }, { url: "http://shop.test/v2/orders" })).toBe(201);
    expect(total()).toBe(1);
    expect(await twice({ operation: "other" }, {}, { url: `${url}?dry=1` })).toBe(422);
  });
});

test("the outcome is written in the handler's transaction", async () => {
  const folder = temporaryFolder(onTestFinished);
  const sqlite = await open(`sqlite:${join(folder, "ledger.db")}`);
  try {
    await sqlite.transact(async (tx) => void (tx as SqliteTx).prepare("CREATE TABLE orders (n INTEGER)").run());
    let status = 500;
    const handler = handlerOf({ store: sqlite, tx: true }, async () => {
      const { tx } = currentAttempt() as { readonly tx: SqliteTx };
      tx.prepare("INSERT INTO orders VALUES (1)").run();
      return new Response(null, { status });
    });
    const rows = () => sqlite.transact(async (tx) => (tx as SqliteTx).prepare("SELECT count(*) AS n FROM orders").get());
    await handler(asked({ key: "k" }));
    // A failure rolls its rows back.
    expect(await rows()).toEqual({ n: 0 });
    status = 201;
    for (let i = 0; i < 3; i++) expect((await handler(asked({ key: "k" }))).status).toBe(201);
    expect(await rows()).toEqual({ n: 1 });
  } finally {
    await sqlite.close();
  }
});

test("a first request costs two round trips to the store, a replay one, and a refusal before the ledger none", async () => {
  const handler = handlerOf();
  const trips = async (init: Init) => {
    const before = store.metrics.flushes;
    await handler(asked(init));
    return store.metrics.flushes - before;
  };
  expect([await trips({ key: "k" }), await trips({ key: "k" }), await trips({ key: "k", body: "other" }), await trips({})]).toEqual([
    2, 1, 1, 0,
  ]);
});

test("a stored response is human-readable", async () => {
  await handlerOf()(asked({ key: "k", body: "é" }));
  const found = await inspect(store, { scope: "http POST /orders me", key: "k" });
  expect(found?.value).toEqual({
    status: 201,
    headers: [["content-type", "application/json"]],
    text: '{"n":1,"got":"é"}',
  });
});
