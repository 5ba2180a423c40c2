import { expect, test } from "vitest";
import type { Served } from "../served.js";
import type { NodeProtocol } from "../server-program.js";
import { post } from "../wire/http.js";
import { bodyOf } from "../wire/wire.js";

const bytesMax = 10 * 1024 * 1024;

/** Requests that no node is called for. The server answers the next request as before. */
export function malformedCases(protocol: NodeProtocol, served: () => Served): void {
  if (protocol === "http") httpCases(served);
  else grpcCases(served);

  test("a request over the size limit is VALIDATION", async () => {
    const { wire } = served();
    const answer = await wire.invoke("echo", { inputs: { in: { text: "x".repeat(bytesMax) } } });
    expect(answer).toMatchObject({ code: "VALIDATION" });
    if (protocol === "http") expect(answer.status).toBe(413);
    expect(await wire.invoke("many", { inputs: { in: { n: 1 } } })).toMatchObject({ replayed: false });
  });

  test("a packet of several megabytes passes", async () => {
    const text = "y".repeat(5 * 1024 * 1024);
    const [output] = (await served().wire.invoke("echo", { inputs: { in: { text } } })).outputs ?? [];
    expect(output?.data).toEqual({ text });
  });
}

function httpCases(served: () => Served): void {
  const path = "/v1/nodes/echo/invoke";

  test("a malformed body is VALIDATION, 400", async () => {
    const { url } = served().server;
    const texts = ["", "{", "[]", '"text"', "null", "{}"];
    const bodies = [
      ...[{ inputs: undefined }, { inputs: {} }, { inputs: [] }, { inputs: { in: 5 } }, { inputs: { in: [] } }, { inputs: { in: null } }],
      ...[{ flowId: undefined }, { flowId: "" }, { nodeId: 7 }, { idempotencyKey: "" }, { idempotencyKey: 5 }],
      ...[{ attempt: 0 }, { attempt: 1.5 }, { attempt: "1" }, { deadlineMs: 0 }, { deadlineMs: -1 }],
      ...[{ settings: [] }, { traceHeaders: { traceparent: 5 } }],
    ].map((given) => JSON.stringify(bodyOf(given)));
    for (const body of [...texts, ...bodies, Buffer.from([0x7b, 0xff, 0x7d])]) {
      const { code, status, message } = await post(url, path, body);
      expect([String(body), code, status, (message ?? "") !== ""]).toEqual([String(body), "VALIDATION", 400, true]);
    }
  });

  test("unknown members are ignored; a body without optional members is enough", async () => {
    const { url } = served().server;
    const body = JSON.stringify({ flowId: "f", nodeId: "n", inputs: { in: { a: 1 } }, later: { version: 2 } });
    expect(await post(url, path, body)).toMatchObject({ status: 200, outputs: [{ port: "out", data: { a: 1 } }] });
  });

  test("another content type, path or method is refused", async () => {
    const { url } = served().server;
    // A web page may send this type to any address without asking: it must not call a node on loopback.
    expect(await post(url, path, JSON.stringify(bodyOf({})), { "content-type": "text/plain" })).toMatchObject({
      code: "VALIDATION",
      status: 415,
    });
    expect((await fetch(`${url}/v1/nodes/echo`, { method: "POST" })).status).toBe(404);
    expect((await fetch(`${url}/`)).status).toBe(404);
    expect((await fetch(`${url}${path}`)).status).toBe(405);
    expect((await fetch(`${url}/v1/health`, { method: "POST" })).status).toBe(405);
  });
}

function grpcCases(served: () => Served): void {
  test("a malformed request is VALIDATION", async () => {
    const { wire } = served();
    const requests = [
      ...["", "{", "[]", "5", "null"].map((text) => ({ inputs: { in: Buffer.from(text) } })),
      ...[{ inputs: {} }, { flowId: "" }, { nodeId: "" }, { idempotencyKey: "" }, { attempt: 0 }, { settings: [] }],
    ];
    for (const request of requests)
      expect([JSON.stringify(request), (await wire.invoke("echo", request)).code]).toEqual([JSON.stringify(request), "VALIDATION"]);
  });
}
