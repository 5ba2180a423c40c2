import { once } from "node:events";
import { connect } from "node:net";
import { ConfigurationError } from "onceflow";
import { serve } from "onceflow/server";
import { describe, expect, test, vi } from "vitest";
import { problem, raw, scene } from "./scene.js";

const token = "a-token-that-is-long-enough";

describe("without a token", () => {
  test("the server listens on the loopback address only", async () => {
    const { runtime } = await scene();
    for (const host of ["0.0.0.0", "::", "192.168.1.1", "example.org", "127.0.0.1.example.org"]) {
      const error = await serve(runtime, { host, port: 0 }).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(ConfigurationError);
      expect(error).toMatchObject({ code: "TOKEN_MISSING", message: expect.stringContaining("ONCEFLOW_TOKEN") as string });
    }
  });

  test("requests with another host name are refused", async () => {
    const { server } = await scene();
    for (const host of ["evil.example", `evil.example:${server.port}`, "127.0.0.1.evil.example", "localhost.evil.example"])
      expect(await raw(server, "/flows", { headers: { host } })).toMatchObject({ status: 403 });
    for (const host of ["localhost", `LOCALHOST:${server.port}`, "127.0.0.1", "127.8.8.8", "[::1]", "[::1]:80"])
      expect(await raw(server, "/flows", { headers: { host } })).toMatchObject({ status: 200 });
  });

  test("web pages of other origins can neither send nor read anything", async () => {
    const { server, runtime } = await scene();
    const post = (origin: string) => raw(server, "/flows/orders/pause", { method: "POST", headers: { origin } });
    for (const origin of ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost.evil.example"])
      expect(await post(origin)).toMatchObject({ status: 403, body: expect.stringContaining("origin-refused") as string });
    expect((await runtime.flows())[0]?.state).toBe("active");
    expect(await post(server.url)).toMatchObject({ status: 200 });
    const answer = await fetch(`${server.url}/flows`);
    expect(answer.headers.get("access-control-allow-origin")).toBeNull();
  });
});

describe("with a token", () => {
  test("requests without the right token are refused on every path", async () => {
    const { server } = await scene({ token });
    const ask = (authorization?: string, path = "/flows") =>
      raw(server, path, { headers: authorization === undefined ? {} : { authorization } });
    for (const wrong of [
      undefined,
      "",
      "Bearer",
      `Bearer ${token}x`,
      `Bearer ${token.slice(1)}`,
      `Basic ${token}`,
      token,
      `Bearer ${token} x`,
    ])
      expect(await ask(wrong), String(wrong)).toMatchObject({ status: 401, body: expect.stringContaining("unauthorized") as string });
    for (const path of ["/metrics", "/events", "/openapi.json", "/nothing", "/executions"])
      expect(await ask(undefined, path)).toMatchObject({ status: 401 });
    expect(await ask(`Bearer ${token}`)).toMatchObject({ status: 200 });
    expect(await ask(`bearer  ${token}`)).toMatchObject({ status: 200 });
    // A health probe without a token only learns that the server is up.
    expect(await ask(undefined, "/health")).toEqual({ status: 200, body: '{"status":"ok"}' });
    const refused = await fetch(`${server.url}/flows`);
    expect(refused.headers.get("www-authenticate")).toMatch(/^Bearer/);
  });

  test("the server can listen on any address and accept any host name", async () => {
    const { server } = await scene({ token, host: "0.0.0.0" });
    expect(await raw(server, "/flows", { headers: { host: "flows.example", authorization: `Bearer ${token}` } })).toMatchObject({
      status: 200,
    });
  });
});

test("every response has headers that mark it as data", async () => {
  const { call } = await scene();
  for (const path of ["/flows", "/nothing", "/metrics", "/executions?limit=x"]) {
    const { headers } = await call(path);
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(headers.get("cache-control")).toBe("no-store");
  }
});

test("unknown paths get 404, and unsupported methods 405", async () => {
  const { call } = await scene();
  expect(await problem(await call("/nothing"))).toMatchObject({ status: 404, name: "server:route-unknown" });
  const put = await call("/flows/orders/trigger", { method: "PUT", body: "x" });
  expect([put.status, put.headers.get("allow")]).toEqual([405, "POST"]);
  expect((await call("/flows", { method: "HEAD" })).status).toBe(200);
});

test("bytes that are not HTTP do not disturb the server", async () => {
  const { server, call } = await scene();
  const socket = connect(server.port, "127.0.0.1");
  socket.on("error", () => {}).end("\u0000\u0001 nonsense\r\n\r\n");
  socket.resume();
  await once(socket, "close");
  expect((await call("/health")).status).toBe(200);
});

test("reports a port that is in use", async () => {
  const { runtime, server } = await scene();
  await expect(serve(runtime, { port: server.port })).rejects.toMatchObject({
    code: "CANNOT_LISTEN",
    message: expect.stringContaining("is in use") as string,
  });
});

test("close() waits for running requests, ends event streams, and accepts no new requests", async () => {
  const { server, call, trigger, hold } = await scene();
  const go = hold("o-1");
  const { executionId } = (await (await trigger({ orderId: "o-1", amount: 1 })).json()) as { executionId: string };
  const waiting = call(`/executions/${executionId}?wait=60`);
  const listening = await call("/events");
  // The request has arrived when the server has begun to respond.
  await vi.waitUntil(async () => (await call("/metrics")).ok, { timeout: 60_000 });
  const closed = server.close();
  expect(await (await waiting).json()).toMatchObject({ status: "running" });
  expect(await listening.text()).toContain(": listening");
  await closed;
  await expect(call("/flows")).rejects.toThrow();
  go();
});
