import { execFileSync } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { generatePython, loadFlows } from "onceflow/graph";
import { expect, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../kit/temporary-folder.js";
import { findPython, pythonSdk } from "../servers/sources/python.js";

const examples = resolve(import.meta.dirname, "../../examples/flows");
const python = await findPython();

/** Names and texts that mean something to Python, that collide, or that try to break the syntax around them. */
const words = [
  "class",
  "none",
  "true",
  "def",
  "match",
  "_",
  "types",
  "nodes",
  "flowdsl",
  "typing",
  "__name__",
  "str",
  "1st",
  "ünï",
  "a-b",
  "a_b",
];
const hostile = `flowdsl: "1.0.0"
info: { title: "Hostile \\"\\"\\" # \\n import os", version: "1\\r2" }
flows:
  '../../up': { nodes: { A: { operationId: a, kind: source } } }
  '1st "flow"; import os': { nodes: { A: { operationId: a, kind: source, summary: "\\"\\"\\" \\u0000 \\n x = 1" } } }
  words:
    nodes:
${words.map((word) => `      "N ${word}": { operationId: "${word}", kind: source, description: "# a\\n  b\\u2028c", outputs: [{ name: "${word}", message: "${word}" }, { name: "o'\\"2" }] }`).join("\n")}
components:
  packets:
${words.map((word) => `    "${word}": { description: "\\"\\"\\"\\nimport os", type: object, required: ["${word}"], properties: { "${word}": { type: string }, "x y": { type: integer } } }`).join("\n")}
`;

const shapes = `flowdsl: "1.0"
info: { title: Shapes, version: "1" }
nodes:
  Take: { operationId: take_it, kind: source, outputs: { out: { packet: Thing }, other: { packet: Tree } } }
  Use: { operationId: use_it, kind: action, summary: Uses it, inputs: { in: { packet: Thing } }, outputs: { done: { packet: Both } } }
edges:
  - { from: Take.out, to: Use, delivery: { mode: direct, packet: Thing } }
components:
  packets:
    Thing:
      description: Something
      type: object
      required: [id, state]
      properties:
        id: { type: string }
        state: { enum: [new, old, 3, null, true] }
        size: { type: number }
        note: { type: [string, "null"] }
        address: { type: object, required: [street], properties: { street: { type: string }, lines: { type: array, items: { type: object, properties: { n: { type: integer } } } } } }
        tree: { $ref: "#/components/packets/Tree" }
        extra: { type: object, additionalProperties: { type: integer } }
        either: { oneOf: [{ type: string }, { enum: [1.5] }] }
        kind: { const: thing }
    Tree:
      type: object
      properties:
        up: { anyOf: [{ $ref: "#/components/packets/Tree" }, { type: "null" }] }
        down: { type: array, items: { $ref: "#/components/packets/Tree" } }
    Both: { allOf: [{ $ref: "#/components/packets/Tree" }, { type: object, required: [n], properties: { n: { type: integer } } }] }
`;

/** Imports every module, resolves every type, and prints what it found. */
const check = `
import importlib, json, pathlib, typing
found = {}
for file in sorted(pathlib.Path(".").glob("*_nodes.py")):
    nodes = importlib.import_module(file.stem)
    types = nodes.types
    for name, value in list(vars(types).items()):
        if isinstance(value, type) and value.__module__ == types.__name__:
            typing.get_type_hints(value, vars(types))
    found[file.stem] = [[node.operation_id, list(node.inputs), list(node.outputs)] for node in nodes.nodes]
print(json.dumps(found))
`;

test("generates Python that can be imported, whatever the names", async ({ skip }) => {
  if (!python.ok) return skip(python.reason);
  const folder = temporaryFolder(onTestFinished);
  const files = readdirSync(examples).filter((name) => name.includes(".flowdsl."));
  const loaded = await Promise.all([
    ...files.map((name) => loadFlows(join(examples, name))),
    loadFlows({ text: hostile }),
    loadFlows({ text: shapes }),
  ]);
  const made = loaded.flatMap(({ flows }) => flows.flatMap(generatePython));
  expect(new Set(made.map(({ name }) => name.toLowerCase())).size).toBe(made.length);
  for (const { name, text } of made) {
    expect(name).toMatch(/^[A-Za-z_]\w*_(types|nodes)\.py$/);
    expect(text).not.toMatch(/^\s*import os/m);
    writeFileSync(join(folder, name), text);
  }
  const found = JSON.parse(run(folder, check)) as Record<string, [string, string[], string[]][]>;
  expect(found["shapes_nodes"]).toEqual([
    ["take_it", [], ["out", "other"]],
    ["use_it", ["in"], ["done"]],
  ]);
  expect(found["words_nodes"]?.map(([operationId]) => operationId)).toEqual(words);
  expect(Object.keys(found).length).toBe(loaded.flatMap(({ flows }) => flows).length);
});

test("types of packets: optional members, literals, nested objects, lists and references", async () => {
  const { flows } = await loadFlows({ text: shapes });
  const [types, nodes] = flows.flatMap(generatePython);
  expect(types?.text).toContain(`# Something
class _ThingRequired(typing.TypedDict):
    id: str
    state: typing.Literal["new", "old", 3, None, True]


class Thing(_ThingRequired, total=False):
    size: float
    note: typing.Union[str, None]
    address: "ThingAddress"
    tree: "Tree"
    extra: typing.Dict[str, int]
    either: typing.Union[str, float]
    kind: typing.Literal["thing"]
`);
  expect(types?.text).toContain(`class _ThingAddressRequired(typing.TypedDict):
    street: str


class ThingAddress(_ThingAddressRequired, total=False):
    lines: typing.List["ThingAddressLinesItem"]
`);
  expect(types?.text).toContain(`class Tree(typing.TypedDict, total=False):
    up: typing.Union["Tree", None]
    down: typing.List["Tree"]
`);
  expect(types?.text).toContain(`class _BothRequired(typing.TypedDict):
    n: int


class Both(_BothRequired, total=False):
    up:`);
  expect(types?.text).toContain(`    def send(self, port: typing.Literal["done"], data: "Both") -> "UseItOutput": ...`);
  expect(nodes?.text).toContain(`@flowdsl.typed_node("use_it", summary="Uses it", inputs=["in"], outputs=["done"])
async def use_it(input: types.UseItInput, output: types.UseItOutput) -> None:
    raise flowdsl.NodeError(flowdsl.PERMANENT, "use_it is not implemented yet")
`);
});

test("a stub that was implemented runs, and one that was not is PERMANENT", async ({ skip }) => {
  if (!python.ok) return skip(python.reason);
  const folder = temporaryFolder(onTestFinished);
  const { flows } = await loadFlows({ text: shapes });
  for (const { name, text } of flows.flatMap(generatePython))
    writeFileSync(
      join(folder, name),
      text.replace(/raise.*use_it is not implemented yet"\)/, 'output.send("done", {"n": len(input.data("in")["id"])})'),
    );
  const use = `
import asyncio, flowdsl, shapes_nodes
print(asyncio.run(flowdsl.deliver(shapes_nodes.use_it, flowdsl.mock_node_input("in", {"id": "abc"}))).outputs)
try:
    asyncio.run(flowdsl.deliver(shapes_nodes.take_it, flowdsl.mock_node_input("in", {})))
except flowdsl.NodeError as error:
    print(error.code, error)
`;
  expect(run(folder, use)).toBe("[('done', {'n': 3})]\nPERMANENT take_it is not implemented yet\n");
});

function run(cwd: string, code: string): string {
  if (!python.ok) throw new Error(python.reason);
  const env = { ...process.env, PYTHONPATH: pythonSdk, PYTHONDONTWRITEBYTECODE: "1" };
  return execFileSync(python.path, ["-c", code], { cwd, env, encoding: "utf8" });
}
