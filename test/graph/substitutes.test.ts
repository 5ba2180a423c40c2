import { open } from "onceflow";
import { convertFlow, createRuntime, type FlowSource, loadFlows, NodeOutput, type Substitute } from "onceflow/graph";
import { afterAll, expect, test } from "vitest";
import { substituteNames } from "../../src/graph/plan/substitutes.js";
import { until } from "../kit/until.js";
import { captureWarnings } from "../kit/warnings.js";

const store = await open("memory:");
afterAll(() => store.close());

interface Parts {
  readonly kind?: string;
  readonly top?: string;
  /** Fields of node B. */
  readonly node?: string;
  /** Fields of the edge from A to B. */
  readonly edge?: string;
  readonly delivery?: string;
}

/** In → A → B, with a feature that the runtime does not have. */
const documentWith = ({ kind = "transform", top = "", node = "", edge = "", delivery = "mode: durable" }: Parts) => ({
  file: "flow.yaml",
  text: `flowdsl: "1.0"
info: { title: Flow, version: "1.0.0" }
nodes:
  In: { operationId: take, kind: source }
  A: { operationId: a, kind: transform }
  B: { operationId: b, kind: ${kind}${node && `, ${node}`} }
edges:
  - { from: In, to: A, delivery: { mode: durable } }
  - { from: A, to: B${edge && `, ${edge}`}, delivery: { ${delivery} } }
${top}`,
});

const rows: readonly (readonly [Substitute, Parts])[] = [
  ["stream", { delivery: "mode: stream, topic: t" }],
  ["store", { delivery: "mode: durable, store: redis" }],
  ["store", { node: "idempotency: { keyExpression: 'payload.id + \"-b\"', store: redis }" }],
  ["backend", { delivery: "mode: ephemeral, backend: redis" }],
  ["backend", { delivery: "mode: ephemeral, backend: nats" }],
  ["backend", { delivery: "mode: durable, backend: redis" }],
  ["recovery", { delivery: "mode: ephemeral, recovery: { strategy: replayFromCheckpoint }" }],
  ["recovery", { delivery: "mode: direct, recovery: { strategy: skip }" }],
  ["protocol", { edge: "protocol: nats" }],
  ["runtime", { node: "runtime: { language: nodejs, supports: [zeromq] }" }],
  ["runtime", { node: "runtime: { image: 'registry.example.org/b' }" }],
  ["runtime", { node: "runtime: { redis: { url: 'redis://example.org' } }" }],
  ["subworkflow", { kind: "subworkflow", node: "settings: { flow: f, inputMapping: { a: id } }" }],
  ["execution", { node: "execution: { concurrency: 1 }", delivery: "mode: direct" }],
  ["runtimeBindings", { top: "runtimeBindings: { redis: { url: x } }" }],
  ["runtimeBindings", { edge: "runtimeBindings: { redis: {} }" }],
  ["runtimeBindings", { node: "runtimeBindings: {}" }],
  ["x-runtime", { edge: "x-runtime: { mongodb: { writeConcern: majority } }" }],
  ["x-runtime", { top: "x-runtime: { replicas: 3 }" }],
  ["x-runtime", { top: "x-runtime: { mongodb: { collection: keys } }" }],
  ["x-runtime", { top: "x-runtime: { mongodb: { database: other } }" }],
  ["x-runtime", { top: "x-runtime: { mongo: { idempotencyKeys: keys } }" }],
  ["x-runtime", { edge: "x-runtime: { mongodb: { idempotencyKeys: keys } }" }],
  ["x-runtime", { edge: "x-runtime: { mongodb: { collection: orders.queue } }" }],
  ["x-runtime", { node: "x-runtime: { redis: { keyPrefix: 'a:' } }" }],
  ["x-runtime", { edge: "x-runtime: {}" }],
  ["x-alerts", { node: "x-alerts: { onDeadLetter: { channel: slack } }" }],
  ["x-alerts", { node: "x-alerts: { onDeadLetter: { webhook: 'https://example.org', email: a@example.org } }" }],
  ["x-alerts", { node: "x-alerts: { onRetry: { webhook: 'https://example.org' } }" }],
  ["x-alerts", { edge: "x-alerts: { onDeadLetter: { webhook: 'https://example.org' } }" }],
  ["idempotencyKey", { delivery: "mode: direct, idempotencyKey: '{{payload.id}}-b'" }],
  ["retryPolicy", { delivery: "mode: direct, retryPolicy: { maxAttempts: 3 }" }],
  ["deadLetterQueue", { delivery: "mode: direct, deadLetterQueue: mine" }],
  ["timeout", { delivery: "mode: direct, timeout: PT1S" }],
  ["maxInFlight", { delivery: "mode: direct, maxInFlight: 1" }],
  ["ordering", { delivery: "mode: ephemeral, ordering: strict" }],
  ["partitionKey", { delivery: "mode: durable, partitionKey: '{{payload.id}}'" }],
  ["batching", { delivery: "mode: ephemeral, batchSize: 10" }],
  ["priority", { delivery: "mode: ephemeral, priority: 9" }],
  ["checkpointInterval", { delivery: "mode: durable, checkpointInterval: 10" }],
  ["topic", { delivery: "mode: durable, topic: t" }],
  ["consumerGroup", { delivery: "mode: durable, consumerGroup: g" }],
  ["maxLen", { delivery: "mode: durable, maxLen: 10" }],
];

const pass = { a: () => new NodeOutput().send("out", { id: 1 }), b: () => {} };

async function run(document: FlowSource, substitutes: readonly Substitute[]): Promise<void> {
  const runtime = await createRuntime({ store, documents: [document], nodes: pass, substitutes });
  await runtime.stop();
}

test.each(rows)(
  "%s: a warning names the substitute, and the flow does not run unless the substitute is allowed (%j)",
  async (name, parts) => {
    const document = documentWith(parts);
    const { ok, flows, findings } = await loadFlows(document);
    expect([ok, flows[0]?.unsupported.map(({ substitute }) => substitute)]).toEqual([true, [name]]);
    const reported = findings.filter(({ code }) => code === "FLOW_UNSUPPORTED" || code === "FLOW_FIELD_NOT_USED");
    expect(reported.map(({ severity, fix }) => [severity, fix])).toEqual([["warning", `remove it, or run with substitutes: ["${name}"]`]]);
    expect(findings.map(({ code }) => code)).not.toContain("FLOW_UNKNOWN_FIELD");
    expect(convertFlow(document.text, { to: "json" }).findings.filter(({ severity }) => severity === "error")).toEqual([]);
    await expect(run(document, [])).rejects.toMatchObject({ code: "UNSUPPORTED_FIELDS", message: expect.stringContaining(`["${name}"]`) });
    await run(document, [name]);
  },
);

test("every substitute has a test here", () => {
  expect([...new Set(rows.map(([name]) => name))].toSorted()).toEqual([...substituteNames].toSorted());
});

const fine: readonly Parts[] = [
  { delivery: "mode: ephemeral, backend: memory, idempotencyKey: '{{payload.id}}-b', maxLen: 10, stream: s" },
  { delivery: "mode: direct, batching: { enabled: false }, ordering: none" },
  { edge: "protocol: proc", node: "runtime: { language: nodejs, supports: [proc, grpc], version: '1' }" },
  { node: "x-ui: { position: { x: 1, y: 2 } }, x-alerts: { onDeadLetter: { webhook: 'https://example.org', minSeverity: error } }" },
  { delivery: "mode: durable, store: memory, ordering: perKey, partitionKey: '{{payload.id}}', priority: 9" },
];

test.each(fine)("a feature that the runtime has causes no warning and runs: %j", async (parts) => {
  const { findings } = await loadFlows(documentWith(parts));
  expect(findings.filter(({ code }) => code === "FLOW_UNSUPPORTED" || code === "FLOW_FIELD_NOT_USED")).toEqual([]);
  await run(documentWith(parts), []);
});

const elsewhere: readonly (readonly [Substitute, Parts])[] = [
  ["protocol", { edge: "protocol: grpc" }],
  ["protocol", { edge: "protocol: http" }],
  ["runtime", { node: "runtime: { language: python, handler: b.B }" }],
  ["runtime", { node: "runtime: { language: go, supports: [grpc] }" }],
];

test.each(elsewhere)("%s: a node in another process needs code or an address; a built-in node does not count (%j)", async (name, parts) => {
  const document = documentWith(parts);
  const { findings } = await loadFlows(document);
  expect(findings.filter(({ code }) => code === "FLOW_UNSUPPORTED")).toEqual([]);
  await run(document, []);
  // A terminal without code drops its packets: the document asks for another node.
  const builtIn = { ...document, text: document.text.replace("operationId: b, kind: transform", "operationId: c, kind: terminal") };
  await expect(run(builtIn, [])).rejects.toMatchObject({ code: "UNSUPPORTED_FIELDS", message: expect.stringContaining(name) });
  await run(builtIn, ["protocol", "runtime"]);
});

test("a database other than the runtime's is refused when the flow runs, and accepted by a runtime that does not work", async () => {
  const document = documentWith({ delivery: "mode: durable, store: postgres" });
  expect((await loadFlows(document)).flows[0]?.unsupported).toEqual([]);
  await expect(run(document, [])).rejects.toThrow(/store: postgres \(the runtime uses memory\)/);
  await run(document, ["store"]);
  const looking = await createRuntime({ store, documents: [document], work: false });
  await looking.stop();
});

test.each(["delivery", "node", "top"] as const)("what only MongoDB does is refused by a runtime on another store (%s)", async (where) => {
  const asks = {
    delivery: "mode: durable, store: mongo",
    node: "idempotency: { keyExpression: 'payload.id + \"-b\"', store: mongo }",
    top: "x-runtime: { mongodb: { idempotencyKeys: flow_keys } }",
  };
  const name = where === "top" ? "x-runtime" : "store";
  const document = documentWith({ [where]: asks[where] });
  const { flows, findings } = await loadFlows(document);
  expect([flows[0]?.unsupported, findings.filter(({ code }) => code === "FLOW_UNSUPPORTED")]).toEqual([[], []]);
  await expect(run(document, [])).rejects.toThrow(/\(the runtime uses memory\)/);
  await run(document, [name]);
});

test.each(["''", "a$b", "system.keys"])("%s cannot be the name of a collection: an error where it is written", async (name) => {
  const { ok, findings } = await loadFlows(documentWith({ top: `x-runtime: { mongodb: { idempotencyKeys: ${name} } }` }));
  expect([ok, findings.find(({ severity }) => severity === "error")]).toMatchObject([
    false,
    { code: "FLOW_BAD_VALUE", pointer: "/x-runtime/mongodb/idempotencyKeys" },
  ]);
});

test.each([
  ["top", "mongodb: { idempotencyKey: keys }", /^unknown; did you mean "idempotencyKeys"\?/],
  ["top", "mongdb: { idempotencyKeys: keys }", /^unknown; did you mean "mongodb"\?/],
  ["top", "mongodb: { database: other }", /^not supported; known members: idempotencyKeys: /],
  ["edge", "mongodb: { collection: orders.queue }", /^the packets of all flows are in one collection/],
  ["edge", "mongodb: { writeConcern: majority }", /waits for a majority/],
  ["edge", "mongodb: { readPreference: primaryPreferred }", /reads from the primary/],
] as const)("x-runtime that the runtime does not read: the finding says what happens instead (%s, %s)", async (where, asks, why) => {
  const { findings } = await loadFlows(documentWith({ [where]: `x-runtime: { ${asks} }` }));
  expect(findings.filter(({ code }) => code === "FLOW_UNSUPPORTED").map(({ message }) => message)).toEqual([expect.stringMatching(why)]);
});

test.each(["x-runtme", "x-alert"])("a misspelt extension of ours, %s, is an unknown field; other extensions are not", async (name) => {
  for (const where of ["top", "edge", "node"] as const) {
    const { findings } = await loadFlows(
      documentWith({ [where]: `${name}: {}, x-runner: 1`.replace(", ", where === "top" ? "\n" : ", ") }),
    );
    expect(findings.filter(({ code }) => code === "FLOW_UNKNOWN_FIELD")).toMatchObject([
      { fix: `did you mean "${name === "x-alert" ? "x-alerts" : "x-runtime"}"?` },
    ]);
  }
});

test("an unknown substitute is refused, and an unknown field of a document causes a warning", async () => {
  await expect(run(documentWith({}), ["backends" as Substitute])).rejects.toThrow(/substitutes: must be one of "stream"/);
  const warned = new Promise<Error & { code?: string }>((resolve) => process.once("warning", resolve));
  await run(documentWith({ delivery: "mode: durable, idempotencykey: '{{payload.id}}-b'" }), []);
  expect(await warned).toMatchObject({ code: "ONCEFLOW_UNKNOWN_FIELD", message: expect.stringContaining('did you mean "idempotencyKey"') });
});

test("a runtime warns of packets that it does not check as the document asks", async () => {
  const warnings = captureWarnings("ONCEFLOW_PACKETS_NOT_CHECKED");
  const packets = "components: { packets: { Q: { allOf: [{}], nullable: true }, R: { $ref: 'asyncapi#/components/messages/R' } } }";
  await run(documentWith({ top: `externalDocs: { asyncapi: 'https://example.org/api.yaml' }\n${packets}` }), []);
  await until("the runtime has warned", () => warnings.length === 1);
  expect(warnings[0]?.message).toMatch(/FLOW_REMOTE_NOT_LOADED.*--allow-remote/s);
  expect(warnings[0]?.message).toMatch(/FLOW_IGNORED_KEYWORD/);
});

test("a misspelt setting of a subworkflow is an unknown field", async () => {
  const { findings } = await loadFlows(documentWith({ kind: "subworkflow", node: "settings: { workflowRf: f, own: 1 }" }));
  expect(findings.filter(({ code }) => code === "FLOW_UNKNOWN_FIELD")).toMatchObject([{ fix: 'did you mean "workflowRef"?' }]);
});
