import { expect, test } from "vitest";
import { isoDurationMs } from "../normalise/iso-duration.js";
import { defaultRetry } from "../normalise/policy.js";
import type { FlowPlan } from "../plan/plan.js";
import { loadFlows } from "./load-flows.js";

/** One flow in both dialects. */
const formA = `flowdsl: "1.0.0"
info: { title: Lead Scoring, version: "1.0.0" }
flows:
  lead_scoring:
    nodes:
      Take: { operationId: take_lead, kind: source, outputs: [{ name: out, message: { $ref: "#/components/packets/Lead" } }] }
      Score: { operationId: score_lead, kind: llm, execution: { timeoutMs: 30000, maxRetries: 2 },
        inputs: [{ name: in, message: { $ref: "#/components/packets/Lead" } }],
        outputs: [{ name: hot, message: { $ref: "#/components/packets/Lead" } }, { name: cold, message: { $ref: "#/components/packets/Lead" } }] }
      Call: { operationId: call_lead, kind: action, inputs: [{ name: in, message: { $ref: "#/components/packets/Lead" } }] }
      Publish: { operationId: publish_lead, kind: publish }
    edges:
      - { from: Take, to: Score, packet: "#/components/packets/Lead", delivery: { mode: ephemeral, backend: memory, batching: { enabled: true, batchSize: 10 } } }
      - { from: Score.hot, to: Call, when: "payload.score >= 80", delivery: { mode: durable, store: sqlite, priority: 7, timeoutMs: 60000,
          retryPolicy: { maxAttempts: 4, backoff: linear, initialDelayMs: 2000, maxDelayMs: 30000, jitter: true, retryOn: [TIMEOUT] } } }
      - { from: Score.cold, to: Publish, delivery: { mode: stream, stream: { bus: kafka, topic: leads, partitionKey: "payload.id", consumerGroup: crm } } }
components:
  packets:
    Lead: &lead { type: object, required: [id, score], properties: { id: { type: string }, score: { type: number } } }
`;

const formB = `flowdsl: "1.0"
info: { title: Lead Scoring, version: "1.0.0" }
nodes:
  Take: { operationId: take_lead, kind: source, outputs: { out: { packet: Lead } } }
  Score: { operationId: score_lead, kind: llm, execution: { timeout: PT30S, maxRetries: 2 }, inputs: { in: { packet: Lead } },
    outputs: { hot: { packet: Lead }, cold: { packet: Lead } } }
  Call: { operationId: call_lead, kind: action, inputs: { in: { packet: Lead } } }
  Publish: { operationId: publish_lead, kind: publish }
edges:
  - { from: Take, to: Score, delivery: { mode: ephemeral, packet: Lead, batchSize: 10 } }
  - { from: Score.hot, to: Call, when: "payload.score >= 80", delivery: { mode: durable, store: sqlite, priority: 7, timeout: PT1M,
      retryPolicy: { maxAttempts: 4, backoff: linear, initialDelay: PT2S, maxDelay: PT30S, jitter: true, retryOn: [TIMEOUT] } } }
  - { from: Score.cold, to: Publish, delivery: { mode: stream, topic: leads, partitionKey: "payload.id", consumerGroup: crm } }
components:
  packets:
    Lead: { type: object, required: [id, score], properties: { id: { type: string }, score: { type: number } } }
`;

/** A plan without positions and functions, for comparison. */
const shapeOf = (plan: FlowPlan | undefined): unknown =>
  JSON.parse(
    JSON.stringify(plan && { ...plan, nodes: [...plan.nodes] }, (name, value: unknown) =>
      ["place", "ref", "definitions", "asked"].includes(name) ? undefined : value,
    ),
  );

test("retention of an edge's key in both dialects; names of the specification's guides in retryOn", async () => {
  const keyOf = async (delivery: string) => (await loadFlows({ text: flowWith(delivery) })).flows[0]?.edges[0]?.delivery;
  const key = 'mode: durable, store: sqlite, idempotencyKey: "{{payload.id}}-charge"';
  expect((await keyOf(`{ ${key}, idempotencyTtl: P60D }`))?.key?.retentionMs).toBe(60 * 86_400_000);
  expect((await keyOf(`{ ${key}, idempotencyTtlMs: 1000 }`))?.key?.retentionMs).toBe(1000);
  // From the node's idempotency, if the edge has none.
  expect((await keyOf(`{ ${key} }`))?.key?.retentionMs).toBe(60_000);
  const { retry } = (await keyOf("{ mode: durable, store: sqlite, retryPolicy: { retryOn: [TEMPORARY_FAILURE, TIMEOUT, ERROR] } }")) ?? {};
  expect(retry?.retryOn).toEqual(["TEMPORARY", "TIMEOUT", "ERROR"]);
});

test("one flow in both dialects is one plan", async () => {
  const [a, b] = [await loadFlows({ text: formA }), await loadFlows({ text: formB })];
  expect([a.findings, b.findings].map((findings) => findings.map(({ code }) => code))).toEqual(
    Array.from({ length: 2 }, () => ["FLOW_FIELD_NOT_USED", "FLOW_NO_KEY", "FLOW_UNSUPPORTED"]),
  );
  expect(shapeOf(a.flows[0])).toEqual(shapeOf(b.flows[0]));
});

test("a plan has every policy resolved", async () => {
  const [plan] = (await loadFlows({ text: formB })).flows;
  expect(plan).toMatchObject({ id: "lead_scoring", order: ["Take", "Score", "Call", "Publish"], entries: [{ node: "Take", port: "in" }] });
  expect(plan?.edges.map(({ id }) => id)).toEqual(["Take.out->Score.in", "Score.hot->Call.in", "Score.cold->Publish.in"]);
  const [first, second, third] = plan?.edges.map(({ delivery }) => delivery) ?? [];
  expect(first).toMatchObject({
    mode: "ephemeral",
    queue: { backend: "memory", name: "lead_scoring.Score" },
    batch: { size: 10, waitMs: 0 },
    retry: { ...defaultRetry, maxAttempts: 3 },
    timeoutMs: 30_000,
    priority: 5,
    deadLetters: "lead_scoring.dead_letters",
  });
  expect(second).toMatchObject({
    retry: { maxAttempts: 4, backoff: "linear", initialDelayMs: 2000, maxDelayMs: 30_000, jitter: true, retryOn: ["TIMEOUT"] },
    timeoutMs: 60_000,
    priority: 7,
  });
  expect(third).toMatchObject({ stream: { bus: "kafka", topic: "leads", consumerGroup: "crm" }, deadLetters: "leads.dead-letter" });
  expect(third?.partitionKey?.make({ payload: { id: "l-1" }, operationId: "o", flowId: "f" })).toEqual({ ok: true, value: "l-1" });
  expect(plan?.nodes.get("Score")?.incoming).toEqual([plan?.edges[0]]);
});

const flowWith = (edge: string, rest = "") => `flowdsl: "1.0.0"
info: { title: T, version: "1" }
flows:
  f:
    defaults: { retryPolicy: { $ref: "#/components/policies/slow" }, execution: { timeoutMs: 5000, concurrency: 3 } }
    nodes:
      a: { operationId: a, kind: source }
      b: { $ref: "#/components/nodes/B", summary: ours }
    edges:
      - { from: a, to: b, delivery: ${edge} }
components:
  nodes: { B: { operationId: b, kind: action, summary: theirs, execution: { timeoutMs: 9000 }, idempotency: { keyExpression: "input.id + ':b'", ttlSeconds: 60, store: redis } } }
  policies: { slow: { maxAttempts: 7, initialDelayMs: 90000 }, quick: { mode: durable, store: mongo, retryPolicy: { maxAttempts: 2, deadLetterQueue: false } } }
${rest}`;

test("fields beside a reference override its target; defaults apply to missing fields", async () => {
  const [quick] = (await loadFlows({ text: flowWith('{ $ref: "#/components/policies/quick", store: sqlite }') })).flows;
  expect(quick?.edges[0]?.delivery).toMatchObject({ mode: "durable", store: "sqlite", retry: { maxAttempts: 2 } });
  expect(quick?.edges[0]?.delivery.deadLetters).toBeUndefined();
  const [plain] = (await loadFlows({ text: flowWith("{ mode: durable, store: mongo }") })).flows;
  expect(plain?.edges[0]?.delivery).toMatchObject({
    retry: { maxAttempts: 7, backoff: "exponential", initialDelayMs: 90_000, maxDelayMs: 90_000 },
    timeoutMs: 9000,
    key: { from: "node", retentionMs: 60_000, store: "redis", text: "input.id + ':b'" },
  });
  expect(plain?.nodes.get("b")).toMatchObject({ summary: "ours", execution: { timeoutMs: 9000, concurrency: 3 } });
});

test("a finding in a component points to the component", async () => {
  const text = flowWith("{ mode: direct }").replace("theirs", "theirs, colour: red");
  const { findings } = await loadFlows({ text });
  expect(findings.find(({ code }) => code === "FLOW_UNKNOWN_FIELD")).toMatchObject({ pointer: "/components/nodes/B/colour", line: 12 });
});

test("so does a wrong value in a component, with other fields beside the reference", async () => {
  const { findings } = await loadFlows({ text: flowWith("{ mode: direct }").replace("timeoutMs: 9000", "timeoutMs: soon") });
  expect(findings.find(({ code }) => code === "FLOW_BAD_TYPE")).toMatchObject({
    pointer: "/components/nodes/B/execution/timeoutMs",
    line: 12,
  });
});

test("adjusts the default of a missing delay to the given one", async () => {
  const delays = async (policy: string) => {
    const text = `flowdsl: "1.0"\ninfo: { title: T, version: "1" }\nnodes: { A: { operationId: a, kind: source }, B: { operationId: b, kind: terminal } }
edges: [{ from: A, to: B, delivery: { mode: durable, retryPolicy: ${policy} } }]\n`;
    const { flows } = await loadFlows({ text });
    const { initialDelayMs, maxDelayMs } = flows[0]?.edges[0]?.delivery.retry ?? {};
    return [initialDelayMs, maxDelayMs];
  };
  expect(await delays("{ maxDelay: PT0.5S }")).toEqual([500, 500]);
  expect(await delays("{ initialDelay: PT2M }")).toEqual([120_000, 120_000]);
  expect(await delays("{ maxAttempts: 2 }")).toEqual([1000, 60_000]);
  expect(await delays("{ initialDelay: PT2S, maxDelay: PT1S }")).toEqual([undefined, undefined]);
});

test("the edge's own timeout comes before the node's", async () => {
  const [plan] = (await loadFlows({ text: flowWith("{ mode: durable, store: mongo, timeoutMs: 1234 }") })).flows;
  expect(plan?.edges[0]?.delivery.timeoutMs).toBe(1234);
});

test("the order contains every node once, after its predecessors", async () => {
  const edge = (from: string, to: string) => `  - { from: ${from}, to: ${to}, delivery: { mode: direct } }`;
  const text = `flowdsl: "1.0"
info: { title: Diamond, version: "1" }
nodes: { D: { operationId: d, kind: transform }, C: { operationId: c, kind: transform }, B: { operationId: b, kind: transform }, A: { operationId: a, kind: source } }
edges:
${[edge("A", "B"), edge("A", "D"), edge("B", "C"), edge("A", "C"), edge("C", "D")].join("\n")}
`;
  expect((await loadFlows({ text })).flows[0]?.order).toEqual(["A", "B", "C", "D"]);
});

test("published oddities load with warnings: entry points by node, no ports, the same edge twice, messages as entries", async () => {
  const text = `flowdsl: "1.0.0"
info: { title: Guarded, version: "1.0.0" }
flows:
  guarded:
    entrypoints: [input]
    nodes: { input: { operationId: shop/input, kind: source }, guard: { operationId: guard-in, kind: router }, chat: { operationId: chat, kind: action } }
    edges:
      - { from: input, to: guard, packet: "#/components/packets/Chat", when: 'input.meta.intent == "chat"', delivery: { mode: direct } }
      - { from: guard, to: chat, packet: "#/components/packets/Chat", when: 'output.route == "Allow"', delivery: { mode: direct } }
      - { from: guard, to: chat, packet: "#/components/packets/Chat", when: 'output.route == "Flag"', delivery: { mode: direct } }
  second:
    entrypoints: [{ message: { $ref: "#/components/events/Said" } }]
    nodes:
      join: { operationId: join, kind: transform, inputs: [{ name: Said, message: { $ref: "#/components/events/Said" } }, { name: Chat, message: { $ref: "#/components/packets/Chat" } }] }
      other: { operationId: other, kind: transform, inputs: [{ name: c, message: { $ref: "#/components/packets/Chat" } }], outputs: [{ name: Chat, message: { $ref: "#/components/packets/Chat" } }] }
    edges:
      - { from: other, to: join, delivery: { mode: direct } }
components:
  packets: { Chat: { type: object, properties: { meta: { type: object } } } }
  events: { Said: { name: Said, payload: { schema: { type: object, required: [text] } } } }
`;
  const { ok, flows, findings } = await loadFlows({ text });
  expect(ok).toBe(true);
  expect(new Set(findings.map(({ code }) => code))).toEqual(new Set(["FLOW_OPERATION_ID", "FLOW_UNDECLARED_FIELD", "FLOW_UNREACHABLE"]));
  expect(flows[0]?.edges.map(({ id }) => id)).toEqual(["input->guard.in", "guard->chat.in", "guard->chat.in#2"]);
  expect(flows[1]).toMatchObject({ entries: [{ node: "join", port: "Said" }], edges: [{ to: { node: "join", port: "Chat" } }] });
  expect(flows[1]?.entries[0]?.packet?.check({})).toMatchObject([{ pointer: "" }]);
});

test.each([
  ["PT2S", 2000],
  ["PT0.5S", 500],
  ["PT5M", 300_000],
  ["PT1H30M", 5_400_000],
  ["P1D", 86_400_000],
  ["P2W", 1_209_600_000],
  ["P1DT1S", 86_401_000],
  ["PT0S", 0],
  ["P", undefined],
  ["PT", undefined],
  ["P1DT", undefined],
  ["P1Y", undefined],
  ["P1M", undefined],
  ["2s", undefined],
  ["PT-1S", undefined],
  ["PT99999999999999999999S", undefined],
  ["", undefined],
])("duration %s is %s", (text, ms) => {
  expect(isoDurationMs(text)).toBe(ms);
});
