import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { Ajv, type AnySchemaObject } from "ajv";
import { loadFlows } from "onceflow/graph";
import { expect, test } from "vitest";
import { parse } from "yaml";

/** Resolved by the package's name, as an editor does. */
const schema = JSON.parse(readFileSync(createRequire(import.meta.url).resolve("onceflow/schema/flow.json"), "utf8")) as AnySchemaObject;
/** The validator that editors use. In strict mode it refuses a schema with an unknown keyword or one without effect. */
const ajv = new Ajv({ strict: true, allErrors: true }).compile(schema);
const folder = resolve(import.meta.dirname, "../../examples/flows");
const examples = readdirSync(folder).filter((name) => name.includes(".flowdsl."));

/** Two documents that together have every field, each in the dialect it belongs to. */
const everythingA = `flowdsl: "1.0.0"
info: { title: T, version: "1", description: d, contact: { name: n, url: u, email: e }, license: { name: n, url: u } }
runtimeBindings: { redis: {} }
servers: { default: { url: u, protocol: hybrid } }
externalDocs: { asyncapi: ./a.yaml, openapi: { default: ./b.yaml }, description: d }
flows:
  f:
    summary: s
    description: d
    tags: [a]
    entrypoints:
      - a
      - { message: { $ref: "#/components/events/E" }, filter: payload.a == 1, description: d }
      - { node: a }
      - node: b
        kind: webhook
        path: /webhooks/b
        key: header.x-id
        signature:
          scheme: hmac
          secretEnv: S
          header: X-Sig
          algorithm: sha512
          encoding: base64
          prefix: v1=
          timestampHeader: X-Time
          content: "{timestamp}:{body}"
          toleranceMs: 1000
    defaults: { retryPolicy: { $ref: "#/components/policies/P" }, execution: { timeoutMs: 1, concurrency: 1, maxRetries: 1 } }
    nodes:
      a:
        operationId: a
        kind: source
        title: t
        summary: s
        description: d
        runtime:
          language: go
          handler: h
          supports: [proc]
          image: i
          version: "1"
          http: { url: 'https://example.org', tokenEnv: TOKEN }
          grpc: { host: example.org, port: 1, streaming: true, maxConcurrentStreams: 1, tls: true }
          nats: {}
          redis: {}
          zeromq: {}
          rabbitmq: {}
          websocket: {}
        outputs: [{ name: o, message: { schema: { type: object } }, description: d }]
        settings: { a: 1 }
        x-ui: {}
      b:
        $ref: "#/components/nodes/B"
        idempotency: { enabled: true, keyExpression: "input.id + ':b'", ttlSeconds: 1, store: mongo }
        inputs: []
      c: { operationId: c, kind: subworkflow, workflowRef: "#/flows/g" }
      d: { operationId: d, kind: subworkflow, settings: { workflowRef: g } }
    edges:
      - from: a
        to: b
        when: output.name == 'o'
        packet: "#/components/packets/Q"
        protocol: proc
        description: d
        delivery:
          mode: durable
          store: mongo
          retryPolicy: { maxAttempts: 1, backoff: fixed, initialDelayMs: 1, maxDelayMs: 1, jitter: true, retryOn: [TIMEOUT], deadLetterQueue: true }
          batching: { enabled: true, batchSize: 1, maxWaitMs: 1 }
          maxInFlight: 1
          ordering: strict
          recovery: { replayFrom: entrypoint, strategy: skip }
          priority: 1
          timeoutMs: 1
      - { from: a, to: b, delivery: { mode: ephemeral, backend: redis, idempotencyTtlMs: 1000 } }
      - Shared
      - { $ref: "#/components/edges/Shared", description: d }
      - { from: a, to: b, delivery: { mode: stream, stream: { bus: kafka, topic: t, partitionKey: payload.a, consumerGroup: g } } }
  g: { nodes: { a: { operationId: a, kind: source } }, edges: [] }
components:
  events: { E: { payload: { schema: {} } } }
  packets: { Q: { type: object, properties: { id: { $ref: "#/components/schemas/Id" } } } }
  schemas: { Id: { type: string } }
  edges: { Shared: { from: a, to: b, delivery: D } }
  nodes: { B: { operationId: b, kind: action } }
  policies: { P: { maxAttempts: 2 }, D: { mode: durable, store: sqlite, retryPolicy: P } }
`;

const everythingB = `flowdsl: "1.0"
info: { title: T, version: "1" }
asyncapi: ./a.yaml
openapi: ./b.yaml
entrypoints: [A, { node: B, kind: webhook, path: /webhooks/b, method: PUT, signature: { scheme: stripe, secretEnv: [S, T], tolerance: PT5M } }]
defaults: { execution: { timeout: PT1S } }
nodes:
  A: { operationId: a, kind: source, outputs: { out: { packet: Q, description: d } } }
  B: { operationId: b, kind: action, inputs: { in: { packet: Q, required: false } } }
edges:
  - from: A
    to: B
    delivery:
      $ref: "#/components/policies/D"
      packet: Q
      idempotencyKey: "{{payload.a}}-b"
      deadLetterQueue: q
      timeout: PT1S
      retryPolicy: { $ref: "#/components/policies/P" }
  - { from: A, to: B, delivery: { mode: checkpoint, batchSize: 1, checkpointInterval: 1 } }
  - { from: A, to: B, delivery: { mode: stream, topic: t, consumerGroup: g, partitionKey: "{{payload.a}}" } }
  - { from: A, to: B, delivery: { mode: ephemeral, stream: s, maxLen: 1, idempotencyKey: "{{payload.a}}-b", idempotencyTtl: P7D } }
components:
  packets: { Q: { type: object, required: [a], properties: { a: { type: string } } } }
  policies: { D: { mode: durable }, P: { maxAttempts: 2, backoff: linear, initialDelay: PT1S, maxDelay: PT2S } }
x-anything: [1]
`;

/** The schema's errors for the document, with their paths. */
function refusals(text: string): readonly string[] {
  ajv(parse(text));
  return (ajv.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}

test.each(examples)("%s matches the schema, and its only findings are features that the runtime has a substitute for", async (name) => {
  expect(refusals(readFileSync(join(folder, name), "utf8"))).toEqual([]);
  expect(await loadFlows(join(folder, name))).toMatchObject({
    ok: true,
    findings: name.startsWith("order") ? [{ code: "FLOW_UNSUPPORTED", pointer: "/flows/order_fulfilment/edges/3/delivery/mode" }] : [],
  });
});

test.each([everythingA, everythingB])("the schema and the loader know the same fields: %#", async (text) => {
  expect(refusals(text)).toEqual([]);
  const { ok, findings } = await loadFlows({ text });
  const strange = findings.filter(
    ({ code, severity }) => severity === "error" || code === "FLOW_UNKNOWN_FIELD" || code === "FLOW_MIXED_DIALECTS",
  );
  expect(strange).toEqual([]);
  expect(ok).toBe(true);
});

test("every field of the schema is in one of these documents", () => {
  const names = new Set<string>();
  const collect = (at: unknown): void => {
    if (typeof at !== "object" || at === null) return;
    const { properties } = at as { properties?: object };
    for (const name of Object.keys(properties ?? {})) names.add(name);
    for (const below of Object.values(at)) collect(below);
  };
  collect(schema);
  expect(names.size).toBeGreaterThan(80);
  expect(
    [...names].filter((name) => !new RegExp(`(^|[\\s{,])"?${name.replace("$", "\\$")}"?:`, "m").test(everythingA + everythingB)),
  ).toEqual([]);
});

test.each([
  ["an unknown field", 'flowdsl: "1.0"\ninfo: { title: T, version: "1" }\nnods: {}', "FLOW_UNKNOWN_FIELD"],
  [
    "a wrong mode",
    'flowdsl: "1.0"\ninfo: { title: T, version: "1" }\nedges: [{ from: a, to: b, delivery: { mode: durabel } }]',
    "FLOW_BAD_VALUE",
  ],
  [
    "an invalid duration",
    'flowdsl: "1.0"\ninfo: { title: T, version: "1" }\nedges: [{ from: a, to: b, delivery: { mode: durable, timeout: 5s } }]',
    "FLOW_BAD_VALUE",
  ],
  [
    "a duration without a number",
    'flowdsl: "1.0"\ninfo: { title: T, version: "1" }\nedges: [{ from: a, to: b, delivery: { mode: durable, timeout: PT } }]',
    "FLOW_BAD_VALUE",
  ],
  ["a node without a handler", 'flowdsl: "1.0"\ninfo: { title: T, version: "1" }\nnodes: { a: { kind: action } }', "FLOW_MISSING_FIELD"],
  [
    "a delivery without a mode",
    'flowdsl: "1.0"\ninfo: { title: T, version: "1" }\nedges: [{ from: a, to: b, delivery: { packet: P } }]',
    "FLOW_MISSING_FIELD",
  ],
  ["no version", 'flowdsl: "1.0"\ninfo: { title: T }\nnodes: {}', "FLOW_MISSING_FIELD"],
])("%s is found by both", async (_, text, code) => {
  expect(refusals(text)).not.toEqual([]);
  expect((await loadFlows({ text })).findings.map((finding) => finding.code)).toContain(code);
});
