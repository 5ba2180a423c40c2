import { expect, test } from "vitest";
import { InvalidInputError } from "../../core/errors/errors.js";
import { decodeError, encodeError } from "../../core/values/stored-error.js";
import { mockNodeInput } from "../../testing/node-delivery.js";
import { type FlowNode, handle, NodeInput, NodeOutput } from "./node.js";
import { NodeError, nodeErrorCodes } from "./node-error.js";
import { Packet } from "./packet.js";

const context = {
  flowId: "f",
  executionId: "e",
  nodeId: "n",
  packetId: "p",
  idempotencyKey: undefined,
  attempt: 1,
  traceHeaders: {},
  signal: new AbortController().signal,
};

test("a packet's members, by name and by path", () => {
  const packet = new Packet({ email: { messageId: "m-1", read: false }, "a.b": 1, score: 0, nothing: null });
  expect([packet.get("email"), packet.get("email.messageId"), packet.get("a.b")]).toEqual([{ messageId: "m-1", read: false }, "m-1", 1]);
  expect([packet.has("nothing"), packet.has("email.subject"), packet.get("email.subject", "none"), packet.get("nothing", 5)]).toEqual([
    true,
    false,
    "none",
    null,
  ]);
  expect([packet.getString("email.messageId"), packet.getNumber("score"), packet.getBoolean("email.read", true)]).toEqual([
    "m-1",
    0,
    false,
  ]);
  expect([packet.getString("x", "y"), packet.getNumber("x", 7), packet.getBoolean("x", true)]).toEqual(["y", 7, true]);
});

test("a missing member or one of the wrong type is a VALIDATION error; inherited members are missing", () => {
  const packet = new Packet({ amount: "12", deep: null });
  expect(() => packet.getNumber("amount")).toThrow('the packet\'s "amount" is a string; it must be a number');
  expect(() => packet.getNumber("amount", 3)).toThrow(NodeError);
  expect(() => packet.getString("id")).toThrow('"id" is missing');
  expect(() => packet.getString("deep")).toThrow("is null");
  expect([packet.has("constructor"), packet.has("__proto__"), packet.has("deep.x")]).toEqual([false, false, false]);
  for (const data of [null, [], "text", 5]) expect(() => new Packet(data as never)).toThrow(/must be an object/);
});

test("an input lists its filled ports", () => {
  const input = new NodeInput({ in: { a: 1 }, other: {} }, context);
  expect([input.ports, input.packet("in").get("a")]).toEqual([["in", "other"], 1]);
  expect(() => input.packet("out")).toThrow('no packet at port "out"; ports with a packet: "in", "other"');
  expect(NodeError.is(caught(() => input.packet("out"))) && caught(() => input.packet("out"))).toMatchObject({ code: "INPUT_MISSING" });
});

test("an output keeps what is sent, in order", () => {
  const output = new NodeOutput().send("out", { n: 1 }).send("audit", { n: 2 }).send("out", { n: 3 });
  expect(output.sent.map(({ port, data }) => [port, data["n"]])).toEqual([
    ["out", 1],
    ["audit", 2],
    ["out", 3],
  ]);
  expect(() => output.send("", {})).toThrow(InvalidInputError);
  expect(() => output.send("out", [] as never)).toThrow(/must be an object/);
});

test("which errors are retryable", () => {
  const retried = nodeErrorCodes.filter((code) => new NodeError(code, "x").retryable);
  expect(retried).toEqual(["TIMEOUT", "RATE_LIMITED", "TEMPORARY", "NETWORK_ERROR"]);
  expect(() => new NodeError("OOPS" as never, "x")).toThrow(/code: must be one of VALIDATION/);
  const again = decodeError(encodeError(new NodeError("RATE_LIMITED", "slow", new TypeError("why"))));
  expect(NodeError.is(again) && [again.code, again.message, (again.cause as Error).name]).toEqual(["RATE_LIMITED", "slow", "TypeError"]);
});

test("an input for a test has a packet at one port, or at each of several", () => {
  const input = mockNodeInput({ order: { id: 1 }, payment: { id: 2 } }, { idempotencyKey: "k" });
  expect([input.ports, input.packet("payment").get("id"), input.context.idempotencyKey]).toEqual([["order", "payment"], 2, "k"]);
  expect(mockNodeInput("in", { id: 1 }, { context: { attempt: 2 } }).context.attempt).toBe(2);
  expect(() => mockNodeInput({ order: 1 } as never)).toThrow(/must be an object/);
  expect(() => mockNodeInput("in", {}, { key: "k" } as never)).toThrow(/is not an option/);
});

test("a function is a node; a wrong return value is rejected", async () => {
  const input = new NodeInput({ in: { n: 2 } }, context);
  const double: FlowNode = (given) => new NodeOutput().send("out", { n: given.packet("in").getNumber("n") * 2 });
  expect((await handle(double, input)).sent).toEqual([{ port: "out", data: { n: 4 } }]);
  expect((await handle(async () => {}, input)).sent).toEqual([]);
  const wrong = "a node must return a NodeOutput or nothing, not something of type object";
  expect(() => handle((() => ({ n: 1 })) as never, input)).toThrow(wrong);
  await expect(handle((async () => ({ n: 1 })) as never, input)).rejects.toThrow(wrong);
});

function caught(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}
