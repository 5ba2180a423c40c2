import { expect, test } from "vitest";
import { loadFlows } from "../load/load-flows.js";
import { type FindingCode, findingCodes } from "./finding-codes.js";

/** Form B, without findings. Each case below changes one thing in it. */
const formB = `flowdsl: "1.0"
info: { title: Small Shop, version: "1" }
nodes:
  Take: { operationId: take, kind: source, outputs: { out: { packet: Order } } }
  Charge: { operationId: charge, kind: action, inputs: { in: { packet: Order } } }
edges:
  - from: Take
    to: Charge
    delivery: { mode: durable, packet: Order, idempotencyKey: "{{payload.id}}-charge" }
components:
  packets:
    Order: { type: object, required: [id], properties: { id: { type: string }, total: { type: number } } }
`;

const formA = `flowdsl: "1.0.0"
info: { title: Small Shop, version: "1" }
flows:
  shop:
    entrypoints: [take]
    nodes:
      take: { operationId: take, kind: source, outputs: [{ name: out, message: { $ref: "#/components/packets/Order" } }] }
      charge: { operationId: charge, kind: action }
    edges:
      - from: take
        to: charge
        delivery: { mode: direct }
components:
  packets:
    Order: { type: object }
`;

test.each([formA, formB])("the unchanged documents have no findings", async (text) => {
  expect(await loadFlows({ text })).toMatchObject({ ok: true, findings: [] });
});

/** « marks the expected position of the finding. */
type Case = readonly [FindingCode, string, string, string, string?];

const inB: readonly Case[] = [
  ["FLOW_SYNTAX", "edges:", "edges: «]", ""],
  ["FLOW_SYNTAX", "components:", "«---\ncomponents:", ""],
  ["FLOW_SYNTAX", formB, "«", ""],
  ["FLOW_DUPLICATE_KEY", "    to: Charge", "    to: Charge\n    «to: Charge", "/edges/0"],
  ["FLOW_FORBIDDEN_KEY", "    to: Charge", "    to: Charge\n    «__proto__: { polluted: true }", "/edges/0"],
  [
    "FLOW_BAD_NUMBER",
    "total: { type: number }",
    "total: { type: number, minimum: «1e999 }",
    "/components/packets/Order/properties/total/minimum",
  ],
  ["FLOW_BAD_NUMBER", "kind: action", "kind: action, settings: { account: «12345678901234567890 }", "/nodes/Charge/settings/account"],
  ["FLOW_BAD_TYPE", "operationId: charge", "operationId: «12", "/nodes/Charge/operationId"],
  ["FLOW_BAD_TYPE", "  - from: Take\n    to: Charge", "  - «12\n  - from: Take\n    to: Charge", "/edges/0"],
  ["FLOW_BAD_REF", "  - from: Take\n    to: Charge", "  - «just a text\n  - from: Take\n    to: Charge", "/edges/0"],
  [
    "FLOW_IGNORED_KEYWORD",
    "total: { type: number }",
    "total: { type: array, prefixItems: «[{ type: string }] }",
    "/components/packets/Order/properties/total/prefixItems",
  ],
  ["FLOW_BAD_TYPE", "    to: Charge", "    to: Charge\n    ? «[a, b]\n    : c", "/edges/0"],
  ["FLOW_BAD_VALUE", "kind: action", "kind: «acton", "/nodes/Charge/kind", 'did you mean "action"?'],
  ["FLOW_BAD_VALUE", "mode: durable", "mode: durable, priority: «11", "/edges/0/delivery/priority"],
  ["FLOW_BAD_VALUE", "mode: durable", "mode: durable, timeout: «P1Y", "/edges/0/delivery/timeout"],
  [
    "FLOW_BAD_VALUE",
    "mode: durable",
    "mode: durable, retryPolicy: «{ initialDelay: PT1H, maxDelay: PT1S }",
    "/edges/0/delivery/retryPolicy",
  ],
  ["FLOW_MISSING_FIELD", "operationId: charge, ", "«", "/nodes/Charge", "add `operationId:`"],
  ["FLOW_MISSING_FIELD", "  - from: Take\n    to: Charge", "  - «from: Take", "/edges/0", "add `to:`"],
  ["FLOW_MISSING_FIELD", 'flowdsl: "1.0"\n', "«", "", "add `flowdsl:`"],
  ["FLOW_BAD_REF", "{ mode: durable,", '{ $ref: «"#/components/policies/Nothing", mode: durable,', "/edges/0/delivery/$ref"],
  [
    "FLOW_BAD_REF",
    "packet: Order } } }\n  Charge",
    'packet: «"asyncapi#/components/messages/Order" } } }\n  Charge',
    "/nodes/Take/outputs/out/packet",
  ],
  ["FLOW_BAD_REF", "kind: action", "kind: action, settings: &all { again: «*all }", "/nodes/Charge/settings/again"],
  ["FLOW_UNKNOWN_NODE", "to: Charge", "to: «Chrage", "/edges/0/to", 'did you mean "Charge"?'],
  ["FLOW_UNKNOWN_PORT", "to: Charge", "to: «Charge.inn", "/edges/0/to", 'did you mean "in"?'],
  [
    "FLOW_UNKNOWN_PACKET",
    "mode: durable, packet: Order",
    "mode: durable, packet: «Ordr",
    "/edges/0/delivery/packet",
    'did you mean "Order"?',
  ],
  ["FLOW_DUPLICATE_ID", "operationId: charge", "operationId: «take", "/nodes/Charge/operationId"],
  ["FLOW_DUPLICATE_ID", "inputs: { in: { packet: Order } }", "inputs: [{ name: a }, «{ name: a }]", "/nodes/Charge/inputs/1"],
  [
    "FLOW_CYCLE",
    "components:",
    "  - «from: Charge\n    to: Take\n    delivery: { mode: direct }\ncomponents:",
    "/edges/1",
    "remove one of its edges, or move the repeated part into a flow of its own and run it from a node of kind subworkflow",
  ],
  ["FLOW_NO_TOPIC", "{ mode: durable,", "«{ mode: stream,", "/edges/0/delivery"],
  ["FLOW_BAD_SCHEMA", "type: number", "type: «nummer", "/components/packets/Order/properties/total/type"],
  ["FLOW_BAD_SCHEMA", "total: { type: number }", "total: { pattern: «'(' }", "/components/packets/Order/properties/total/pattern"],
  ["FLOW_BAD_SCHEMA", "Order: { type: object,", 'Order: «{ allOf: [{ $ref: "#/components/packets/Order" }],', "/components/packets/Order"],
  ["FLOW_BAD_EXPRESSION", "    delivery:", "    when: «payload.items.sort() > 1\n    delivery:", "/edges/0/when"],
  ["FLOW_BAD_EXPRESSION", "    delivery:", "    when: «payload.total >\n    delivery:", "/edges/0/when"],
  ["FLOW_BAD_TEMPLATE", '"{{payload.id}}-charge"', '«"{{payload.id-charge"', "/edges/0/delivery/idempotencyKey"],
  ["FLOW_BAD_TEMPLATE", '"{{payload.id}}-charge"', '«"{{packet.id}}-charge"', "/edges/0/delivery/idempotencyKey"],
  ["FLOW_EXPRESSION_TYPE", "    delivery:", "    when: «payload.total == 'much'\n    delivery:", "/edges/0/when"],
  ["FLOW_EXPRESSION_TYPE", "    delivery:", "    when: «payload.total + 1\n    delivery:", "/edges/0/when"],
  [
    "FLOW_UNKNOWN_FIELD",
    "mode: durable",
    "mode: durable, «retrypolicy: {}",
    "/edges/0/delivery/retrypolicy",
    'did you mean "retryPolicy"?',
  ],
  ["FLOW_UNKNOWN_TAG", "kind: action", "kind: action, settings: { a: «!secret b }", ""],
  ["FLOW_MIXED_DIALECTS", "components:", "flows: {}\ncomponents:", "/nodes"],
  ["FLOW_MIXED_DIALECTS", "inputs: { in: { packet: Order } }", "inputs: «[{ name: in, packet: Order }]", "/nodes/Charge/inputs"],
  ["FLOW_VERSION", 'flowdsl: "1.0"', "flowdsl: «1.0", "/flowdsl", 'put it in quotes: "1.0"'],
  ["FLOW_OPERATION_ID", "operationId: charge", "operationId: «chargePayment", "/nodes/Charge/operationId", 'try "charge_payment"'],
  ["FLOW_NO_KIND", "{ operationId: charge, kind: action,", "«{ operationId: charge,", "/nodes/Charge"],
  ["FLOW_WEAK_STORE", "mode: durable", "mode: durable, store: «redis", "/edges/0/delivery/store"],
  ["FLOW_FIELD_NOT_USED", "mode: durable", "mode: durable, topic: «orders", "/edges/0/delivery/topic"],
  ["FLOW_UNSUPPORTED", "    delivery:", "    protocol: «nats\n    delivery:", "/edges/0/protocol"],
  [
    "FLOW_PROTOCOL",
    "kind: action, inputs: { in: { packet: Order } } }\nedges:\n  - from: Take\n    to: Charge\n",
    "kind: action, runtime: { supports: [http] } }\nedges:\n  - from: Take\n    to: Charge\n    protocol: «grpc\n",
    "/edges/0/protocol",
    "choose one of these, or add it to `supports`",
  ],
  ["FLOW_FIELD_NOT_USED", ', idempotencyKey: "{{payload.id}}-charge" }', ", idempotencyTtl: «P7D }", "/edges/0/delivery/idempotencyTtl"],
  [
    "FLOW_BAD_VALUE",
    "mode: durable",
    "mode: durable, retryPolicy: { retryOn: [«TIMEOUTS] }",
    "/edges/0/delivery/retryPolicy/retryOn/0",
    'did you mean "TIMEOUT"?',
  ],
  [
    "FLOW_NEVER_RETRIED",
    "mode: durable",
    "mode: durable, retryPolicy: { retryOn: [TIMEOUT, «VALIDATION] }",
    "/edges/0/delivery/retryPolicy/retryOn/1",
  ],
  ["FLOW_BAD_EXPRESSION", "    delivery:", "    when: «has(payload)\n    delivery:", "/edges/0/when"],
  [
    "FLOW_UNDECLARED_FIELD",
    "kind: action",
    "kind: action, x-alerts: { onDeadLetter: { webhook: 'https://example.org', message: «'{{order.id}} failed' } }",
    "/nodes/Charge/x-alerts/onDeadLetter/message",
  ],
  ["FLOW_GENERIC_KEY", '"{{payload.id}}-charge"', '«"{{payload.id}}"', "/edges/0/delivery/idempotencyKey"],
  ["FLOW_NO_KEY", ', idempotencyKey: "{{payload.id}}-charge" }', " }«", "/edges/0/delivery"],
  ["FLOW_AMBIGUOUS_PORT", "outputs: { out: { packet: Order } }", "outputs: { out: {}, other: {} }«", "/edges/0/from"],
  [
    "FLOW_PACKET_MISMATCH",
    "mode: durable, packet: Order",
    "mode: durable, packet: { schema: «{ required: [id], properties: { id: {} } } }",
    "/edges/0/delivery/packet/schema",
  ],
  ["FLOW_UNDECLARED_FIELD", '"{{payload.id}}-charge"', '«"{{payload.total}}-charge"', "/edges/0/delivery/idempotencyKey"],
  ["FLOW_UNDECLARED_FIELD", "    delivery:", "    when: «payload.colour == 'red'\n    delivery:", "/edges/0/when"],
  ["FLOW_UNUSED", "    Order: {", "    Other: «{}\n    Order: {", "/components/packets/Other"],
  ["FLOW_KIND_EDGES", "kind: source", "kind: terminal", "/edges/0"],
  [
    "FLOW_UNSUPPORTED_PATTERN",
    "total: { type: number }",
    "total: { pattern: «'^(?!a)b' }",
    "/components/packets/Order/properties/total/pattern",
  ],
  [
    "FLOW_REMOTE_NOT_LOADED",
    "components:",
    'asyncapi: «https://example.org/a.json\ncomponents:\n  events: { Placed: { payload: { $ref: "asyncapi#/components/messages/Order" } } }',
    "/asyncapi",
  ],
  [
    "FLOW_UNREADABLE",
    "components:",
    'asyncapi: «./not-there.yaml\ncomponents:\n  events: { Placed: { payload: { $ref: "asyncapi#/components/messages/Order" } } }',
    "/asyncapi",
  ],
];

const inA: readonly Case[] = [
  ["FLOW_UNKNOWN_NODE", "entrypoints: [take]", "entrypoints: [«tke]", "/flows/shop/entrypoints/0"],
  ["FLOW_UNREACHABLE", "      charge: {", "      lost: «{ operationId: lose, kind: action }\n      charge: {", "/flows/shop/nodes/lost"],
  ["FLOW_NO_STORE", "{ mode: direct }", "«{ mode: durable }", "/flows/shop/edges/0/delivery"],
  ["FLOW_NO_BACKEND", "{ mode: direct }", "«{ mode: ephemeral }", "/flows/shop/edges/0/delivery"],
  ["FLOW_NO_TOPIC", "{ mode: direct }", "{ mode: stream, stream: «{ topic: orders } }", "/flows/shop/edges/0/delivery/stream"],
  ["FLOW_EMPTY", "  shop:\n", "  nothing: «{}\n  shop:\n", "/flows/nothing"],
  ["FLOW_DUPLICATE_ID", "flows:\n  shop:", "nodes: {}\nflows:\n  small_shop: {}\n  shop:", ""],
  [
    "FLOW_MIXED_DIALECTS",
    "{ mode: direct }",
    '{ mode: durable, store: mongo, idempotencyKey: «"{{payload.id}}-charge" }',
    "/flows/shop/edges/0/delivery/idempotencyKey",
  ],
  [
    "FLOW_GENERIC_KEY",
    "kind: action }",
    "kind: action, idempotency: { keyExpression: «input.payload.id } }",
    "/flows/shop/nodes/charge/idempotency/keyExpression",
  ],
  [
    "FLOW_BAD_REF",
    "charge: { operationId: charge, kind: action }",
    'charge: { $ref: «"#/components/nodes/Charge" }',
    "/flows/shop/nodes/charge/$ref",
  ],
  [
    "FLOW_BAD_EXPRESSION",
    "entrypoints: [take]",
    "entrypoints: [{ message: Order, filter: «process.exit() }]",
    "/flows/shop/entrypoints/0/filter",
  ],
];

const described = (form: string, base: string, [code, old, changed, pointer, fix]: Case) => ({
  form,
  base,
  code,
  old,
  changed,
  pointer,
  fix,
});
const cases = [...inB.map((one) => described("B", formB, one)), ...inA.map((one) => described("A", formA, one))];

test.each(cases)("form $form: $code at $pointer", async ({ base, code, old, changed, pointer, fix }) => {
  expect(base).toContain(old);
  const marked = base.replace(old, () => changed);
  const text = marked.replace("«", "");
  const { ok, findings } = await loadFlows({ text });
  const found = findings.filter((finding) => finding.code === code);
  expect(found, `${code} in ${JSON.stringify(findings, undefined, 1)}`).not.toEqual([]);
  expect(found.map((finding) => finding.pointer)).toContain(pointer);
  if (fix !== undefined) expect(found.map((finding) => finding.fix)).toContain(fix);
  expect(ok).toBe(!findings.some(({ severity }) => severity === "error"));
  const before = marked.split("«")[0] ?? "";
  // A mark at the end of the change means that the finding is elsewhere.
  if (!marked.includes("«") || changed.endsWith("«")) return;
  const lines = before.split("\n");
  expect(found.map(({ line, column }) => `${line}:${column}`)).toContain(`${lines.length}:${(lines.at(-1) ?? "").length + 1}`);
});

/** Codes that need another kind of document, with the file that tests them. */
const elsewhere: Readonly<Record<string, string>> = {
  FLOW_TOO_LARGE: "load.test.ts",
  FLOW_MORE_ERRORS: "load.test.ts",
  FLOW_MORE_WARNINGS: "load.test.ts",
  FLOW_NOT_FORMATTED: "format.test.ts",
  FLOW_UNKNOWN_SERVER: "load-registry.test.ts",
};

test("every code has a case", () => {
  const tested = new Set<string>([...cases.map(({ code }) => code), ...Object.keys(elsewhere)]);
  expect(Object.keys(findingCodes).filter((code) => !tested.has(code))).toEqual([]);
});
