import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { open } from "onceflow";
import { type ConformanceOptions, type ConformanceReport, conformance, idempotent } from "onceflow/http";
import { describe, expect, onTestFinished, test } from "vitest";
import { letTimePass } from "../kit/real-time.js";
import { until } from "../kit/until.js";
import { serving } from "./servers.js";

const binary = Buffer.from([0, 255, 254, 128]);

/** Keys whose slow request may continue: a duplicate was answered, or the client has disconnected. */
const released = new Set<string>();
const keyIn = (request: Request) => (request.headers.get("idempotency-key") ?? "").replaceAll('"', "");

/** A handler, and how often each key had an effect in it. */
function shop() {
  const effects = new Map<string, number>();
  let made = 0;
  const handler = async (request: Request): Promise<Response> => {
    const key = keyIn(request);
    const { pathname } = new URL(request.url);
    made += 1;
    const id = made;
    if (pathname === "/slow") await until("a duplicate was answered or the client has disconnected", () => released.has(key));
    effects.set(key, (effects.get(key) ?? 0) + 1);
    if (pathname === "/failing") return Response.json({ failure: id }, { status: 500 });
    if (pathname === "/binary") return new Response(Buffer.concat([binary, Buffer.from(String(id))]));
    const headers: [string, string][] = pathname === "/cookies" ? [1, 2].map((i) => ["set-cookie", `c${i}=${id}`]) : [];
    headers.push(["location", `/orders/${id}`]);
    return Response.json({ id }, { status: 201, headers });
  };
  return { handler, effects: (key: string) => effects.get(key) ?? 0 };
}

async function check(
  handler: (request: Request) => Promise<Response>,
  effects: ((key: string) => number) | undefined,
  { slow = true, ...more }: ConformanceOptions & { readonly slow?: boolean } = {},
): Promise<ConformanceReport> {
  const server = await serving(async (request) => {
    const release = () => void released.add(keyIn(request));
    request.signal.addEventListener("abort", release);
    return await handler(request).finally(release);
  });
  onTestFinished(() => server.close());
  const at = (path: string) => server.url + path;
  const options: ConformanceOptions = {
    headers: { authorization: "me" },
    failingUrl: at("/failing"),
    binaryUrl: at("/binary"),
    cookieUrl: at("/cookies"),
    otherUrl: at("/other"),
    otherCaller: { authorization: "another caller" },
    settleMsMax: 2000,
    ...(slow ? { slowUrl: at("/slow") } : {}),
    ...(effects === undefined ? {} : { effects }),
    print: (text) => void printed.push(text),
    ...more,
  };
  return await conformance(at("/orders"), options);
}

const printed: string[] = [];
const failedIn = ({ cases }: ConformanceReport) => cases.filter(({ verdict }) => verdict === "failed").map(({ name }) => name);

test("our middleware conforms in every case, and the report is a table", async () => {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  const { handler, effects } = shop();
  const scope = (request: Request) => request.headers.get("authorization") ?? "";
  const report = await check(idempotent(handler, { store, scope }), effects);
  expect(report.cases.filter(({ verdict }) => verdict !== "passed")).toEqual([]);
  expect(report.passed).toBe(true);
  expect(printed.at(-1)).toMatch(/passed {3}replay +a retry gets the first response.*\n[\s\S]*conforms: 22 passed, 0 failed, 0 skipped$/);
});

test("cases for features that a server does not offer are skipped with a reason, and a server that does not respond fails", async () => {
  const report = await conformance("http://127.0.0.1:9/", { print: (text) => void printed.push(text) });
  expect(report.passed).toBe(false);
  expect(report.cases.find(({ name }) => name === "binary")).toMatchObject({ verdict: "skipped", why: "requires the option binaryUrl" });
  expect(report.cases.find(({ name }) => name === "replay")).toMatchObject({
    verdict: "failed",
    why: expect.stringMatching(/^no usable response/),
  });
  await expect(conformance("nowhere")).rejects.toThrow(/^url:/);
});

/** Mistakes of hand-made middleware, and the case that finds each. `slow`: only the cases with a slow request find it. */
const faults: Readonly<Record<string, { readonly found: string; readonly slow?: true }>> = {
  "remembers nothing": { found: "replay" },
  "always responds to a retry with 200": { found: "replay" },
  "stores the response under another key": { found: "replay" },
  "uses the body as the key": { found: "executes" },
  "does not mark replays": { found: "replay-marked" },
  "treats quotes as part of the key": { found: "quoted" },
  "has no fingerprint": { found: "mismatch" },
  "treats the body as part of the key": { found: "mismatch" },
  "frees the key after a refusal": { found: "mismatch-keeps" },
  "ignores the query": { found: "mismatch-query" },
  "refuses with plain text": { found: "problem-json" },
  "accepts requests without a key": { found: "key-missing" },
  "accepts an empty key": { found: "key-malformed" },
  "accepts keys of any length": { found: "key-too-long" },
  "decodes bodies as text": { found: "binary" },
  "keeps one value per header": { found: "cookies" },
  "shares keys between routes": { found: "other-route" },
  "shares keys between callers": { found: "other-caller" },
  "checks the key before it claims it": { found: "concurrent" },
  "stores failures": { found: "failing" },
  "sends 409 without Retry-After": { found: "in-flight", slow: true },
  "prefers 409 over 422": { found: "in-flight-mismatch", slow: true },
  "stops when its client disconnects": { found: "disconnect", slow: true },
  "runs twice and responds once": { found: "effects" },
  "runs all concurrent duplicates and gives them the same response": { found: "effects" },
  "drops the Location header": { found: "replay" },
  "ignores the case of keys": { found: "key-case" },
};

interface Remembered {
  readonly print: string;
  response?: { readonly status: number; readonly headers: [string, string][]; readonly body: Buffer };
}

/** Middleware that conforms except for one fault. */
function faulty(fault: string, handler: (request: Request) => Promise<Response>): (request: Request) => Promise<Response> {
  const is = (name: string) => {
    if (!(name in faults)) throw new Error(`no such fault: ${name}`);
    return name === fault;
  };
  const records = new Map<string, Remembered>();
  const looking = new Map<string, () => void>();
  const anotherLook = async (id: string) => {
    looking.get(id)?.();
    const came = new Promise<void>((go) => void looking.set(id, go));
    await Promise.race([came, letTimePass(250, "a request that comes alone goes on, too")]);
  };
  const problem = (status: number, headers: Record<string, string> = {}) =>
    is("refuses with plain text")
      ? new Response("no", { status, headers })
      : new Response(JSON.stringify({ type: `urn:test:${status}` }), {
          status,
          headers: { "content-type": "application/problem+json", ...headers },
        });
  return async (request) => {
    const { pathname, search } = new URL(request.url);
    const field = request.headers.get("idempotency-key");
    if (is("remembers nothing")) return await handler(request);
    if (field === null) return is("accepts requests without a key") ? await handler(request) : problem(400);
    const quoted = /^"(.*)"$/.exec(field)?.[1];
    const sent = is("treats quotes as part of the key") ? field : (quoted ?? field);
    const key = is("ignores the case of keys") ? sent.toLowerCase() : sent;
    if (!is("accepts an empty key") && (key === "" || (key.startsWith('"') && quoted === undefined))) return problem(400);
    if (!is("accepts keys of any length") && key.length > 255) return problem(400);
    const body = await request.clone().text();
    const caller = is("shares keys between callers") ? "" : request.headers.get("authorization");
    const id = [
      caller,
      is("shares keys between routes") ? "" : pathname,
      is("uses the body as the key") ? body : key,
      is("treats the body as part of the key") ? body : "",
    ].join(" ");
    const print = [is("ignores the query") ? "" : search, is("has no fingerprint") ? "" : body].join(" ");
    const known = records.get(id);
    // A request that finds no record waits for a second request that finds none, so that two concurrent requests always show this fault.
    if (is("checks the key before it claims it") && known === undefined) await anotherLook(id);
    if (known !== undefined) {
      const { response } = known;
      const conflict = () => problem(409, is("sends 409 without Retry-After") ? {} : { "retry-after": "1" });
      if (response === undefined && is("prefers 409 over 422")) return conflict();
      if (known.print !== print) {
        if (is("frees the key after a refusal")) records.delete(id);
        return problem(422);
      }
      if (response === undefined && is("runs all concurrent duplicates and gives them the same response")) {
        looking.get(id)?.();
        await handler(request);
        await until("the first request has its response", () => known.response !== undefined);
        return new Response(known.response?.body as never, known.response);
      }
      if (response === undefined) return conflict();
      const marked: [string, string][] = is("does not mark replays") ? [] : [["idempotent-replayed", "true"]];
      const content = is("decodes bodies as text") ? response.body.toString() : response.body;
      const kept = is("keeps one value per header") ? [...new Map(response.headers)] : response.headers;
      const headers = kept.filter(([name]) => !(is("drops the Location header") && name === "location"));
      const status = is("always responds to a retry with 200") ? 200 : response.status;
      return new Response(content as string, { status, headers: [...headers, ...marked] });
    }
    const record: Remembered = { print };
    records.set(id, record);
    if (is("runs twice and responds once")) await handler(request.clone());
    const response = await handler(request);
    if (is("runs all concurrent duplicates and gives them the same response")) await anotherLook(id);
    if (is("stops when its client disconnects") && request.signal.aborted) return response;
    const bytes = Buffer.from(await response.clone().arrayBuffer());
    if (response.status >= 500 && !is("stores failures")) records.delete(id);
    else if (!is("stores the response under another key"))
      record.response = { status: response.status, headers: [...response.headers], body: bytes };
    return response;
  };
}

describe("the conformance suite reports a server that", () => {
  test("conforms as passed", async () => {
    const { handler, effects } = shop();
    const report = await check(faulty("", handler), effects);
    expect(report.cases.filter(({ verdict }) => verdict !== "passed")).toEqual([]);
  });

  test.for(Object.entries(faults))("%s", async ([fault, { found, slow = false }]) => {
    const { handler, effects } = shop();
    const report = await check(faulty(fault, handler), effects, { slow });
    expect(failedIn(report)).toContain(found);
    expect(report.passed).toBe(false);
    // Only a few cases fail, so that the report points to the fault. These two faults break nearly every case.
    const blanket = fault === "remembers nothing" || fault === "stores the response under another key";
    if (!blanket) expect(failedIn(report).length).toBeLessThanOrEqual(6);
  });
});

test("with keepsFailures a server that stores failures conforms, and one that does not store them fails", async () => {
  for (const [fault, failed] of [
    ["stores failures", []],
    ["", ["failing"]],
  ] as const) {
    const { handler, effects } = shop();
    expect(failedIn(await check(faulty(fault, handler), effects, { slow: false, keepsFailures: true }))).toEqual(failed);
  }
});

test("effects can be counted by a URL, and a response that is not a number fails the case", async () => {
  const { handler, effects } = shop();
  const counter = await serving((request) => {
    const { pathname, searchParams } = new URL(request.url);
    if (request.headers.get("authorization") !== "me") return new Response("who?", { status: 401 });
    return new Response(pathname === "/count" ? `${effects(searchParams.get("key") ?? "")}\n` : "many");
  });
  onTestFinished(() => counter.close());
  const by = async (fault: string, path: string) => {
    const effectsUrl = `${counter.url}${path}?key={key}`;
    return failedIn(await check(faulty(fault, handler), undefined, { slow: false, effectsUrl }));
  };
  expect(await by("", "/count")).toEqual([]);
  expect(await by("runs twice and responds once", "/count")).toEqual(["effects"]);
  expect(await by("", "/other")).toEqual(["effects"]);
  expect(printed.at(-1)).toContain('effectsUrl responded with 200 and "many"; expected a number');
  await expect(conformance("http://127.0.0.1:9/", { effectsUrl: "http://127.0.0.1:9/count" })).rejects.toThrow("{key}");
});

test("control characters in a server's responses do not reach the terminal", async () => {
  let made = 0;
  const server = createServer((request, response) => {
    request.resume();
    // Latin-1, as Node sends headers: a terminal reads the single byte 0x9b as the start of an escape sequence.
    response.setHeader("content-type", `text/\u009b31mred${++made}`).end(`${made}`);
  });
  await new Promise<void>((ready) => void server.listen(0, "127.0.0.1", ready));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { cases } = await conformance(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, {
    print: (text) => void printed.push(text),
  });
  expect(cases.find(({ name }) => name === "problem-json")?.why).toMatch(/content type text\/.* 31mred/);
  for (const text of [printed.at(-1) as string, JSON.stringify(cases)]) expect(text).not.toMatch(/[\u0080-\u009f]/);
});
