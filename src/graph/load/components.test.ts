import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { loadFlows } from "./load-flows.js";

const document = (edges: string, components = "", nodes = "") => `flowdsl: "1.0.0"
info: { title: T, version: "1" }
flows:
  parent:
    nodes:
      Take: { operationId: take, kind: source }
      Work: { operationId: work, kind: transform${nodes} }
    edges:
${edges}
  child:
    nodes: { In: { operationId: child_in, kind: source } }
components:
  policies: { slow: { mode: durable, store: sqlite, retryPolicy: patient }, patient: { maxAttempts: 9 } }
  edges:
    Main: { from: Take, to: Work, delivery: slow }
${components}`;

describe("shared edges and policies", () => {
  test.each([
    ["by name", "      - Main"],
    ["by reference", '      - { $ref: "#/components/edges/Main" }'],
  ])("%s", async (_, edges) => {
    const { findings, flows } = await loadFlows({ text: document(edges) });
    expect(findings).toEqual([]);
    expect(flows[0]?.edges).toMatchObject([
      { id: "Take->Work.in", delivery: { mode: "durable", store: "sqlite", retry: { maxAttempts: 9 } } },
    ]);
  });

  test("fields beside the reference override the edge's", async () => {
    const { flows } = await loadFlows({
      text: document('      - { $ref: "#/components/edges/Main", when: "payload.a == 1", delivery: { mode: direct } }'),
    });
    expect(flows[0]?.edges).toMatchObject([{ when: { text: "payload.a == 1" }, delivery: { mode: "direct" } }]);
  });

  test.each([
    ["      - Mian", "/flows/parent/edges/0", '"Mian" is not a map in components.edges', 'did you mean "Main"?'],
    [
      '      - { $ref: "#/components/edges/Mian" }',
      "/flows/parent/edges/0/$ref",
      '"#/components/edges/Mian" is not a map in components.edges',
      'did you mean "#/components/edges/Main"?',
    ],
    [
      "      - { from: Take, to: Work, delivery: slwo }",
      "/flows/parent/edges/0/delivery",
      '"slwo" is not a map in components.policies',
      'did you mean "slow"?',
    ],
  ])("%s", async (edges, pointer, message, fix) => {
    const { findings } = await loadFlows({ text: document(edges) });
    expect(findings.filter(({ severity }) => severity === "error")).toMatchObject([{ code: "FLOW_BAD_REF", pointer, message, fix }]);
  });

  test("a finding in a shared edge points to it; an edge that no flow uses is reported", async () => {
    const wrong = await loadFlows({ text: document("      - Main").replace("to: Work, delivery: slow", "to: Wrok, delivery: slow") });
    expect(wrong.findings).toMatchObject([
      { code: "FLOW_UNKNOWN_NODE", pointer: "/components/edges/Main/to", line: 15, fix: 'did you mean "Work"?' },
    ]);
    const unused = await loadFlows({ text: document("      - { from: Take, to: Work, delivery: slow }") });
    expect(unused.findings).toMatchObject([{ code: "FLOW_UNUSED", message: "components.edges.Main is not used" }]);
  });
});

describe("shared schemas", () => {
  const schemas = `  packets: { Order: { type: object, required: [id], properties: { id: { $ref: "#/components/schemas/Id" } } } }
  schemas: { Id: { type: string, minLength: 2 }, Line: { properties: { price: { type: number } } } }`;
  const port = (ref: string) => `, inputs: [{ name: in, message: { $ref: "${ref}" } }]`;

  test("packets refer to them; a port may, too, also to a part of one", async () => {
    const { findings, flows } = await loadFlows({ text: document("      - Main", schemas, port("#/components/packets/Order")) });
    expect(findings.map(({ message }) => message)).toEqual(["components.schemas.Line is not used"]);
    expect(flows[0]?.edges[0]?.packet?.check({ id: "a" })).toHaveLength(1);
    for (const [ref, bad] of [
      ["#/components/schemas/Id", "a"],
      ["#/components/schemas/Line/properties/price", "1"],
    ] as const) {
      const loaded = await loadFlows({ text: document("      - Main", schemas, port(ref)) });
      expect(loaded.flows[0]?.edges[0]?.packet?.check(bad)).toHaveLength(1);
    }
  });

  test.each([
    ["#/components/schemas/Idd", 'did you mean "Id"?'],
    ["Id", 'did you mean "#/components/schemas/Id"?'],
    ["#/components/packets/Line", 'did you mean "#/components/schemas/Line"?'],
  ])("%s: %s", async (ref, fix) => {
    const { findings } = await loadFlows({ text: document("      - Main", schemas, port(ref)) });
    expect(findings.filter(({ severity }) => severity === "error")).toMatchObject([{ code: "FLOW_UNKNOWN_PACKET", fix }]);
  });
});

describe("workflowRef", () => {
  const node = (rest: string) =>
    document("      - Main").replace("operationId: work, kind: transform", `operationId: work, kind: subworkflow, ${rest}`);

  function folderWith(files: Readonly<Record<string, string>>): string {
    const folder = mkdtempSync(join(tmpdir(), "onceflow-children-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    return folder;
  }

  test.each(["settings: { workflowRef: '#/flows/child' }", "workflowRef: '#/flows/child'", "workflowRef: child"])("%s", async (rest) => {
    const { findings, flows } = await loadFlows({ text: node(rest) });
    expect(findings).toEqual([]);
    expect(flows[0]?.nodes.get("Work")).toMatchObject({ child: { flow: "child" }, settings: { flow: "child" } });
  });

  test.each([
    ["workflowRef: '#/flows/chidl'", '"#/flows/chidl" is not a flow of this document', 'did you mean "#/flows/child"?'],
    ["workflowRef: other", '"other" is not a flow of this document', /^flows of this document: parent, child;/],
    ["workflowRef: ./none.flowdsl.yaml", '"./none.flowdsl.yaml" cannot be read: no such file', /./],
    [
      "workflowRef: 'https://example.org/c.flowdsl.json#/flows/main'",
      '"https://example.org/c.flowdsl.json" is on the network, and was not loaded',
      /--allow-remote/,
    ],
    ["workflowRef: child, settings: { flow: other }", "workflowRef and settings.flow name different flows", "remove settings.flow"],
  ])("%s", async (rest, message, fix) => {
    const { findings } = await loadFlows({ text: node(rest) });
    expect(findings).toMatchObject([
      { severity: "error", message, fix: typeof fix === "string" ? fix : (expect.stringMatching(fix) as string) },
    ]);
  });

  test("a flow of another document, in either dialect", async () => {
    const one = 'flowdsl: "1.0"\ninfo: { title: Ship Order, version: "1" }\nnodes: { A: { operationId: a, kind: source } }\n';
    const folder = folderWith({ "one.flowdsl.yaml": one, "two.flowdsl.yaml": document("      - Main") });
    const load = (ref: string) => loadFlows({ text: node(`workflowRef: '${ref}'`), file: join(folder, "t.yaml") });
    const childOf = async (ref: string) => (await load(ref)).flows[0]?.nodes.get("Work")?.child;
    expect(await childOf("./one.flowdsl.yaml")).toEqual({ flow: "ship_order", file: join(folder, "one.flowdsl.yaml") });
    expect(await childOf("./two.flowdsl.yaml#/flows/child")).toEqual({ flow: "child", file: join(folder, "two.flowdsl.yaml") });
    expect((await load("./two.flowdsl.yaml")).findings).toMatchObject([
      { message: '"./two.flowdsl.yaml" has several flows', fix: 'name one of them: "./two.flowdsl.yaml#/flows/parent"' },
    ]);
    expect((await load("./two.flowdsl.yaml#/flows/chld")).findings).toMatchObject([
      { code: "FLOW_BAD_REF", fix: 'did you mean "/flows/child"?' },
    ]);
  });

  test("only a subworkflow has one", async () => {
    const { findings } = await loadFlows({ text: document("      - Main", "", ", workflowRef: child") });
    expect(findings).toMatchObject([{ code: "FLOW_FIELD_NOT_USED", pointer: "/flows/parent/nodes/Work/workflowRef" }]);
  });

  test("settings of the specification that the runtime does not support are reported", async () => {
    const settings = "settings: { workflowRef: child, inputMapping: { a: b }, timeoutMs: 5, failOnChildError: false }";
    const { findings, flows } = await loadFlows({ text: node(settings) });
    expect(findings.map(({ code, pointer }) => [code, pointer.split("/").at(-1)])).toEqual([
      ["FLOW_UNSUPPORTED", "inputMapping"],
      ["FLOW_UNSUPPORTED", "timeoutMs"],
      ["FLOW_UNSUPPORTED", "failOnChildError"],
    ]);
    expect(flows[0]?.unsupported.map(({ substitute }) => substitute)).toEqual(Array.from({ length: 3 }, () => "subworkflow"));
  });
});

test("a cycle is refused with the advice to use a subworkflow", async () => {
  const edges = "      - Main\n      - { from: Work, to: Take, delivery: { mode: direct } }";
  const { findings } = await loadFlows({ text: document(edges) });
  expect(findings.find(({ code }) => code === "FLOW_CYCLE")).toMatchObject({
    message: "edges form a cycle: Take → Work → Take",
    fix: "remove one of its edges, or move the repeated part into a flow of its own and run it from a node of kind subworkflow",
  });
});
