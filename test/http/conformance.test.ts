import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { open } from "onceflow";
import { type ConformanceOptions, type ConformanceReport, conformance, idempotent } from "onceflow/http";
import { describe, expect, onTestFinished, test } from "vitest";
import { letTimePass } from "../kit/real-time.js";
import { until } from "../kit/until.js";
import { serving } from "./servers.js";

const binary = Buffer.from([0, 255, 254, 128]);

/** Keys whose slow request may go on: a duplicate was answered, or the client has left. */
const released = new Set<string>();
const keyIn = (request: Request) => (request.headers.get("idempotency-key") ?? "").replaceAll('"', "");

/** How often each key took effect, and the handler whose effects those are. */
function shop() {
  const effects = new Map<string, number>();
  let made = 0;
  const handler = async (request: Request): Promise<Response> => {
    const key = keyIn(request);
    const { pathname } = new URL(request.url);
    made += 1;
    const id = made;
    if (pathname === "/slow") await until("a duplicate was answered, or the client has left", () => released.has(key));
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
    otherCaller: { authorization: "somebody else" },
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

test("ours conforms in every case, and says so in a table", async () => {
  const store = await open("memory:");
  onTestFinished(() => store.close());
  const { handler, effects } = shop();
  const scope = (request: Request) => request.headers.get("authorization") ?? "";
  const report = await check(idempotent(handler, { store, scope }), effects);
  expect(report.cases.filter(({ verdict }) => verdict !== "passed")).toEqual([]);
  expect(report.passed).toBe(true);
  expect(printed.at(-1)).toMatch(/passed {3}replay +a retry gets the first response.*\n[\s\S]*conforms: 22 passed, 0 failed, 0 skipped$/);
});

test("what a server does not offer is skipped, and told; what does not answer fails", async () => {
  const report = await conformance("http://127.0.0.1:9/", { print: (text) => void printed.push(text) });
  expect(report.passed).toBe(false);
  expect(report.cases.find(({ name }) => name === "binary")).toMatchObject({ verdict: "skipped", why: "requires the option binaryUrl" });
  expect(report.cases.find(({ name }) => name === "replay")).toMatchObject({
    verdict: "failed",
    why: expect.stringMatching(/^no usable response/),
  });
  await expect(conformance("nowhere")).rejects.toThrow(/^url:/);
});

/** What a hand-made middleware gets wrong, and the case that finds it. `slow`: only what takes a while shows it. */
const faults: Readonly<Record<string, { readonly found: string; readonly slow?: true }>> = {
  "nothing is remembered": { found: "replay" },
  "always answers 200 to a retry": { found: "replay" },
  "completes under another key": { found: "replay" },
  "the key is the body": { found: "executes" },
  "replays are not marked": { found: "replay-marked" },
  "quotes are part of the key": { found: "quoted" },
  "no fingerprint": { found: "mismatch" },
  "the body is part of the key": { found: "mismatch" },
  "a refusal frees the key": { found: "mismatch-keeps" },
  "the query does not count": { found: "mismatch-query" },
  "refusals are plain text": { found: "problem-json" },
  "no key is no problem": { found: "key-missing" },
  "an empty key is a key": { found: "key-malformed" },
  "keys of any length": { found: "key-too-long" },
  "bodies are text": { found: "binary" },
  "one value per header": { found: "cookies" },
  "all routes are one": { found: "other-route" },
  "all callers are one": { found: "other-caller" },
  "looks first, writes later": { found: "concurrent" },
  "failures are kept": { found: "failing" },
  "409 without Retry-After": { found: "in-flight", slow: true },
  "409 before 422": { found: "in-flight-mismatch", slow: true },
  "stops with its client": { found: "disconnect", slow: true },
  "runs twice, answers once": { found: "effects" },
  "duplicates at once all run, and answer alike": { found: "effects" },
  "Location is dropped": { found: "replay" },
  "keys are case-folded": { found: "key-case" },
};

interface Remembered {
  readonly print: string;
  response?: { readonly status: number; readonly headers: [string, string][]; readonly body: Buffer };
}

/** Right in everything but one thing. */
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
    is("refusals are plain text")
      ? new Response("no", { status, headers })
      : new Response(JSON.stringify({ type: `urn:test:${status}` }), {
          status,
          headers: { "content-type": "application/problem+json", ...headers },
        });
  return async (request) => {
    const { pathname, search } = new URL(request.url);
    const field = request.headers.get("idempotency-key");
    if (is("nothing is remembered")) return await handler(request);
    if (field === null) return is("no key is no problem") ? await handler(request) : problem(400);
    const quoted = /^"(.*)"$/.exec(field)?.[1];
    const sent = is("quotes are part of the key") ? field : (quoted ?? field);
    const key = is("keys are case-folded") ? sent.toLowerCase() : sent;
    if (!is("an empty key is a key") && (key === "" || (key.startsWith('"') && quoted === undefined))) return problem(400);
    if (!is("keys of any length") && key.length > 255) return problem(400);
    const body = await request.clone().text();
    const caller = is("all callers are one") ? "" : request.headers.get("authorization");
    const id = [
      caller,
      is("all routes are one") ? "" : pathname,
      is("the key is the body") ? body : key,
      is("the body is part of the key") ? body : "",
    ].join(" ");
    const print = [is("the query does not count") ? "" : search, is("no fingerprint") ? "" : body].join(" ");
    const known = records.get(id);
    // Whoever finds nothing waits for another one that does: so this fault always shows where two come at once.
    if (is("looks first, writes later") && known === undefined) await anotherLook(id);
    if (known !== undefined) {
      const { response } = known;
      const conflict = () => problem(409, is("409 without Retry-After") ? {} : { "retry-after": "1" });
      if (response === undefined && is("409 before 422")) return conflict();
      if (known.print !== print) {
        if (is("a refusal frees the key")) records.delete(id);
        return problem(422);
      }
      if (response === undefined && is("duplicates at once all run, and answer alike")) {
        looking.get(id)?.();
        await handler(request);
        await until("the first one has answered", () => known.response !== undefined);
        return new Response(known.response?.body as never, known.response);
      }
      if (response === undefined) return conflict();
      const marked: [string, string][] = is("replays are not marked") ? [] : [["idempotent-replayed", "true"]];
      const content = is("bodies are text") ? response.body.toString() : response.body;
      const kept = is("one value per header") ? [...new Map(response.headers)] : response.headers;
      const headers = kept.filter(([name]) => !(is("Location is dropped") && name === "location"));
      const status = is("always answers 200 to a retry") ? 200 : response.status;
      return new Response(content as string, { status, headers: [...headers, ...marked] });
    }
    const record: Remembered = { print };
    records.set(id, record);
    if (is("runs twice, answers once")) await handler(request.clone());
    const response = await handler(request);
    if (is("duplicates at once all run, and answer alike")) await anotherLook(id);
    if (is("stops with its client") && request.signal.aborted) return response;
    const bytes = Buffer.from(await response.clone().arrayBuffer());
    if (response.status >= 500 && !is("failures are kept")) records.delete(id);
    else if (!is("completes under another key")) record.response = { status: response.status, headers: [...response.headers], body: bytes };
    return response;
  };
}

describe("a server that is wrong in one thing is found", () => {
  test("the toy conforms when nothing is wrong with it", async () => {
    const { handler, effects } = shop();
    const report = await check(faulty("", handler), effects);
    expect(report.cases.filter(({ verdict }) => verdict !== "passed")).toEqual([]);
  });

  test.for(Object.entries(faults))("%s", async ([fault, { found, slow = false }]) => {
    const { handler, effects } = shop();
    const report = await check(faulty(fault, handler), effects, { slow });
    expect(failedIn(report)).toContain(found);
    expect(report.passed).toBe(false);
    // Found for what it is, where it is not everything that is wrong.
    const blanket = fault === "nothing is remembered" || fault === "completes under another key";
    if (!blanket) expect(failedIn(report).length).toBeLessThanOrEqual(6);
  });
});

test("a server that keeps failures conforms when that is said, and one that does not fails then", async () => {
  for (const [fault, failed] of [
    ["failures are kept", []],
    ["", ["failing"]],
  ] as const) {
    const { handler, effects } = shop();
    expect(failedIn(await check(faulty(fault, handler), effects, { slow: false, keepsFailures: true }))).toEqual(failed);
  }
});

test("effects are counted by a URL; an answer that is no number fails", async () => {
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
  expect(await by("runs twice, answers once", "/count")).toEqual(["effects"]);
  expect(await by("", "/other")).toEqual(["effects"]);
  expect(printed.at(-1)).toContain('effectsUrl responded with 200 and "many"; expected a number');
  await expect(conformance("http://127.0.0.1:9/", { effectsUrl: "http://127.0.0.1:9/count" })).rejects.toThrow("{key}");
});

test("control characters of the server do not reach the terminal", async () => {
  let made = 0;
  const server = createServer((request, response) => {
    request.resume();
    // Latin-1, as Node sends headers: 0x9b is an escape sequence of its own to a terminal.
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
