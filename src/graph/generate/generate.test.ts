import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { open } from "onceflow";
import { createRuntime, type FlowNode, typedNode } from "onceflow/graph";
import { expect, onTestFinished, test } from "vitest";
import { loadFlows } from "../load/load-flows.js";
import type { FlowPlan } from "../plan/plan.js";
import { generateDocs } from "./markdown.js";
import { typeText } from "./type-text.js";
import { generateTypeScript } from "./typescript.js";

const root = resolve(import.meta.dirname, "../../..");
const examples = join(root, "examples/flows");

/** Names and texts that try to break the syntax around them. */
const nasty = `flowdsl: "1.0"
info: { title: "Nasty */ \`\${x}\` | <b>", version: "1\\n2" }
nodes:
  'a"b': { operationId: delete, kind: source, summary: "ends */ here | <script>", outputs: { 'o-1': { packet: "x-y z" } } }
  "%%{init: {'theme':'dark'}}%%": { operationId: theme, kind: terminal }
  'b|c': { operationId: node_context, kind: terminal, inputs: { in: { packet: "x-y z" } } }
edges:
  - { from: 'a"b', to: 'b|c', when: "payload['a-b'] == '\\"]|'", delivery: { mode: direct, packet: "x-y z" } }
components:
  packets:
    "x-y z": { description: "*/ alert()", type: object, required: ["a-b"], properties: { "a-b": { enum: ["\\"", 'it''s', 1, null] }, constructor: { type: array, items: { $ref: "#/components/packets/NodeContext" } } } }
    NodeContext: { type: [object, "null"], additionalProperties: { anyOf: [{ type: string }, { const: 5 }] } }
`;

/** Names that are special for a file system, for the language, or for its library. */
const words = ["arguments", "eval", "undefined", "global_this", "await", "null", "record", "readonly", "promise", "object", "require"];
const lines = (line: (word: string) => string) => words.map(line).join("\n");
const meaning = `flowdsl: "1.0.0"
info: { title: T, version: "1" }
flows:
  '../../up': { nodes: { A: { operationId: a, kind: source } } }
  'x"; process.exit(1); "': { nodes: { A: { operationId: a, kind: source } } }
  '.hidden': { nodes: { A: { operationId: a, kind: source } } }
  words:
    nodes:
${lines((word) => `      N_${word}: { operationId: "${word}", kind: source, outputs: [{ name: any }, { name: out, message: "${word}" }] }`)}
      Proto: { operationId: __proto__, kind: source, outputs: [{ name: __proto__, message: Tree }, { name: ünï }] }
components:
  packets:
${lines((word) => `    "${word}": { type: object, properties: { "${word}": { type: string } } }`)}
    Tree:
      type: object
      properties:
        up: { anyOf: [{ $ref: "#/components/packets/Tree" }, { type: "null" }] }
        down: { type: array, items: { $ref: "#/components/packets/Tree" } }
        one: { oneOf: [{ type: string }, { enum: [1, null] }] }
        none: { enum: [] }
`;

async function plans(): Promise<readonly FlowPlan[]> {
  const files = readdirSync(examples).filter((name) => name.includes(".flowdsl."));
  const loaded = await Promise.all([
    ...files.map((name) => loadFlows(join(examples, name))),
    loadFlows({ text: nasty }),
    loadFlows({ text: meaning }),
  ]);
  expect(loaded.map(({ ok }) => ok)).toEqual(loaded.map(() => true));
  return loaded.flatMap(({ flows }) => flows);
}

test("generates TypeScript that compiles in strict mode", async () => {
  mkdirSync(join(root, ".build"), { recursive: true });
  const folder = mkdtempSync(join(root, ".build/generate-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const plan of await plans()) for (const { name, text } of generateTypeScript(plan)) writeFileSync(join(folder, name), text);
  writeFileSync(
    join(folder, "use.ts"),
    `import { type FlowNode, NodeOutput } from "onceflow/graph";
import { nodes as stubs } from "./order_fulfilment.nodes.js";
import type { ChargePayment, ValidatedOrder } from "./order_fulfilment.types.js";
export const order: ValidatedOrder = { orderId: "o", total: 1, address: { street: "s", country: "de" } };
export const charge: ChargePayment = async (input, output) => {
  const { orderId, address } = input.packet("order").data;
  output.send("Paid", { orderId, charge: input.context.idempotencyKey ?? "", address });
  // @ts-expect-error unknown port
  output.send("Unpaid", { orderId });
  // @ts-expect-error unknown input
  input.packet("in");
};
export const nodes: Readonly<Record<string, FlowNode>> = { ...stubs, announce_shipping: () => new NodeOutput() };
// @ts-expect-error a number is not an id
export const wrong: ValidatedOrder = { ...order, orderId: 1 };
`,
  );
  const compilerOptions = { noEmit: true, types: ["node"], skipLibCheck: true };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ extends: "../../tsconfig.base.json", compilerOptions, include: ["*.ts"] }));
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const complaints = (() => {
    try {
      return execFileSync(process.execPath, [tsc, "-p", folder, "--pretty", "false"], { encoding: "utf8" });
    } catch (error) {
      return String((error as { stdout?: string }).stdout);
    }
  })();
  expect(complaints).toBe("");
});

test("writes files only in the given folder, and an id stays a name", async () => {
  const { flows, findings } = await loadFlows({ text: meaning });
  expect(findings.filter(({ severity }) => severity === "error")).toEqual([]);
  const files = flows.flatMap((plan) => [...generateTypeScript(plan), ...generateDocs(plan)]);
  for (const { name } of files) expect(name).toMatch(/^\w[\w.-]*$/);
  expect(new Set(files.map(({ name }) => name)).size).toBe(files.length);
  for (const { text } of files) expect(text.replaceAll(/`[^`]*`/g, "")).not.toContain("process.exit(");
});

test("the generated code runs: stubs throw until they are implemented", async () => {
  const text = `flowdsl: "1.0"
info: { title: Small, version: "1" }
nodes:
  Take: { operationId: take_it, kind: source, outputs: { out: { packet: Thing } } }
  Use: { operationId: use_it, kind: action, inputs: { in: { packet: Thing } } }
edges:
  - { from: Take, to: Use, delivery: { mode: durable, packet: Thing, idempotencyKey: "{{payload.id}}-use" } }
components: { packets: { Thing: { type: object, required: [id], properties: { id: { type: string } } } } }
`;
  const { flows } = await loadFlows({ text });
  mkdirSync(join(root, ".build"), { recursive: true });
  const folder = mkdtempSync(join(root, ".build/generate-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const { name, text: made } of flows.flatMap(generateTypeScript)) writeFileSync(join(folder, name), made);
  const { nodes } = (await import(join(folder, "small.nodes.ts"))) as { nodes: Record<string, FlowNode> };
  const store = await open("memory:");
  onTestFinished(() => store.close());
  const takeIt = typedNode<{ in: { id: string } }, { out: { id: string } }>(
    (input, output) => void output.send("out", input.packet("in").data),
  );
  const runtime = await createRuntime({ store, documents: [{ text }], nodes: { ...nodes, take_it: takeIt } });
  const { executionId = "" } = await runtime.trigger("small", undefined, { id: "t-1" });
  expect((await runtime.wait(executionId)).status).toBe("dead");
  expect(await runtime.deadLetters()).toMatchObject([
    { key: "t-1-use", error: { code: "PERMANENT", message: "use_it is not implemented yet" } },
  ]);
});

test("a page has a diagram, nodes and guarantees, and names cannot break its syntax", async () => {
  const all = await plans();
  const [triage] = all.filter(({ id }) => id === "email_triage").flatMap(generateDocs);
  expect(triage?.text).toContain('n1 -->|"durable: payload.priority #gt;= 8"| n2');
  expect(triage?.text).toContain("effectively once by `{{payload.messageId}}-sms-alert`; up to 4 attempts, then `undelivered-alerts`");
  expect(triage?.text).not.toMatch(/exactly once/i);
  const [page] = all.filter(({ id }) => id.startsWith("nasty")).flatMap(generateDocs);
  const rows = page?.text.split("\n").filter((line) => line.startsWith("| `")) ?? [];
  expect(rows.map((row) => row.replaceAll("\\|", "").split("|").length - 2)).toEqual([4, 4, 4, 5]);
  const [, picture] = page?.text.split("```") ?? [];
  expect(picture).toMatch(/^mermaid\nflowchart TD\n/);
  expect(picture).not.toContain("%%");
  expect(page?.text).not.toContain("<script>");
  expect(page?.text).toContain('n0(["a#quot;b<br/>source"])');
});

test.each([
  [true, "unknown"],
  [false, "never"],
  [{ type: "integer" }, "number"],
  [{ type: ["string", "null"] }, "string | null"],
  [{ enum: ["a", 1, { a: 1 }] }, '"a" | 1 | unknown'],
  [{ type: "array", items: { type: "string" } }, "readonly (string)[]"],
  [{ type: "object" }, "{ readonly [name: string]: unknown }"],
  [{ oneOf: [{ type: "string" }, { type: "boolean" }] }, "string | boolean"],
  [{ allOf: [{ $ref: "#/definitions/A" }, { type: "object", properties: { b: {} } }] }, "(A) & ({ readonly b?: unknown })"],
])("%j is %s", (schema, text) => {
  expect(typeText(schema, (name) => name)).toBe(text);
});

test("generates the same text every time", async () => {
  const [first, again] = [await plans(), await plans()];
  expect(first.flatMap(generateTypeScript)).toEqual(again.flatMap(generateTypeScript));
});
