import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { InvalidInputError } from "onceflow";
import { FatalError, fetch, getStepMetadata, step, workflow } from "onceflow/workflow";
import { getRun, start } from "onceflow/workflow/api";
import { expect, test as plain } from "vitest";
import { gate } from "../../kit/gate.js";
import { everyStore, onStores, type Scene } from "../../kit/scene.js";

interface Heard {
  readonly method: string | undefined;
  readonly key: string | undefined;
  readonly body: string;
}

type Answer = (call: number, request: IncomingMessage) => { status: number; body?: string | Uint8Array; headers?: Record<string, string> };

/** A provider that counts the requests it gets. */
async function provider(scene: Scene | undefined, answer: Answer) {
  const calls: Heard[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    calls.push({
      method: request.method,
      key: request.headers["idempotency-key"] as string | undefined,
      body: Buffer.concat(chunks).toString(),
    });
    const { status, body = "", headers = {} } = answer(calls.length, request);
    response.writeHead(status, headers).end(body);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const close = () => {
    server.closeAllConnections();
    return new Promise<void>((closed) => void server.close(() => closed()));
  };
  scene?.onEnd(close);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, calls, close };
}

onStores("fetch", everyStore, (test) => {
  test("in a workflow it is a step: a replay has the same response without a request", async ({ scene }) => {
    const reached = gate();
    const { url, calls } = await provider(scene, (n) => ({ status: 201, body: `{"n":${n}}`, headers: { "x-n": String(n) } }));
    const hold = step("hold", async () => {
      if (getStepMetadata().attempt > 1) return;
      reached.open();
      await new Promise<never>(() => {});
    });
    const order = workflow(scene.name("order"), async () => {
      const response = await fetch(url, { method: "POST", body: "amount=5" });
      const body = await response.json();
      await hold();
      return [response.status, response.ok, response.headers.get("x-n"), response.url === url, body];
    });
    const doomed = await scene.workAndDie({ workflows: [order] });
    const run = await start(order, [], { store: doomed.store });
    await reached.opened;
    doomed.die();
    const { store } = await scene.work({ pollMs: 100, workflows: [order] });
    expect(await getRun(run.id, { store }).returnValue).toEqual([201, true, "1", true, { n: 1 }]);
    expect(calls).toEqual([{ method: "POST", key: undefined, body: "amount=5" }]);
  });

  test("sends the stepId as the idempotency key, the same at every attempt", async ({ scene }) => {
    const { url, calls } = await provider(scene, (n) => ({ status: n < 3 ? 503 : 200, headers: { "retry-after": "0" } }));
    const order = workflow(scene.name("order"), async () => {
      const first = await fetch(url, { method: "POST" }, { idempotencyKey: true, retryStatuses: [503] });
      const second = await fetch(url, undefined, { idempotencyKey: true });
      return [first.status, second.status];
    });
    const { store } = await scene.work();
    expect(await (await start(order, [], { store })).returnValue).toEqual([200, 200]);
    const keys = calls.map(({ key }) => key);
    expect(keys[0]).toMatch(/^step_/);
    expect(new Set(keys.slice(0, 3)).size).toBe(1);
    expect(keys[3]).toMatch(/^step_/);
    expect(keys[3]).not.toBe(keys[0]);
  });

  test("can treat 409 as success; otherwise 409 is a response like any other", async ({ scene }) => {
    const { url } = await provider(scene, () => ({ status: 409, body: "already processed" }));
    const order = workflow(scene.name("order"), async () => {
      const taken = await fetch(url, { method: "POST" }, { conflictIsSuccess: true });
      const left = await fetch(url, { method: "POST" });
      return [taken.ok, taken.status, taken.headers.get("onceflow-status"), await taken.text(), left.ok, left.status];
    });
    const { store } = await scene.work();
    expect(await (await start(order, [], { store })).returnValue).toEqual([true, 200, "409", "already processed", false, 409]);
  });

  test("retries a network error, and throws a FatalError when no retries are left", async ({ scene }) => {
    const { url, close } = await provider(undefined, () => ({ status: 200 }));
    await close();
    const order = workflow(scene.name("order"), async () => {
      try {
        await fetch(url, undefined, { maxRetries: 1, backoff: { minMs: 1 } });
      } catch (error) {
        return FatalError.is(error) && error.message;
      }
      return "no error";
    });
    const { store } = await scene.work();
    expect(await (await start(order, [], { store })).returnValue).toMatch(/step "fetch" failed after 2 attempts/);
  });

  test("accepts a Request, binary bodies in both directions, and a signal of the code", async ({ scene }) => {
    const bytes = new Uint8Array([0, 255, 128, 10]);
    const { url, calls } = await provider(scene, () => ({ status: 200, body: bytes }));
    const order = workflow(scene.name("order"), async () => {
      const response = await fetch(new Request(url, { method: "PUT", body: "hello", headers: { "x-a": "b" } }));
      const controller = new AbortController();
      controller.abort(new Error("not wanted"));
      const aborted = await fetch(url, { signal: controller.signal }, { maxRetries: 0 }).catch((error: Error) => String(error.cause));
      return [new Uint8Array(await response.arrayBuffer()), aborted];
    });
    const { store } = await scene.work();
    expect(await (await start(order, [], { store })).returnValue).toEqual([bytes, expect.stringContaining("not wanted")]);
    expect(calls).toEqual([{ method: "PUT", key: undefined, body: "hello" }]);
  });
});

plain("outside of a workflow fetch is the global one, with the same options", async () => {
  const { url, calls, close } = await provider(undefined, () => ({ status: 409 }));
  const response = await fetch(url, { method: "POST", body: "x" }, { conflictIsSuccess: true, idempotencyKey: true });
  expect([response.status, calls]).toEqual([200, [{ method: "POST", key: undefined, body: "x" }]]);
  expect(() => fetch(url, {}, { idempotencyKey: "not a header" })).toThrow(InvalidInputError);
  expect(() => fetch(url, {}, { retryStatuses: ["503"] as never })).toThrow(/retryStatuses/);
  await close();
});
