import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { BaseNode, type NodeError, NodeOutput } from "onceflow/graph";
import { NodeClient, type NodeClientOptions, NodeServer, remoteNode } from "onceflow/graph/remote";
import { mockNodeInput } from "onceflow/testing";
import { expect, onTestFinished, test } from "vitest";
import { gate } from "../kit/gate.js";
import { until } from "../kit/until.js";

/** A server that answers as the listener does, and a client for it. */
async function answering(listener: RequestListener, options: Partial<NodeClientOptions> = {}) {
  const server = createServer(listener);
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = new NodeClient({ url, ...options });
  onTestFinished(() => client.close());
  return { client, url };
}

const input = (context: object = {}) => mockNodeInput("in", { id: 1 }, { idempotencyKey: "k", context });

async function failureOf(node: BaseNode, given = input()): Promise<readonly [string, string]> {
  const error: NodeError = await Promise.resolve(node.handle(given)).then(
    () => {
      throw new Error("the node returned");
    },
    (thrown: NodeError) => thrown,
  );
  return [error.code, error.message];
}

const json = (status: number, body: unknown, headers: Record<string, string> = {}): RequestListener => {
  return (_, response) => void response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
};
const text = (status: number, body: string | Buffer, type = "application/json"): RequestListener => {
  return (_, response) => void response.writeHead(status, { "content-type": type }).end(body);
};

const rubbish: readonly (readonly [string, RequestListener, string, RegExp])[] = [
  ["no JSON", text(200, "<html>"), "VALIDATION", /not a JSON object; the node ran/],
  ["an empty body", text(200, ""), "VALIDATION", /not a JSON object/],
  ["bytes that are not UTF-8", text(200, Buffer.from([0x7b, 0xff])), "VALIDATION", /not a JSON object/],
  ["deep nesting", text(200, `${'{"a":'.repeat(5000)}1${"}".repeat(5000)}`), "VALIDATION", /not a JSON object/],
  ["no outputs", json(200, {}), "VALIDATION", /no list `outputs`/],
  ["outputs that are no list", json(200, { outputs: {} }), "VALIDATION", /no list/],
  ["a port that is not text", json(200, { outputs: [{ port: 5, data: {} }] }), "VALIDATION", /outputs\[0\]: `port`/],
  ["data that is no object", json(200, { outputs: [{ port: "out", data: [1] }] }), "VALIDATION", /`data` must be/],
  [
    "an answer over the limit",
    json(200, { outputs: [{ port: "out", data: { text: "x".repeat(60_000) } }] }),
    "VALIDATION",
    /larger than 50000/,
  ],
  ["a known error", json(422, { error: { code: "PERMANENT", message: "never" } }), "PERMANENT", /: never$/],
  ["a known error with any status", json(418, { error: { code: "RATE_LIMITED", message: "wait" } }), "RATE_LIMITED", /wait/],
  ["an unknown error code", json(500, { error: { code: "OOPS", message: "x" } }), "TEMPORARY", /status 500/],
  ["a page of a proxy", text(502, "<html>bad gateway</html>", "text/html"), "TEMPORARY", /proxies in between/],
  ["a redirect", json(307, {}, { location: "http://127.0.0.1:1/" }), "TEMPORARY", /redirect \(307\), which is not followed/],
  ["another success status", json(204, {}), "TEMPORARY", /status 204/],
  ["a connection that breaks", (_, response) => void response.destroy(), "TEMPORARY", /ECONNRESET|connection broke/],
  [
    "an answer that is cut off",
    (_, r) => void r.writeHead(200, { "content-length": "100" }).write("{", () => r.destroy()),
    "TEMPORARY",
    /broke|ECONNRESET/,
  ],
  ["lines without an end", text(200, '{"output":{"port":"out","data":{}}}\n', "application/x-ndjson"), "TEMPORARY", /cut off/],
  ["lines with an error", text(200, '{"error":{"code":"TIMEOUT","message":"late"}}\n', "application/x-ndjson"), "TIMEOUT", /late/],
];

test.each(rubbish)("%s", async (_, listener, code, about) => {
  // Only the answer over the limit is larger.
  const { client, url } = await answering(listener, { answerBytesMax: 50_000 });
  const [got, message] = await failureOf(client.node("charge"));
  expect([got, message.startsWith(`node "charge" at ${url}: `)]).toEqual([code, true]);
  expect(message).toMatch(about);
});

test("a server that cannot be reached is TEMPORARY; the time limit is TIMEOUT; an abort ends the call", async () => {
  const { url } = await answering(() => {});
  const none = remoteNode({ operationId: "charge", url: "http://127.0.0.1:1" });
  expect(await failureOf(none)).toEqual([
    "TEMPORARY",
    expect.stringContaining("no connection (ECONNREFUSED); check that the node server runs"),
  ]);
  const silent = remoteNode({ operationId: "charge", url, timeoutMs: 30 });
  expect(await failureOf(silent)).toEqual(["TIMEOUT", `node "charge" at ${url}: no answer within 30 ms`]);
  expect(await failureOf(remoteNode({ operationId: "charge", url }), input({ remainingMs: 20 }))).toEqual([
    "TIMEOUT",
    expect.stringContaining("20 ms"),
  ]);
  const stop = new AbortController();
  const failed = failureOf(remoteNode({ operationId: "charge", url }), input({ signal: stop.signal }));
  stop.abort();
  expect(await failed).toEqual(["TEMPORARY", expect.stringContaining("aborted")]);
  const grpc = remoteNode({ operationId: "charge", url: "grpc://127.0.0.1:1", timeoutMs: 60_000 });
  expect(await failureOf(grpc)).toEqual(["TEMPORARY", expect.stringContaining("check that the node server runs")]);
});

test("the facts of a delivery travel as headers, too; packets that JSON cannot hold are not sent", async () => {
  const seen: Record<string, unknown>[] = [];
  const { client } = await answering(
    (request, response) => {
      seen.push(request.headers);
      json(200, { outputs: [{ port: "out", data: { ok: true } }] })(request, response);
    },
    { token: "a-token-of-the-test-suite" },
  );
  const traceHeaders = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", tracestate: "bad\nvalue", cookie: "no" };
  const node = client.node("charge");
  await node.handle(mockNodeInput("in", {}, { idempotencyKey: 'a"b\\c', context: { attempt: 3, traceHeaders } }));
  await node.handle(mockNodeInput("in", {}, { idempotencyKey: "ß" }));
  expect(seen[0]).toMatchObject({
    ...{ "idempotency-key": '"a\\"b\\\\c"', "onceflow-attempt": "3", authorization: "Bearer a-token-of-the-test-suite" },
    traceparent: traceHeaders.traceparent,
  });
  expect([seen[0]?.["tracestate"], seen[0]?.["cookie"], seen[1]?.["idempotency-key"]]).toEqual([undefined, undefined, undefined]);
  const dated = mockNodeInput("in", { at: new Date() });
  expect(await failureOf(node, dated)).toEqual(["VALIDATION", expect.stringContaining('port "in".at: is a Date')]);
  expect(seen.length).toBe(2);
});

test("calls at a time are limited, and so is the queue; a caller that leaves the queue makes no call", async () => {
  const open = gate();
  let calls = 0;
  const { client } = await answering(
    (request, response) => {
      calls += 1;
      void open.opened.then(() => json(200, { outputs: [] })(request, response));
    },
    { concurrency: 1, queueMax: 1 },
  );
  const node = client.node("charge");
  const first = node.handle(input());
  await until("the first call has arrived", () => calls === 1);
  const leaving = new AbortController();
  const queued = failureOf(node, input({ signal: leaving.signal }));
  expect(await failureOf(node)).toEqual(["RATE_LIMITED", expect.stringContaining("1 calls run and 1 wait")]);
  leaving.abort();
  expect((await queued)[0]).toBe("TEMPORARY");
  const second = node.handle(input());
  open.open();
  expect([await first, await second].map((output) => (output as NodeOutput).sent)).toEqual([[], []]);
  expect(calls).toBe(2);
});

test("wrong options are refused, without the credentials in the message", () => {
  const wrong: readonly (readonly [Partial<NodeClientOptions>, RegExp])[] = [
    [{ url: "http://user:secret@127.0.0.1" }, /url: has a user name or password/],
    [{ url: "ftp://127.0.0.1" }, /url: must be like/],
    [{ url: "grpc://127.0.0.1" }, /must have a port/],
    [{ url: "http://127.0.0.1", tls: {} }, /use https:\/\//],
    [{ url: "https://127.0.0.1", tls: { cert: "x" } }, /both cert and key/],
    [{ url: "http://127.0.0.1", concurency: 5 } as never, /did you mean "concurrency"/],
    [{ url: "http://127.0.0.1", token: "short" }, /token: must be 16/],
  ];
  for (const [options, about] of wrong) expect(() => new NodeClient(options as NodeClientOptions)).toThrow(about);
  expect(() => new NodeClient({ url: "http://user:secret@127.0.0.1" })).not.toThrow(/secret/);
  expect(() => new NodeServer({ nodes: {} })).toThrow(/nodes: is empty/);
  expect(() => new NodeServer({ nodes: { a: () => {} }, host: "0.0.0.0" })).toThrow(/refusing to listen on 0\.0\.0\.0 without a token/);
  expect(() => new NodeServer({ nodes: { a: () => {} }, manifest: { b: {} } })).toThrow(/manifest\.b: is not a node/);
  expect(new NodeServer({ nodes: { a: () => {} }, host: "0.0.0.0", allowUnauthenticated: true }).manifest.nodes).toEqual([
    { operationId: "a" },
  ]);
});

class Greeter extends BaseNode {
  readonly operationId = "greet";
  greeting = "";
  override init(settings: Readonly<Record<string, unknown>>): void {
    this.greeting = String(settings["greeting"]);
  }
  handle() {
    return new NodeOutput().send("out", { greeting: this.greeting });
  }
}

test.each(["http", "grpc"] as const)("one server over both protocols shares its nodes and its answers (%s)", async (protocol) => {
  const server = new NodeServer({
    ...{ nodes: [new Greeter()], port: 0, grpcPort: 0, settings: { greet: { greeting: "hello" } } },
    manifest: { greet: { version: "2.0.0", summary: "Greets", inputs: ["in"], outputs: ["out"] } },
  });
  const urls = await server.start();
  onTestFinished(() => server.stop({ graceMs: 0 }));
  const client = new NodeClient({ url: urls[protocol] as string });
  onTestFinished(() => client.close());
  for (const streaming of [false, true]) {
    const output = (await client.node("greet", { streaming }).handle(input())) as NodeOutput;
    expect(output.sent).toEqual([{ port: "out", data: { greeting: "hello" } }]);
  }
  expect(await client.health()).toEqual({ status: "serving", inFlight: 0, concurrency: 100 });
  expect((await client.manifest()).nodes).toEqual([
    { operationId: "greet", version: "2.0.0", summary: "Greets", inputs: ["in"], outputs: ["out"] },
  ]);
  expect(await failureOf(client.node("other"))).toEqual(["TEMPORARY", expect.stringContaining('has no node "other"')]);
});
