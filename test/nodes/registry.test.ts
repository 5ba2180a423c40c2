import { open, type Store } from "onceflow";
import { createRuntime, NodeOutput, type RuntimeOptions } from "onceflow/graph";
import { NodeServer, type NodeServerUrls } from "onceflow/graph/remote";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { until } from "../kit/until.js";
import { captureWarnings } from "../kit/warnings.js";

const shared: { store?: Store; urls?: NodeServerUrls } = {};
const seen: unknown[] = [];
const server = new NodeServer({
  nodes: {
    work(input) {
      const { settings, flowId, nodeId, idempotencyKey } = input.context;
      seen.push({ settings, flowId, nodeId, idempotencyKey });
      return new NodeOutput().send("out", { from: "server" });
    },
    many: (input) => {
      const output = new NodeOutput();
      for (let i = 0; i < input.packet("in").getNumber("n"); i += 1) output.send("out", { i });
      return output;
    },
  },
  ...{ port: 0, grpcPort: 0, token: "a-token-of-the-test-suite", manifest: { work: { inputs: ["in"], outputs: ["out"] } } },
});

beforeAll(async () => {
  shared.urls = await server.start();
  shared.store = await open("memory:");
  process.env["TEST_NODES_TOKEN"] = "a-token-of-the-test-suite";
});
afterAll(async () => {
  await server.stop({ graceMs: 0 });
  await shared.store?.close();
});

/** In → Work, with fields of the node and of the edge. */
const documentOf = (node: string, edge = "", operationId = "work") => ({
  file: "flow.yaml",
  text: `flowdsl: "1.0"
info: { title: Flow, version: "1" }
nodes:
  In: { operationId: take, kind: source }
  Work: { operationId: ${operationId}, kind: action, settings: { region: eu }${node && `, ${node}`} }
edges:
  - { from: In, to: Work${edge && `, ${edge}`}, delivery: { mode: durable, idempotencyKey: "{{payload.id}}-work" } }
`,
});

async function outputsOf(options: Omit<RuntimeOptions, "store">, payload: Record<string, unknown> = {}): Promise<readonly unknown[]> {
  const runtime = await createRuntime({ store: shared.store as Store, ...options });
  onTestFinished(() => runtime.stop());
  const { executionId = "" } = await runtime.trigger("flow", undefined, { id: `k${seen.length}${Math.random()}`, ...payload });
  const { outputs } = await runtime.wait(executionId);
  await runtime.stop();
  return outputs.map(({ data }) => data);
}

const registryOf = (url: string | undefined, more = "") => ({
  file: "r.yaml",
  text: `nodes: { work: { url: "${url}", tokenEnv: TEST_NODES_TOKEN${more} } }`,
});
const portOf = (url = "") => new URL(url.replace("grpc", "http")).port;

test("a node given in `nodes` wins over the registry, and the registry over the document's address", async () => {
  const { http, grpc } = shared.urls as NodeServerUrls;
  const wrong = 'runtime: { language: python, http: { url: "http://127.0.0.1:1" } }';
  const fromServer = [{ from: "server" }];
  expect(await outputsOf({ documents: [documentOf(wrong)], registry: registryOf(http) })).toEqual(fromServer);
  expect(seen.at(-1)).toMatchObject({
    settings: { region: "eu" },
    flowId: "flow",
    nodeId: "Work",
    idempotencyKey: expect.stringMatching(/-work$/),
  });
  const own = { work: () => new NodeOutput().send("out", { from: "here" }) };
  expect(await outputsOf({ documents: [documentOf(wrong)], registry: registryOf(http), nodes: own })).toEqual([{ from: "here" }]);
  expect(await outputsOf({ documents: [documentOf("")], registry: registryOf(grpc, ", streaming: true") })).toEqual(fromServer);
});

test("the address in the document, by the edge's protocol; streams commit all packets", async () => {
  const { http, grpc } = shared.urls as NodeServerUrls;
  const both = (language: string) =>
    `runtime: { language: ${language}, supports: [http, grpc], http: { url: "${http}", tokenEnv: TEST_NODES_TOKEN }, ` +
    `grpc: { port: ${portOf(grpc)}, tokenEnv: TEST_NODES_TOKEN, streaming: true, maxConcurrentStreams: 5 } }`;
  for (const edge of ["protocol: http", "protocol: grpc", ""])
    expect(await outputsOf({ documents: [documentOf(both("go"), edge)] })).toEqual([{ from: "server" }]);
  const streamed = await outputsOf({ documents: [documentOf(both("nodejs"), "protocol: grpc", "many")] }, { n: 3 });
  expect(streamed).toEqual([{ i: 0 }, { i: 1 }, { i: 2 }]);
});

test("what does not fit is an error or a warning that says what to do", async () => {
  const { http } = shared.urls as NodeServerUrls;
  const store = shared.store as Store;
  const create = (options: Partial<RuntimeOptions>) => createRuntime({ store, documents: [documentOf("", "protocol: grpc")], ...options });
  await expect(create({ registry: registryOf(http) })).rejects.toThrow(
    /edge "In->Work.in" asks for protocol grpc, but the registry has node "Work" over another one/,
  );
  await expect(create({ registry: { file: "r.yaml", text: "nodes: { work: payments }" } })).rejects.toMatchObject({
    code: "REGISTRY_INVALID",
  });
  await expect(create({ documents: [documentOf("")] })).rejects.toThrow(
    /missing nodes: work \(flow flow\); add them to `nodes` or to the `registry`/,
  );
  const noToken = { file: "r.yaml", text: `nodes: { work: { url: "${http}", tokenEnv: NOT_SET_HERE } }` };
  await expect(create({ documents: [documentOf("")], registry: noToken })).rejects.toThrow(
    /environment variable NOT_SET_HERE, the token of server "work"/,
  );

  const warnings = captureWarnings("ONCEFLOW_NODE_SERVER");
  const odd = documentOf("inputs: { other: {} }, outputs: { result: {} }").text.replace("to: Work,", "to: Work.other,");
  const runtime = await create({ documents: [{ text: odd }], registry: registryOf(http) });
  await runtime.stop();
  const unknown = await create({
    documents: [documentOf("", "", "not_there")],
    registry: { text: `nodes: { not_there: { url: "${http}", tokenEnv: TEST_NODES_TOKEN } }` },
  });
  await unknown.stop();
  await until("all three have been reported", () => warnings.length === 3);
  const said = warnings.map(({ message }) => message).join("\n");
  for (const about of ['has no input port "other"', 'has no output port "result"', 'has no node "not_there" (nodes: work, many)'])
    expect(said).toContain(about);
});

test("a registry entry with a misspelt name is a warning; an entry for another flow is not", async () => {
  const warnings = captureWarnings("ONCEFLOW_NODE_SERVER");
  const { http } = shared.urls as NodeServerUrls;
  const entry = `{ url: "${http}", tokenEnv: TEST_NODES_TOKEN }`;
  const registry = { file: "r.yaml", text: `nodes: { work: ${entry}, wrok: ${entry}, refund_payment: ${entry} }` };
  await outputsOf({ documents: [documentOf("")], registry });
  await until("it warned", () => warnings.length > 0);
  expect(warnings.map(({ message }) => message)).toEqual([
    expect.stringMatching(/the registry has node "wrok" \(r\.yaml:1:\d+\), which no document has; did you mean "work"\?/),
  ]);
});
