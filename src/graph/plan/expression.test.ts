import { describe, expect, test } from "vitest";
import { loadFlows } from "../load/load-flows.js";
import type { PlannedEdge } from "./plan.js";

interface Parts {
  readonly when?: string;
  readonly key?: string;
  readonly packet?: string;
}

async function edgeWith({ when, key, packet = "{}" }: Parts): Promise<{
  edge: PlannedEdge | undefined;
  codes: readonly string[];
  said: readonly string[];
}> {
  const text = `flowdsl: "1.0"
info: { title: T, version: "1" }
nodes:
  A: { operationId: a, kind: source }
  B: { operationId: send_sms, kind: transform }
edges:
  - from: A
    to: B
${when === undefined ? "" : `    when: ${JSON.stringify(when)}\n`}    delivery:
      mode: durable
      packet: P
${key === undefined ? "" : `      idempotencyKey: ${JSON.stringify(key)}\n`}components:
  packets:
    P: ${packet}
`;
  const { flows, findings } = await loadFlows({ text });
  return {
    edge: flows[0]?.edges[0],
    codes: findings.map(({ code }) => code),
    said: findings.map(({ message, fix }) => `${message}; ${fix}`),
  };
}

describe("conditions", () => {
  test.each<[string, unknown, boolean]>([
    ["payload.score >= 80", { score: 80 }, true],
    ["payload.score >= 80", { score: 79.5 }, false],
    ["payload.score == 80", { score: 80 }, true],
    ["80 != payload.score", { score: 80 }, false],
    ["payload.score + 1 > 80", { score: 80 }, true],
    ["payload.score < -1", { score: -2 }, true],
    ["output.name == 'Passed'", {}, true],
    ["output.payload.name == 'n' && output.name == 'Passed'", { name: "n" }, true],
    ["output.category == 'support' || output.category == 'sales'", { category: "sales" }, true],
    ["input.payload.a == message.payload.a && input.a == message.a", { a: "x" }, true],
    ["!payload.done", { done: false }, true],
    ['payload["a-b"] == null', { "a-b": null }, true],
    ["payload.list[1] == 'b'", { list: ["a", "b"] }, true],
    ["payload.missing == 1 || true", {}, true],
    ["(payload.a == 1 || payload.b == 2) && payload.c == 3.5", { a: 0, b: 2, c: 3.5 }, true],
    ["payload.name + '!' == 'Ann!'", { name: "Ann" }, true],
    // A missing field makes the condition false.
    ["payload.vip == true", {}, false],
    ["payload.vip != true", {}, false],
    ["!payload.vip", {}, false],
    ["payload.order.total > 5", {}, false],
    ["payload.order.total > 5", { order: null }, false],
    ["payload.list[3] == 1", { list: [1] }, false],
    ["payload.a.b == 1", { a: "text" }, false],
    ["payload.a", null, false],
    ["payload.__proto__ == null", {}, false],
    ["payload.toString == null", {}, false],
    ["payload.length > 0", "a text", false],
    ["payload.a == 1 && payload.b == 2", { a: 1 }, false],
    ["has(payload.vip)", { vip: false }, true],
    ["has(payload.vip)", {}, false],
    ["!has(payload.vip) || payload.vip == false", {}, true],
    ["has(payload.order.note)", {}, false],
    ["!has(payload.order.note)", {}, true],
    ["!has(payload.order.note) && !has(output.order)", { order: null }, false],
    ["has(payload.order.note) && payload.order.note == 'x'", { order: { note: "x" } }, true],
  ])("%s of %j is %s", async (when, payload, value) => {
    const { edge } = await edgeWith({ when });
    expect(edge?.when?.evaluate({ payload, output: "Passed" })).toEqual({ ok: true, value });
  });

  test.each<[string, unknown]>([
    ["payload.score > 1", { score: "high" }],
    ["payload.score", { score: 5 }],
    ["payload.f == 1", { f: () => 1 }],
  ])("%s of %s has no value, and returns the reason", async (when, payload) => {
    const { edge } = await edgeWith({ when });
    expect(edge?.when?.evaluate({ payload })).toEqual({ ok: false, why: expect.stringMatching(/\w/) as string });
  });

  test("the reason contains no value of the packet", async () => {
    const { edge } = await edgeWith({ when: "payload.card > 1" });
    expect(JSON.stringify(edge?.when?.evaluate({ payload: { card: "4111-secret" } }))).not.toContain("secret");
  });

  test.each([
    "payload.a.map(x, x) == []",
    "has(payload)",
    "has('a')",
    "has(payload.a, payload.b)",
    "has(payload['a'])",
    "payload.a == [1]",
    "payload.a in [payload.b]",
    "size(payload.a, 1) > 1",
    "payload.a.trim('x') == ''",
    "payload.a.matches(payload.b)",
    "payload.a.matches('(?=x)')",
    "payload.a.matches('(')",
    "payload.a.substring(1) == 'b'",
    "payload.a.exists(payload, payload == 1)",
    "payload.a.exists(x, y == 1)",
    "payload.a.exists(x, x.b.exists(y, y == 1))",
    "payload.a.exists(x)",
    "payload.a.exists_one(x, x == 1)",
    "[1, 2].exists(x, x == payload.a)",
    "payload.a == 9007199254740993",
    "timestamp(payload.a) > timestamp('2020-01-01T00:00:00Z')",
    "cel.bind(x, payload.a, x == 1)",
    "type(payload.a) == string",
    "payload.?a == 1",
    "payload == {'a': 1}",
    "payload[payload.b] == 1",
    "b'a' == payload.a",
    "process.env.HOME == 'x'",
    "globalThis == null",
    "payload.a = 1",
    "payload.a === 1",
    "payload.constructor('x')",
    "`a`",
    "",
    "&&",
    "(".repeat(500),
    "!".repeat(1500),
    `payload.a == ${"1 + ".repeat(300)}1`,
    `payload${".a".repeat(300)} == 1`,
    "a".repeat(3000),
  ])("rejects %s at load", async (when) => {
    const { edge, codes } = await edgeWith({ when });
    expect(edge).toBeUndefined();
    expect(codes).toContain("FLOW_BAD_EXPRESSION");
  });
});

describe("types that the packet's schema declares", () => {
  const packet = `{ type: object, required: [s, n], additionalProperties: false, properties: { s: { type: string }, n: { type: integer },
      b: { type: boolean }, l: { type: array }, names: { type: array, items: { type: string } }, box: { type: object, properties: { length: { type: number } } }, any: {}, sn: { type: [string, "null"] }, o: { type: object, properties: { k: { type: number } } } } }`;
  test.each([
    ["payload.n == 'a'", "FLOW_EXPRESSION_TYPE"],
    ["payload.s > 1", "FLOW_EXPRESSION_TYPE"],
    ["payload.b && payload.s", "FLOW_EXPRESSION_TYPE"],
    ["!payload.n", "FLOW_EXPRESSION_TYPE"],
    ["payload.o.k == 'a'", "FLOW_EXPRESSION_TYPE"],
    ["output.name == 1", "FLOW_EXPRESSION_TYPE"],
    ["input.payload.s == 1", "FLOW_EXPRESSION_TYPE"],
    ["payload.l['a'] == 1", "FLOW_EXPRESSION_TYPE"],
    ["payload.n.startsWith('a')", "FLOW_EXPRESSION_TYPE"],
    ["payload.s.startsWith(1)", "FLOW_EXPRESSION_TYPE"],
    ["payload.n.length > 1", "FLOW_EXPRESSION_TYPE"],
    ["size(payload.b) > 1", "FLOW_EXPRESSION_TYPE"],
    ["payload.s / 2 == 1", "FLOW_EXPRESSION_TYPE"],
    ["payload.s - 1 == 1", "FLOW_EXPRESSION_TYPE"],
    ["payload.s in payload.n", "FLOW_EXPRESSION_TYPE"],
    ["payload.b ? payload.n : payload.s", "FLOW_EXPRESSION_TYPE"],
    ["payload.n.exists(x, x == 1)", "FLOW_EXPRESSION_TYPE"],
    ["payload.names.exists(x, x > 1)", "FLOW_EXPRESSION_TYPE"],
    ["payload.s.length", "FLOW_EXPRESSION_TYPE"],
    ["payload.zz.length > 1", "FLOW_UNDECLARED_FIELD"],
    ["payload.zz == 1", "FLOW_UNDECLARED_FIELD"],
    ["message.o.zz == 1", "FLOW_UNDECLARED_FIELD"],
  ])("%s: %s", async (when, code) => {
    expect((await edgeWith({ when, packet })).codes).toEqual([code]);
  });

  test.each([
    "payload.n == 1 && payload.n > 0.5",
    "payload.any == 1",
    "payload.sn == null",
    "payload.l[0] == 1",
    "output.o.k < 2",
    "payload.s + payload.n == 'a1'",
    "payload.s.length > 1 && payload.l.length == 2 && payload.names.size() == 1 && size(payload.o) == 1",
    "payload.box.length > 1 && output.box.length < 7",
    "payload.s in ['a', 'b'] && payload.s in payload.names && 'k' in payload.o && payload.sn in [null, 'a']",
    "payload.names.exists(x, x.startsWith('a')) && payload.l.all(x, x.price > 1)",
    "payload.b ? payload.n > 1 : payload.s == 'a'",
    "int(payload.s) % 2 == 1 && double(payload.s) / payload.n > 1 && string(payload.n).contains('1')",
    "payload.any.trim().lower() == 'x'",
  ])("accepts %s", async (when) => {
    expect((await edgeWith({ when, packet })).codes).toEqual([]);
  });
});

describe("keys", () => {
  const context = {
    operationId: "send_sms",
    flowId: "t",
    payload: { orderId: "o-1", messageId: "m-1", documentId: "d-1", id: 7, deep: { x: true } },
  };

  // The examples of the practice that this system follows.
  test.each([
    ["{{payload.orderId}}-charge-payment", "o-1-charge-payment"],
    ["{{payload.messageId}}-sms-alert", "m-1-sms-alert"],
    ["{{payload.documentId}}-summarize-v2", "d-1-summarize-v2"],
    ["{{payload.id}}-{{operationId}}", "7-send_sms"],
    ["{{flowId}}:{{ payload.deep.x }}:op", "t:true:op"],
    ["input.payload.orderId + ':charge'", "o-1:charge"],
    ["payload.id + ':charge'", "7:charge"],
    ["'op-' + payload.id", "op-7"],
  ])("good: %s", async (key, made) => {
    const { edge, codes } = await edgeWith({ key });
    expect(codes).toEqual([]);
    expect(edge?.delivery.key?.make(context)).toEqual({ ok: true, value: made });
  });

  test.each([
    "{{payload.orderId}}",
    "{{payload.id}}",
    "{{payload.orderId}}-{{payload.id}}",
    "{{flowId}}-{{payload.id}}",
    "1 + 1",
    "payload.id",
    "payload.orderId + ':' + payload.id",
  ])("too generic: %s", async (key) => {
    const { edge, codes } = await edgeWith({ key });
    expect(codes).toEqual(["FLOW_GENERIC_KEY"]);
    expect(edge?.delivery.key?.make(context)).toMatchObject({ ok: true });
  });

  test.each([
    ["{{payload.missing}}-op", {}],
    ["{{payload.deep.y}}-op", { deep: {} }],
    ["{{payload.deep}}-op", { deep: {} }],
    ["{{payload.x}}-op", { x: null }],
    ["{{payload.x}}-op", { x: "" }],
    ["{{payload.x}}-op", { x: "a\nb" }],
    ["{{payload.x}}-op", { x: "a".repeat(600) }],
    ["{{payload.toString}}-op", {}],
    ["payload.missing + ':op'", {}],
    ["payload.x + ':op'", { x: null }],
    ["payload.x + ':op'", { x: {} }],
  ])('%s of %j makes no key, and never the text "undefined"', async (key, payload) => {
    const { edge } = await edgeWith({ key });
    const made = edge?.delivery.key?.make({ ...context, payload });
    expect(made).toEqual({ ok: false, why: expect.stringMatching(/\w/) as string });
    expect(JSON.stringify(made)).not.toContain("undefined");
  });
});

describe("type errors use the type names of JSON Schema", () => {
  const packet = `{ type: object, required: [id, o, l], properties: { id: { type: string }, n: { type: number }, o: { type: object, properties: { a: { type: string } } }, l: { type: array } } }`;

  test.each([
    ["payload.n == 'a'", "types do not match: number == string"],
    ["payload.o == 'a'", "types do not match: object == string"],
    ["payload.l == 'a'", "types do not match: array == string"],
    ["payload.n + 1", "the value has type number; expected boolean"],
    [" ", "the expression is empty (at character 2)"],
  ])("%s", async (when, message) => {
    const { said } = await edgeWith({ when, packet, key: "{{payload.id}}-sms" });
    expect(said).toEqual([`${message}; example: payload.score >= 80 && output.name == 'Passed'`]);
  });

  test.each([
    [
      "{{payload.o}}-sms",
      '"o" of P has type object; a key can contain only strings, numbers and booleans; use one of its fields, or another field',
    ],
    [
      "{{payload.l}}-sms",
      '"l" of P has type array; a key can contain only strings, numbers and booleans; use one of its fields, or another field',
    ],
    [
      "payload.o",
      "the value has type object; expected string or number or boolean; example: {{payload.orderId}}-charge, or payload.orderId + '-charge'",
    ],
    ["const", "Reserved identifier: const (at character 1); example: {{payload.orderId}}-charge, or payload.orderId + '-charge'"],
  ])("a key %s", async (key, message) => {
    const { edge, said } = await edgeWith({ key, packet });
    expect([edge, said[0]]).toEqual([undefined, message]);
  });

  test.each([Array(90).fill("payload.n == 1").join(" && "), `${"(".repeat(40)}payload.n == 1${")".repeat(40)}`])(
    "too much: %.40s…",
    async (when) => {
      const { said } = await edgeWith({ when, packet, key: "{{payload.id}}-sms" });
      expect(said).toEqual(["the expression has more than 200 parts or is nested deeper than 20 levels; decide it in a node"]);
    },
  );

  test("accepts a nested field", async () => {
    const { codes } = await edgeWith({
      key: "{{payload.o.a}}-sms",
      packet: packet.replace("type: object, properties: { a", "type: object, required: [a], properties: { a"),
    });
    expect(codes).toEqual([]);
  });
});
