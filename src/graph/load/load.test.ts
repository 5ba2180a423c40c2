import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { Findings, findingText } from "../findings/finding.js";
import { loadFlows } from "./load-flows.js";

const head = 'flowdsl: "1.0"\ninfo: { title: T, version: "1" }\nnodes: {}\n';

/** Inputs that must be rejected. The limits are on counts, not on time: parsing must stop at them. */
const hostile: readonly (readonly [string, string, string])[] = [
  ["aliases that double twenty times", bomb(20), "more than 100000 values, aliases included"],
  ["ten megabytes", `x: "${"a".repeat(10 * 1024 * 1024)}"`, "the document has 10485765 bytes; the maximum is 1048576"],
  ["brackets within brackets", "[".repeat(500_000), "values are nested deeper than 100 levels"],
  ["lists within lists on one line", `${"- ".repeat(200_000)}a`, "values are nested deeper than 100 levels"],
  ["questions within questions", "? ".repeat(200_000), "values are nested deeper than 100 levels"],
  [
    "maps within maps",
    Array.from({ length: 2000 }, (_, i) => `${" ".repeat(i % 300)}a:`).join("\n"),
    "values are nested deeper than 100 levels",
  ],
  ["nothing but commas", `[${",".repeat(400_000)}]`, "more than 100000 tokens"],
  ["nothing but tags", "! ".repeat(300_000), "more than 100000 tokens"],
  ["nothing but line ends", "\n".repeat(800_000), "more than 100000 tokens"],
  ["a list of a hundred thousand", Array.from({ length: 100_000 }, () => "- a").join("\n"), "more than 100000 tokens"],
];

function bomb(levels: number): string {
  const lines = ["a0: &a0 [x, x]", ...Array.from({ length: levels }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]`)];
  return `${head}x-bomb:\n${lines.map((line) => `  ${line}`).join("\n")}\n`;
}

describe("rejects hostile input:", () => {
  test.each(hostile)("%s", async (_, text, message) => {
    const { ok, flows, findings } = await loadFlows({ text });
    expect({ ok, flows }).toEqual({ ok: false, flows: [] });
    expect(findings.map((finding) => [finding.code, finding.message])).toContainEqual(["FLOW_TOO_LARGE", message]);
  });

  test("reports a hundred thousand errors in a few findings", async () => {
    const { ok, findings } = await loadFlows({ text: `[${",".repeat(100_000)}]` });
    expect(ok).toBe(false);
    expect(findings.length).toBeLessThan(20);
  });

  test("a circular alias", async () => {
    const { ok, findings } = await loadFlows({ text: `${head}x-a: &a [1, *a]\n` });
    expect(ok).toBe(false);
    expect(findings).toMatchObject([{ code: "FLOW_BAD_REF", line: 4, column: 13, message: "alias *a refers to a value that contains it" }]);
  });

  test.each(["__proto__", '"__proto__"', "constructor: {}\n  __proto__"])("a key %s changes nothing but itself", async (name) => {
    const { ok } = await loadFlows({ text: `${head}x-a:\n  ${name}: { polluted: true }\n` });
    expect(ok).toBe(false);
    expect("polluted" in {}).toBe(false);
  });

  test("accepts names that every object inherits", async () => {
    const text = `flowdsl: "1.0"
info: { title: T, version: "1" }
nodes:
  constructor: { operationId: constructor, kind: source, outputs: { toString: { packet: valueOf } } }
  hasOwnProperty: { operationId: is_prototype_of, kind: terminal, inputs: { in: { packet: valueOf } } }
edges:
  - from: constructor.toString
    to: hasOwnProperty
    when: payload.constructor == 'a'
    delivery: { mode: direct, packet: valueOf }
components:
  packets:
    valueOf: { type: object, required: [constructor], properties: { constructor: { type: string } } }
`;
    const { flows, findings } = await loadFlows({ text });
    expect(findings).toEqual([]);
    const [edge] = flows[0]?.edges ?? [];
    expect(edge?.packet?.check({ constructor: "a" })).toEqual([]);
    expect(edge?.packet?.check({})).toHaveLength(1);
    // The evaluator determines types by constructor and rejects this value; it returns the reason and does not throw.
    expect(edge?.when?.evaluate({ payload: { constructor: "a" } })).toMatchObject({ ok: false });
    expect(edge?.when?.evaluate({ payload: {} })).toEqual({ ok: true, value: false });
  });
});

test.each(["constructor", "toString", "__defineGetter__", "then", "length"])(
  "reports an unknown field named %s at every level",
  async (name) => {
    const text = `flowdsl: "1.0"
info: { title: T, version: "1", contact: { name: n }, license: { name: n } }
externalDocs: { description: d }
defaults: { retryPolicy: { maxAttempts: 2 }, execution: { maxRetries: 1 } }
nodes: { A: { operationId: a, kind: source, outputs: { out: { packet: P } } }, B: { operationId: b, kind: action, runtime: { grpc: { port: 1 } }, inputs: { in: { packet: P } } } }
edges: [{ from: A, to: B, delivery: { mode: durable, packet: P, retryPolicy: { maxAttempts: 2 }, batching: { enabled: true }, recovery: { strategy: fail } } }]
components: { packets: { P: { type: object, properties: { a: { type: string } } } }, policies: { Q: { mode: direct } } }
`;
    const { ok } = await loadFlows({ text });
    expect(ok).toBe(true);
    for (const value of ["1", "{}", "text"]) {
      const { findings } = await loadFlows({ text: text.replaceAll("{ ", `{ ${name}: ${value}, `) });
      expect(findings.filter(({ code, message }) => code === "FLOW_UNKNOWN_FIELD" && message.includes(name)).length).toBeGreaterThan(8);
    }
  },
);

test.each(["{ $ref: NEXT }", "{ allOf: [{ $ref: NEXT }] }"])("rejects a chain of two thousand references: %s", async (schema) => {
  const packets = Array.from({ length: 2000 }, (_, i) => `    P${i}: ${schema.replace("NEXT", `P${i + 1}`)}`);
  const { ok, findings } = await loadFlows({
    text: `${head}components:\n  packets:\n${packets.join("\n")}\n    P2000: { type: object }\n`,
  });
  expect(ok).toBe(false);
  expect(findings.find(({ pointer }) => pointer === "/components/packets/P0")).toMatchObject({
    code: "FLOW_BAD_SCHEMA",
    message: "the schema follows more than 100 references",
  });
  expect(findings.some(({ pointer }) => pointer === "/components/packets/P1950")).toBe(false);
});

test("limits the number of findings and counts the rest", async () => {
  const fields = Array.from({ length: 50 }, (_, i) => `field${i}: 1`).join("\n");
  const warned = await loadFlows({ text: `${head}${fields}\n` }, { limits: { findingsMax: 10 } });
  expect(warned.ok).toBe(true);
  expect(warned.findings).toHaveLength(11);
  expect(warned.findings.at(-1)).toMatchObject({ code: "FLOW_MORE_WARNINGS", severity: "warning" });
  const wrong = await loadFlows({ text: `${head}${fields}\nedges: [1, 2, 3]\n` }, { limits: { findingsMax: 2 } });
  expect(wrong.ok).toBe(false);
  expect(wrong.findings.at(-1)).toMatchObject({ code: "FLOW_MORE_ERRORS", severity: "error" });
});

test("reports errors before warnings if there are too many findings", async () => {
  const fields = Array.from({ length: 50 }, (_, i) => `field${i}: 1`).join("\n");
  const { findings } = await loadFlows({ text: `${head}${fields}\nentrypoints: [missing]\n` }, { limits: { findingsMax: 5 } });
  expect(findings.filter(({ severity }) => severity === "error")).toMatchObject([{ code: "FLOW_UNKNOWN_NODE" }]);
  expect(findings).toHaveLength(6);
  expect(findings.at(-1)).toMatchObject({ code: "FLOW_MORE_WARNINGS", message: "47 more findings are not shown" });
});

test("does not compute the fix of a finding that is not kept", () => {
  const findings = new Findings(2);
  const guesses: number[] = [];
  for (let line = 1; line <= 1000; line += 1)
    findings.add("FLOW_UNKNOWN_NODE", { file: "a", pointer: "", line, column: 1 }, "node not found", () => {
      guesses.push(line);
      return "";
    });
  expect(guesses).toEqual([1, 2]);
});

test("shortens a name of half a million letters", async () => {
  const { findings } = await loadFlows({ text: `${head}components: { "${"é".repeat(250_000)}🙂": 1 }\n` });
  expect(findings.map(({ message }) => message.length < 500)).toEqual([true, true]);
  expect(findings.at(-1)?.message).toMatch(/^unknown field "é+ … é+🙂"$/);
});

test("a finding is one line without control characters", async () => {
  const { findings } = await loadFlows({ text: `${head}"a\\e[31m\\nb\\u202E": 1\n`, file: "x\u001b[2J\n.yaml" });
  const text = findings.map(findingText).join("\n");
  expect(text).toContain('unknown field "a [31m b "');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that must not be there
  expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
  expect(text.split("\n")).toHaveLength(findings.length);
});

test.each([
  ["a date", "!!timestamp 2001-01-01", "FLOW_BAD_TYPE"],
  ["bytes", "!!binary aGk=", "FLOW_BAD_TYPE"],
  ["an integer in hexadecimal that is rounded", "0xFFFFFFFFFFFFFFFFFF", "FLOW_BAD_NUMBER"],
  ["an octal one", "0o7777777777777777777777", "FLOW_BAD_NUMBER"],
])("rejects %s, which JSON cannot represent", async (_, value, code) => {
  const { ok, findings } = await loadFlows({ text: `${head}x-a: ${value}\n` });
  expect(ok).toBe(false);
  expect(findings).toMatchObject([{ code, pointer: "/x-a", line: 4, column: expect.any(Number) as number }]);
});

test("rejects text with NUL characters", async () => {
  const { ok, findings } = await loadFlows({ text: [...head].map((sign) => `${sign}\0`).join("") });
  expect(ok).toBe(false);
  expect(findings).toMatchObject([{ code: "FLOW_SYNTAX", line: 1, column: 2, message: "contains a NUL character: it is not UTF-8 text" }]);
});

test.each([
  ["flow", 'flows: { "a\\0": { nodes: { A: { operationId: a, kind: source } } } }', "/flows/a\0"],
  ["flow", 'flows: { "": { nodes: { A: { operationId: a, kind: source } } } }', "/flows/"],
  ["node", 'nodes: { "a\\nb": { operationId: a, kind: source } }', "/nodes/a\nb"],
  ["node", `nodes: { ${"a".repeat(300)}: { operationId: a, kind: source } }`, `/nodes/${"a".repeat(300)}`],
  ["port", 'nodes: { A: { operationId: a, kind: source, outputs: { "": {} } } }', "/nodes/A/outputs/"],
])("rejects an invalid name of a %s: %s", async (what, line, pointer) => {
  const { ok, findings } = await loadFlows({ text: `flowdsl: "1.0"\ninfo: { title: T, version: "1" }\n${line}\n` });
  expect(ok).toBe(false);
  expect(findings.filter(({ severity }) => severity === "error")).toMatchObject([
    { code: "FLOW_BAD_VALUE", pointer, message: `the name of a ${what} must have 1 to 200 characters and no control characters` },
  ]);
});

test("reports circular references without proposing another name", async () => {
  const text = `flowdsl: "1.0"
info: { title: T, version: "1" }
nodes: { A: { $ref: "#/components/nodes/B" } }
components: { nodes: { B: { $ref: "#/components/nodes/C" }, C: { $ref: "#/components/nodes/B" } } }
`;
  const { findings } = await loadFlows({ text });
  expect(findings.filter(({ code }) => code === "FLOW_BAD_REF")).toMatchObject([
    { pointer: "/components/nodes/B/$ref", message: 'the reference "#/components/nodes/C" is circular' },
  ]);
});

test.each([
  ['{\n  "flowdsl": "1.0",\n  "info": tru\n}\n', 3, 14],
  ['{\n  "flowdsl": "1.0",\n  "nodes": {},\n}\n', 4, 1],
  ['{\n  "flowdsl": "1.0",\n  "x-list": [1, 2, ]\n}\n', 3, 20],
  ["{\n  \"flowdsl\": '1.0'\n}\n", 2, 14],
  ['{\n  "flowdsl": "1.0"\n}\n{', 4, 1],
  ['{ "flowdsl": 01 }', 1, 15],
  ['{ "flowdsl": "1.0", # not here\n  "nodes": {} }', 1, 21],
])("reports the position of a JSON error: %j", async (text, line, column) => {
  const { findings } = await loadFlows({ text, file: "a.json" });
  expect(findings.filter(({ code }) => code === "FLOW_SYNTAX").slice(0, 1)).toMatchObject([{ line, column }]);
  for (const { message } of findings) expect(message).not.toContain("\n");
});

test("a file named .json must be JSON", async () => {
  const json = '{\n\t"flowdsl": "1.0", "info": { "title": "T", "version": "1" },\n\t"nodes": {}\n}';
  expect((await loadFlows({ text: json, file: "a.json" })).ok).toBe(true);
  const { findings } = await loadFlows({ text: json.replace('"nodes"', "nodes"), file: "a.json" });
  expect(findings).toMatchObject([{ code: "FLOW_SYNTAX", line: 3 }]);
});

test("a byte order mark, CRLF and an empty text", async () => {
  const { ok, findings } = await loadFlows({ text: `\uFEFF${head.replaceAll("\n", "\r\n")}oops: 1\r\n` });
  expect(ok).toBe(true);
  expect(findings.find(({ code }) => code === "FLOW_UNKNOWN_FIELD")).toMatchObject({ line: 4, column: 1 });
  for (const text of ["", "\n", "# nothing\n", "null"]) expect((await loadFlows({ text })).ok, JSON.stringify(text)).toBe(false);
});

test("a missing file, a folder, and files that are not text are findings", async () => {
  const folder = mkdtempSync(join(tmpdir(), "onceflow-load-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const latin1 = join(folder, "latin1.yaml");
  writeFileSync(latin1, Buffer.from(`${head}x-a: caf\u00e9\n`, "latin1"));
  for (const [path, code, why] of [
    ["/not/there.yaml", "FLOW_UNREADABLE", "no such file"],
    [join(latin1, "below.yaml"), "FLOW_UNREADABLE", "no such file"],
    [import.meta.dirname, "FLOW_UNREADABLE", "it is not a file"],
    [latin1, "FLOW_UNREADABLE", "it is not UTF-8"],
    [process.execPath, "FLOW_TOO_LARGE", "the maximum is 1048576"],
  ] as const)
    expect(await loadFlows(path)).toMatchObject({
      ok: false,
      findings: [{ code, file: path, message: expect.stringContaining(why) as string }],
    });
});

test("rejects wrong arguments", async () => {
  for (const source of [undefined, 12, {}, { file: "a.yaml" }])
    await expect(loadFlows(source as never)).rejects.toThrow("source: must be a path");
  await expect(loadFlows({ text: head }, { limits: { depthMax: -1 } })).rejects.toThrow("limits.depthMax: must be a positive integer");
});
