import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { mockNodeInput } from "../../../testing/node-delivery.js";
import { handle, type NodeInput } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import { httpRequest } from "./http-request.js";

interface Received {
  readonly method: string | undefined;
  readonly path: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A server that keeps what it receives. `answer` undefined: it answers 200 with JSON. */
async function server(answer: (response: ServerResponse) => void = json({ id: "c-1" })) {
  const received: Received[] = [];
  const listening = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    received.push({ method: request.method, path: request.url, headers: request.headers, body });
    answer(response);
  });
  await new Promise<void>((ready) => listening.listen(0, "127.0.0.1", ready));
  onTestFinished(() => {
    listening.closeAllConnections();
    listening.close();
  });
  return { received, url: `http://127.0.0.1:${(listening.address() as AddressInfo).port}` };
}

function json(value: unknown, status = 200, headers: Readonly<Record<string, string>> = {}) {
  return (response: ServerResponse) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify(value));
  };
}

const local = { privateAddresses: ["127.0.0.1"], secrets: { token: "s3cret" } };
const order = { id: "o-1", amount: 12.5, name: "a/../b?c" };
const input = (payload: Record<string, unknown> = order, idempotencyKey = "o-1-charge") => mockNodeInput("in", payload, { idempotencyKey });

async function sent(settings: Record<string, unknown>, from: NodeInput = input()) {
  return (await handle(httpRequest(local).node(settings), from)).sent;
}

async function codeOf(settings: Record<string, unknown>, from?: NodeInput) {
  const error: unknown = await sent(settings, from).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(NodeError);
  return error as NodeError;
}

test("sends the key, the secret and the filled templates, and the response as a packet", async () => {
  const { received, url } = await server();
  const output = await sent({
    method: "POST",
    url: `${url}/orders/{{payload.name}}/charge?order={{payload.id}}`,
    headers: { Authorization: "Bearer {{secrets.token}}" },
    body: {
      order: "{{payload.id}}",
      amount: "{{payload.amount}}",
      note: "for {{payload.id}}",
      all: "{{payload}}",
      twice: "{{payload.amount * 2}}",
      big: "x{{payload.id.upper()}}",
    },
  });
  expect(received).toHaveLength(1);
  const [{ method, path, headers, body }] = received as [Received];
  expect({ method, path }).toEqual({ method: "POST", path: "/orders/a%2F..%2Fb%3Fc/charge?order=o-1" });
  expect(headers).toMatchObject({ "idempotency-key": "o-1-charge", authorization: "Bearer s3cret", "content-type": "application/json" });
  expect(JSON.parse(body)).toEqual({ order: "o-1", amount: 12.5, note: "for o-1", all: order, twice: 25, big: "xO-1" });
  expect(output).toEqual([{ port: "out", data: { status: 200, body: { id: "c-1" } } }]);
});

test("the output may combine packet and response, and the header of the key another name", async () => {
  const { received, url } = await server();
  const output = await sent({
    method: "PUT",
    url,
    body: "plain {{payload.id}}",
    keyHeader: "X-Request-Key",
    output: { order: "{{payload.id}}", charge: "{{response.body.id}}", status: "{{response.status}}" },
  });
  expect(output[0]?.data).toEqual({ order: "o-1", charge: "c-1", status: 200 });
  expect(received[0]?.headers).toMatchObject({ "x-request-key": "o-1-charge", "content-type": "text/plain; charset=utf-8" });
  expect(received[0]?.body).toBe("plain o-1");
});

test("a key that a header cannot carry is sent as its hash", async () => {
  const { received, url } = await server();
  await sent({ method: "POST", url }, input(order, "größe-1"));
  await sent({ method: "POST", url }, input(order, "x".repeat(300)));
  for (const { headers } of received) expect(headers["idempotency-key"]).toMatch(/^sha256-[0-9a-f]{64}$/);
});

test.each([
  [400, "VALIDATION"],
  [401, "PERMANENT"],
  [404, "PERMANENT"],
  [408, "TIMEOUT"],
  [409, "TEMPORARY"],
  [422, "VALIDATION"],
  [429, "RATE_LIMITED"],
  [500, "TEMPORARY"],
  [501, "PERMANENT"],
  [503, "TEMPORARY"],
])("status %i is %s, and never a packet", async (status, code) => {
  const { url } = await server(json({}, status, { "retry-after": "7" }));
  expect(await codeOf({ method: "GET", url })).toMatchObject({ code, retryAfterMs: 7000 });
  expect((await sent({ method: "GET", url, statuses: { [status]: "OK" } }))[0]?.data).toEqual({ status, body: {} });
});

test("does not follow a redirect, and does not show the URL", async () => {
  const other = await server();
  const { url } = await server(json({}, 302, { location: other.url }));
  const { code, message } = await codeOf({ method: "GET", url: `${url}/?token={{secrets.token}}` });
  expect({ code, message }).toEqual({ code: "PERMANENT", message: "the server responded with 302; redirects are not followed" });
  expect(other.received).toEqual([]);
});

test("limits time and length of the response", async () => {
  const silent = await server(() => {});
  expect(await codeOf({ method: "GET", url: silent.url, timeoutMs: 20 })).toMatchObject({ code: "TIMEOUT" });
  const endless = await server((response) => {
    const more = () => {
      if (!response.destroyed) response.write("x".repeat(10_000), more);
    };
    more();
  });
  expect(await codeOf({ method: "GET", url: endless.url, responseBytesMax: 20_000 })).toMatchObject({ code: "PERMANENT" });
  const broken = await server((response) => response.destroy());
  expect(await codeOf({ method: "GET", url: broken.url })).toMatchObject({ code: "NETWORK_ERROR" });
});

test("stops with the reason of the delivery's signal", async () => {
  const { url } = await server(() => {});
  const stop = new AbortController();
  const reason = new NodeError("TEMPORARY", "this process is stopping");
  const running = codeOf({ method: "GET", url }, mockNodeInput("in", {}, { context: { signal: stop.signal } }));
  stop.abort(reason);
  expect(await running).toBe(reason);
});

test("refuses private addresses that are not allowed: at the start, from a packet, and from a name", async () => {
  const { received, url } = await server();
  expect(() => httpRequest().node({ method: "GET", url })).toThrow(/private address/);
  const fromPacket = httpRequest().node({ method: "GET", url: "{{payload.url}}" });
  for (const private_ of [url, url.replace("127.0.0.1", "localhost"), "http://169.254.169.254/latest", "http://[::1]/"])
    await expect(handle(fromPacket, input({ url: private_ }))).rejects.toMatchObject({ code: "PERMANENT" });
  for (const wrong of ["file:///etc/passwd", "javascript:1", "nonsense"])
    await expect(handle(fromPacket, input({ url: wrong }))).rejects.toMatchObject({ code: "VALIDATION" });
  expect(received).toEqual([]);
});

test("a packet that the templates cannot use makes no request", async () => {
  const { received, url } = await server();
  const post = { method: "POST", url };
  expect(await codeOf({ ...post, body: { a: "{{payload.missing}}" } })).toMatchObject({
    code: "VALIDATION",
    message: "settings.body.a: payload.missing is missing",
  });
  expect(await codeOf({ ...post, url: `${url}/{{payload.id}}` }, input({ id: ".." }))).toMatchObject({ code: "VALIDATION" });
  expect(await codeOf({ ...post, url: `${url}/{{payload.id}}` }, input({ id: {} }))).toMatchObject({ code: "VALIDATION" });
  expect(await codeOf({ ...post, headers: { a: "{{payload.id}}" } }, input({ id: "x\r\nevil: 1" }))).toMatchObject({ code: "VALIDATION" });
  expect(await codeOf({ ...post, body: { a: "{{payload.n}}" } }, input({ n: 1n }))).toMatchObject({ code: "VALIDATION" });
  expect(received).toEqual([]);
});

test.each([
  [{ url: "https://example.com" }, /method/],
  [{ method: "get", url: "https://example.com" }, /settings\.method must be one of/],
  [{ method: "GET", url: "ftp://example.com" }, /http or https/],
  [{ method: "GET", url: "https://example.com", timeout: 1 }, /did you mean "timeoutMs"\?/],
  [{ method: "GET", url: "https://example.com", body: {} }, /no body/],
  [{ method: "GET", url: "https://example.com/{{paylod.id}}" }, /did you mean "payload"\?/],
  [{ method: "GET", url: "https://example.com/{{payload.id.nope()}}" }, /settings\.url: the function nope\(\) is not allowed/],
  [{ method: "GET", url: "https://example.com/{{secrets.tokn}}" }, /did you mean "token"\?/],
  [{ method: "GET", url: "https://example.com", headers: { Host: "x" } }, /cannot be set/],
  [{ method: "GET", url: "https://example.com", headers: { "a b": "x" } }, /settings\.headers/],
  [{ method: "GET", url: "https://example.com", output: { a: "{{secrets.token}}" } }, /unknown placeholder/],
  [{ method: "GET", url: "https://example.com", statuses: { 404: "FINE" } }, /settings\.statuses\.404/],
])("checks its settings: %#", (settings, message) => {
  expect(() => httpRequest(local).node(settings)).toThrow(message);
});

test("refuses wrong options", () => {
  expect(() => httpRequest({ secret: {} } as never)).toThrow(/did you mean "secrets"\?/);
  expect(() => httpRequest({ secrets: { token: process.env["NOT_SET_ANYWHERE"] as string } })).toThrow(/secrets\.token/);
  expect(() => httpRequest({ privateAddresses: ["http://x/"] })).toThrow(/privateAddresses/);
});
