import { createHash } from "node:crypto";
import { request as nodeRequest } from "node:http";
import { open, type Store } from "onceflow";
import { currentAttempt, type IdempotentOptions } from "onceflow/http";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { type Exchange, frameworks, type Routes, type Server } from "./servers.js";

/** Bytes that are not valid UTF-8. */
const binary = Buffer.from([0, 255, 254, 128, 10, 13, 0, 195, 40]);
const kept = 64 * 1024;

/** The effects of the handlers, by route. */
let calls: Record<string, number> = {};
/** Handlers of "slow" wait here. */
let gate: { readonly opened: Promise<void>; readonly open: () => void; readonly entered: Promise<void>; readonly enter: () => void };

function newGate(): typeof gate {
  let [open, enter] = [() => {}, () => {}];
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const entered = new Promise<void>((resolve) => {
    enter = resolve;
  });
  return { opened, open, entered, enter };
}

function counted(name: string, answer: (body: Buffer, n: number) => Promise<Exchange> | Exchange) {
  return async (body: Buffer) => {
    const n = (calls[name] ?? 0) + 1;
    calls[name] = n;
    return await answer(body, n);
  };
}

async function* chunks(count: number, size: number): AsyncGenerator<Buffer> {
  for (let i = 0; i < count; i++) {
    await new Promise<void>((go) => void setImmediate(go));
    yield Buffer.alloc(size, i);
  }
}

const json = ["content-type", "application/json"] as const;
const bytes = ["content-type", "application/octet-stream"] as const;

const definitions: Record<string, (body: Buffer, n: number) => Promise<Exchange> | Exchange> = {
  orders: (_body, n) => ({
    status: 201,
    headers: [json, ["location", `/orders/${n}`], ["x-request-id", `r-${n}`]],
    body: JSON.stringify({ id: `o-${n}`, attempt: currentAttempt()?.number, effectKey: currentAttempt()?.effectKey.length }),
  }),
  bytes: () => ({ status: 200, headers: [bytes], body: binary }),
  echo: (body) => ({ status: 200, headers: [bytes], body: Buffer.from(createHash("sha256").update(body).digest("hex")) }),
  cookies: (_body, n) => ({
    status: 200,
    headers: [json, ["set-cookie", `a=${n}; Path=/`], ["set-cookie", `b=${n}; HttpOnly`]],
    body: "{}",
  }),
  none: () => ({ status: 204 }),
  moved: (_body, n) => ({ status: 303, headers: [["location", `/orders/${n}`]] }),
  stream: () => ({ status: 200, headers: [bytes], body: chunks(5, 1000) }),
  huge: () => ({ status: 200, headers: [bytes], body: chunks(20, kept / 8) }),
  failing: (_body, n) => ({ status: 503, headers: [json], body: `{"failure":${n}}` }),
  busy: (_body, n) => ({ status: 429, headers: [json], body: `{"busy":${n}}` }),
  missing: (_body, n) => ({ status: 404, headers: [json], body: `{"missing":${n}}` }),
  throws: (_body, n) => {
    if (n === 1) throw new Error("the database is away");
    return { status: 200, headers: [json], body: `{"n":${n}}` };
  },
  slow: async (_body, n) => {
    gate.enter();
    await gate.opened;
    return { status: 200, headers: [json], body: `{"slow":${n}}` };
  },
  slowstream: (_body, n) => ({
    status: 200,
    headers: [bytes],
    body: (async function* () {
      yield Buffer.from(`first ${n} `);
      gate.enter();
      await gate.opened;
      yield Buffer.from("last");
    })(),
  }),
  live: () => ({
    status: 200,
    headers: [["content-type", "text/plain"]],
    body: (async function* () {
      yield Buffer.from("early");
      await gate.opened;
      yield Buffer.from(" late");
    })(),
  }),
};
const routes: Routes = Object.fromEntries(Object.entries(definitions).map(([name, answer]) => [name, counted(name, answer)]));

interface Got {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Buffer;
  readonly replayed: boolean;
}

let made = 0;
const newKey = () => `k-${++made}`;

describe.each(Object.keys(frameworks))("%s", (framework) => {
  let store: Store;
  let server: Server;
  const start = async (options: Partial<Omit<IdempotentOptions<unknown>, "scope">> = {}) =>
    (frameworks[framework] as (typeof frameworks)[string])(routes, { store, responseBytesMax: kept, ...options });
  beforeAll(async () => {
    store = await open("memory:");
    server = await start();
  });
  afterAll(async () => {
    await server.close();
    await store.close();
  });
  beforeEach(() => {
    calls = {};
    gate = newGate();
  });

  async function post(path: string, key?: string, init: RequestInit = {}, at: Server = server): Promise<Got> {
    const headers = { ...(init.headers as Record<string, string>), ...(key === undefined ? {} : { "idempotency-key": key }) };
    const response = await fetch(`${at.url}/${path}`, { method: "POST", redirect: "manual", body: "{}", ...init, headers });
    const { status } = response;
    const replayed = response.headers.get("idempotent-replayed") === "true";
    return { status, headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()), replayed };
  }

  /** Uses a separate connection: servers may close it after a request that they have not read to the end. */
  function postAlone(path: string, key: string, body: Buffer): Promise<Got> {
    return new Promise((resolve, reject) => {
      const headers = { "idempotency-key": key, "content-length": body.byteLength };
      const sent = nodeRequest(`${server.url}/${path}`, { method: "POST", agent: false, headers }, (response) => {
        const read: Buffer[] = [];
        const got = () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: new Headers(response.headers as never),
            bytes: Buffer.concat(read),
            replayed: false,
          });
        response.on("data", (chunk: Buffer) => void read.push(chunk)).on("end", got);
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }

  async function twice(path: string, init: RequestInit = {}): Promise<readonly [Got, Got]> {
    const key = newKey();
    const first = await post(path, key, init);
    const again = await post(path, key, init);
    expect([first.replayed, again.replayed]).toEqual([false, true]);
    expect([again.status, again.bytes]).toEqual([first.status, first.bytes]);
    expect(calls[path]).toBe(1);
    return [first, again];
  }

  test("executes once, and replays status, stored headers and bytes", async () => {
    const [first, again] = await twice("orders", { headers: { "content-type": "application/json" } });
    expect(first.status).toBe(201);
    expect(JSON.parse(first.bytes.toString())).toEqual({ id: "o-1", attempt: 1, effectKey: 64 });
    expect(again.headers.get("content-type")).toBe(first.headers.get("content-type"));
    expect(again.headers.get("location")).toBe("/orders/1");
    expect(first.headers.get("x-request-id")).toBe("r-1");
    expect(again.headers.get("x-request-id")).toBeNull();
  });

  test("replays binary responses, streams, 204, redirects and cookies unchanged", async () => {
    expect((await twice("bytes"))[1].bytes).toEqual(binary);
    expect((await twice("stream"))[1].bytes.byteLength).toBe(5000);
    expect((await twice("none"))[1].status).toBe(204);
    const [, moved] = await twice("moved");
    expect([moved.status, moved.headers.get("location")]).toEqual([303, "/orders/1"]);
    const [cookies, cookiesAgain] = await twice("cookies");
    expect(cookies.headers.getSetCookie()).toEqual(["a=1; Path=/", "b=1; HttpOnly"]);
    expect(cookiesAgain.headers.getSetCookie()).toEqual(cookies.headers.getSetCookie());
    expect((await twice("missing"))[1].status).toBe(404);
  });

  test("passes every body to the handler: binary, chunked, multipart, empty", async () => {
    const hash = (body: Buffer | string) => createHash("sha256").update(body).digest("hex");
    const [first] = await twice("echo", { body: binary, headers: { "content-type": "application/octet-stream" } });
    expect(first.bytes.toString()).toBe(hash(binary));
    calls = {};
    // Without a length, so it is sent in chunks.
    const key = newKey();
    const chunked = () => post("echo", key, { body: ReadableStream.from(chunks(4, 10_000)) as never, duplex: "half" } as RequestInit);
    const got = await chunked();
    expect(got.bytes.toString()).toBe(hash(Buffer.concat([0, 1, 2, 3].map((i) => Buffer.alloc(10_000, i)))));
    expect((await chunked()).replayed).toBe(true);
    calls = {};
    // A form has a new boundary each time it is encoded.
    const form = () => {
      const data = new FormData();
      data.set("file", new Blob([binary]), "a.bin");
      return data;
    };
    const formKey = newKey();
    const sent = await post("echo", formKey, { body: form() });
    expect(sent.status).toBe(200);
    expect((await post("echo", formKey, { body: form() })).replayed).toBe(true);
    const other = form();
    other.set("file", new Blob([Buffer.from("other")]), "a.bin");
    expect((await post("echo", formKey, { body: other })).status).toBe(422);
    calls = {};
    const [empty] = await twice("echo", { body: "" });
    expect(empty.bytes.toString()).toBe(hash(""));
  });

  test("refuses a missing key, a malformed key, another body, another query, and a body that is too long", async () => {
    const key = newKey();
    expect((await post("orders", key)).status).toBe(201);
    const refused = async (status: number, type: string, got: Got) => {
      expect([got.status, got.headers.get("content-type")]).toEqual([status, "application/problem+json"]);
      expect(JSON.parse(got.bytes.toString())).toMatchObject({ type: `urn:onceflow:http:${type}`, status });
    };
    await refused(400, "key-missing", await post("orders"));
    await refused(400, "key-malformed", await post("orders", "two keys"));
    await refused(400, "key-malformed", await post("orders", "x".repeat(256)));
    await refused(422, "mismatch", await post("orders", key, { body: '{"other":1}' }));
    await refused(422, "mismatch", await post("orders?a=1", key));
    await refused(413, "body-too-long", await postAlone("orders", newKey(), Buffer.alloc(1024 * 1024 + 1)));
    expect(calls).toEqual({ orders: 1 });
    expect((await post("orders", `"${key}"`)).replayed).toBe(true);
    expect((await post("orders", key, { headers: { "x-caller": "another caller" } })).status).toBe(201);
    expect((await post("echo", key)).replayed).toBe(false);
  });

  test("a duplicate in flight gets 409 with Retry-After, and with another body 422", async () => {
    const key = newKey();
    const first = post("slow", key);
    await gate.entered;
    const duplicate = await post("slow", key);
    expect([duplicate.status, duplicate.headers.get("retry-after")]).toEqual([409, "1"]);
    expect((await post("slow", key, { body: "other" })).status).toBe(422);
    gate.open();
    expect((await first).bytes.toString()).toBe('{"slow":1}');
    expect((await post("slow", key)).bytes.toString()).toBe('{"slow":1}');
    expect(calls["slow"]).toBe(1);
  });

  test("failures and temporary refusals are not stored, and a thrown error is a failure", async () => {
    const key = newKey();
    expect([(await post("failing", key)).bytes, (await post("failing", key)).bytes].map(String)).toEqual([
      '{"failure":1}',
      '{"failure":2}',
    ]);
    expect([(await post("busy", key)).bytes, (await post("busy", key)).bytes].map(String)).toEqual(['{"busy":1}', '{"busy":2}']);
    expect((await post("throws", key)).status).toBe(500);
    expect((await post("throws", key)).bytes.toString()).toBe('{"n":2}');
    expect((await post("throws", key)).bytes.toString()).toBe('{"n":2}');
  });

  test("a response that is too long is sent completely, and the request is not run again", async () => {
    const key = newKey();
    const first = await post("huge", key);
    expect([first.status, first.bytes.byteLength]).toEqual([200, 20 * (kept / 8)]);
    const again = await post("huge", key);
    expect([again.status, JSON.parse(again.bytes.toString()).type]).toEqual([409, "urn:onceflow:http:response-not-kept"]);
    expect(calls["huge"]).toBe(1);
  });

  test("a response that is too long is refused if the policy says so", async () => {
    const strict = await start({ onTooLong: "refuse", operation: "strict" });
    onTestFinished(() => strict.close());
    const key = newKey();
    expect(JSON.parse((await post("huge", key, {}, strict)).bytes.toString()).type).toBe("urn:onceflow:http:response-too-long");
    expect(JSON.parse((await post("huge", key, {}, strict)).bytes.toString()).type).toBe("urn:onceflow:http:response-not-kept");
    expect(calls["huge"]).toBe(1);
  });

  test.each(["slow", "slowstream"])("a client that disconnects during %s gets the outcome when it retries", async (path) => {
    const key = newKey();
    await new Promise<void>((left) => {
      const sent = nodeRequest(`${server.url}/${path}`, { method: "POST", headers: { "idempotency-key": key, "content-length": 2 } });
      sent.on("error", () => {});
      sent.on("close", left);
      sent.end("{}");
      void gate.entered.then(() => sent.destroy());
    });
    // The server notices the disconnect later: wait for a request on another connection, which it handles after that.
    await post("orders", newKey());
    gate.open();
    let back = await post(path, key);
    while (back.status === 409) back = await post(path, key);
    expect([back.status, back.replayed, back.bytes.toString()]).toEqual([200, true, path === "slow" ? '{"slow":1}' : "first 1 last"]);
    expect(calls[path]).toBe(1);
  });

  test("a handler that hangs is aborted, and its key is free again", async () => {
    const impatient = await start({ timeoutMs: 50, graceMs: 10, operation: "impatient" });
    onTestFinished(() => impatient.close());
    const key = newKey();
    const hung = await post("slow", key, {}, impatient);
    expect([hung.status, JSON.parse(hung.bytes.toString()).type]).toEqual([504, "urn:onceflow:http:timeout"]);
    gate.open();
    // The same operation with the usual time: on a busy machine the second call may take longer than 50 ms.
    const patient = await start({ operation: "impatient" });
    onTestFinished(() => patient.close());
    expect((await post("slow", key, {}, patient)).bytes.toString()).toBe('{"slow":2}');
  });

  test("requests without a key are streamed without buffering if no key is required", async () => {
    const lenient = await start({ required: false, operation: "lenient" });
    onTestFinished(() => lenient.close());
    const response = await fetch(`${lenient.url}/live`, { method: "POST", body: "{}" });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    // The first chunk arrives before the handler is done, so it was not buffered.
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe("early");
    gate.open();
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe(" late");
    await reader.cancel();
  });

  test("two waiting duplicates get the same response", async () => {
    const patient = await start({ onRunning: "wait", operation: "patient", tellRetention: true, retentionMs: 3_600_000 });
    onTestFinished(() => patient.close());
    const key = newKey();
    const first = post("slow", key, {}, patient);
    await gate.entered;
    const others = [post("slow", key, {}, patient), post("slow", key, {}, patient)];
    gate.open();
    const all = await Promise.all([first, ...others]);
    expect(all.map(({ bytes }) => bytes.toString())).toEqual(Array(3).fill('{"slow":1}'));
    expect(all.map(({ headers }) => headers.get("idempotency-retention"))).toEqual(Array(3).fill("3600"));
    expect(calls["slow"]).toBe(1);
  });
});
