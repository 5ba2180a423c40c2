import { expect, test } from "vitest";
import type { Served } from "../served.js";
import type { NodeProtocol } from "../server-program.js";

/** Status of each code over HTTP. */
const statuses = {
  VALIDATION: 422,
  INPUT_MISSING: 422,
  PERMANENT: 422,
  TIMEOUT: 504,
  RATE_LIMITED: 429,
  NETWORK_ERROR: 502,
  TEMPORARY: 503,
};

/** What nodes get, what they send, and how they fail. */
export function nodeCases(protocol: NodeProtocol, served: () => Served): void {
  test("manifest and health", async () => {
    const { wire } = served();
    const manifest = await wire.manifest();
    expect(manifest?.protocol).toBe("flowdsl.node.v1");
    expect(manifest?.sdk.language).toMatch(/./);
    const nodes = ["context", "echo", "effect", "fail", "many", "needs_other"];
    expect(manifest?.nodes.map(({ operationId }) => operationId).sort()).toEqual(nodes);
    const { status, concurrency } = await wire.health();
    expect([status, concurrency]).toEqual(["serving", 100]);
  });

  test("a node gets the packet of each port, and its packets arrive in order", async () => {
    const { wire } = served();
    const packet = { text: "“ß😀”", nested: { list: [1, 2.5, -3e-7, null, true, ""], "a.b": {} }, large: 9_007_199_254_740_991 };
    const inputs = { right: { b: 2 }, left: packet };
    const answer = await wire.invoke("echo", { inputs });
    expect(answer).toMatchObject({ replayed: false });
    expect(answer.outputs).toEqual([
      { port: "out", data: packet },
      { port: "out", data: { b: 2 } },
    ]);
    expect((await wire.invoke("many", { inputs: { in: { n: 3 } } })).outputs?.map(({ data }) => data)).toEqual([
      { i: 0 },
      { i: 1 },
      { i: 2 },
    ]);
    expect(await wire.invoke("many", { inputs: { in: { n: 0 } } })).toMatchObject({ outputs: [], replayed: false });
  });

  test("a node gets the facts of its delivery", async () => {
    const { wire } = served();
    const facts = {
      ...{ flowId: "orders", executionId: "x-17", nodeId: "Charge", packetId: "p-42", idempotencyKey: 'order-1 ß"\\', attempt: 3 },
      traceHeaders: { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
      settings: { currency: "EUR", limits: [1, 2] },
    };
    expect((await wire.invoke("context", facts)).outputs).toEqual([{ port: "out", data: { ...facts, hasDeadline: true } }]);
    const [without] = (await wire.invoke("context", { executionId: "" })).outputs ?? [];
    expect(without?.data).toMatchObject({ executionId: "", idempotencyKey: null, traceHeaders: {}, settings: {} });
  });

  test("each error code arrives; an exception is TEMPORARY, without a stack", async () => {
    const { wire } = served();
    for (const [code, status] of Object.entries(statuses)) {
      const answer = await wire.invoke("fail", { inputs: { in: { code, message: `because of ${code}` } } });
      expect(answer).toMatchObject({ code, message: `because of ${code}` });
      if (protocol === "http") expect([code, answer.status]).toEqual([code, status]);
    }
    const thrown = await wire.invoke("fail", { inputs: { in: { code: "EXCEPTION", message: "it broke" } } });
    expect(thrown).toMatchObject({ code: "TEMPORARY" });
    expect(thrown.message).toContain("it broke");
    expect(thrown.message).not.toMatch(/\n|Traceback|goroutine|\.(ts|js|py|go):?\d/);
    if (protocol === "http") expect(thrown.status).toBe(500);
  });

  test("a port without a packet is INPUT_MISSING; an unknown node is TEMPORARY", async () => {
    const { wire } = served();
    expect(await wire.invoke("needs_other", {})).toMatchObject({ code: "INPUT_MISSING" });
    expect((await wire.invoke("needs_other", { inputs: { in: {}, other: { a: 1 } } })).outputs).toEqual([{ port: "out", data: { a: 1 } }]);
    const unknown = await wire.invoke("not_there", {});
    expect(unknown).toMatchObject({ code: "TEMPORARY" });
    if (protocol === "http") expect(unknown.status).toBe(404);
  });

  test("a stream ends with done or with the error", async () => {
    const { wire } = served();
    const keyed = { idempotencyKey: "streamed", inputs: { in: { n: 3 } } };
    const outputs = [0, 1, 2].map((i) => ({ port: "out", data: { i } }));
    expect(await wire.stream("many", keyed)).toMatchObject({ outputs, replayed: false });
    expect(await wire.stream("many", keyed)).toMatchObject({ outputs, replayed: true });
    expect(await wire.invoke("many", keyed)).toMatchObject({ outputs, replayed: true });
    const failing = { inputs: { in: { code: "RATE_LIMITED", message: "wait" } } };
    expect(await wire.stream("fail", failing)).toMatchObject({ code: "RATE_LIMITED", message: "wait" });
  });
}
