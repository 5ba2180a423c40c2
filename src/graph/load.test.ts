import { describe, expect, test } from "vitest";
import { loadFlows } from "./load-flows.js";

const head = 'flowdsl: "1.0"\ninfo: { title: T, version: "1" }\nnodes: {}\n';

/** What is refused, whatever it holds. The bounds are counted, not timed: see that they stop the reading. */
const hostile: readonly (readonly [string, string, string])[] = [
  ["aliases that double twenty times", bomb(20), "more than 100000 values, aliases included"],
  ["ten megabytes", `x: "${"a".repeat(10 * 1024 * 1024)}"`, "10485765 bytes; 1048576 are allowed"],
  ["brackets within brackets", "[".repeat(500_000), "values are nested deeper than 100 levels"],
  ["lists within lists on one line", `${"- ".repeat(200_000)}a`, "values are nested deeper than 100 levels"],
  ["questions within questions", "? ".repeat(200_000), "values are nested deeper than 100 levels"],
  [
    "maps within maps",
    Array.from({ length: 2000 }, (_, i) => `${" ".repeat(i % 300)}a:`).join("\n"),
    "values are nested deeper than 100 levels",
  ],
  ["nothing but commas", `[${",".repeat(400_000)}]`, "more than 100000 pieces of syntax"],
  ["nothing but tags", "! ".repeat(300_000), "more than 100000 pieces of syntax"],
  ["nothing but line ends", "\n".repeat(800_000), "more than 100000 pieces of syntax"],
  ["a list of a hundred thousand", Array.from({ length: 100_000 }, () => "- a").join("\n"), "more than 100000 pieces of syntax"],
];

function bomb(levels: number): string {
  const lines = ["a0: &a0 [x, x]", ...Array.from({ length: levels }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]`)];
  return `${head}x-bomb:\n${lines.map((line) => `  ${line}`).join("\n")}\n`;
}

describe("hostile input is refused:", () => {
  test.each(hostile)("%s", async (_, text, message) => {
    const { ok, flows, findings } = await loadFlows({ text });
    expect({ ok, flows }).toEqual({ ok: false, flows: [] });
    expect(findings.map((finding) => [finding.code, finding.message])).toContainEqual(["FLOW_TOO_LARGE", message]);
  });

  test("a hundred thousand mistakes are told in a few lines", async () => {
    const { ok, findings } = await loadFlows({ text: `[${",".repeat(100_000)}]` });
    expect(ok).toBe(false);
    expect(findings.length).toBeLessThan(20);
  });

  test("a circle of aliases", async () => {
    const { ok, findings } = await loadFlows({ text: `${head}x-a: &a [1, *a]\n` });
    expect(ok).toBe(false);
    expect(findings).toMatchObject([{ code: "FLOW_BAD_REF", line: 4, column: 13, message: "*a is part of itself" }]);
  });

  test.each(["__proto__", '"__proto__"', "constructor: {}\n  __proto__"])("a key %s changes nothing but itself", async (name) => {
    const { ok } = await loadFlows({ text: `${head}x-a:\n  ${name}: { polluted: true }\n` });
    expect(ok).toBe(false);
    expect("polluted" in {}).toBe(false);
  });

  test("names of things that every object has are names like others", async () => {
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
    // The evaluator tells types by their constructors, and refuses this one. It says so, and does not throw.
    expect(edge?.when?.evaluate({ payload: { constructor: "a" } })).toMatchObject({ ok: false });
    expect(edge?.when?.evaluate({ payload: {} })).toMatchObject({ ok: false });
  });
});

test("findings are bounded, and the rest is counted", async () => {
  const fields = Array.from({ length: 50 }, (_, i) => `field${i}: 1`).join("\n");
  const warned = await loadFlows({ text: `${head}${fields}\n` }, { limits: { findingsMax: 10 } });
  expect(warned.ok).toBe(true);
  expect(warned.findings).toHaveLength(11);
  expect(warned.findings.at(-1)).toMatchObject({ code: "FLOW_MORE_WARNINGS", severity: "warning" });
  const wrong = await loadFlows({ text: `${head}${fields}\nedges: [1, 2, 3]\n` }, { limits: { findingsMax: 2 } });
  expect(wrong.ok).toBe(false);
  expect(wrong.findings.at(-1)).toMatchObject({ code: "FLOW_MORE_ERRORS", severity: "error" });
});

test("a file that is JSON by its name is JSON", async () => {
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

test("a path that is not there, a folder, and a file that is not text are findings", async () => {
  for (const path of ["/not/there.yaml", import.meta.dirname, process.execPath])
    expect(await loadFlows(path)).toMatchObject({ ok: false, findings: [{ code: "FLOW_UNREADABLE", file: path }] });
});

test("a call that is none is refused", async () => {
  for (const source of [undefined, 12, {}, { file: "a.yaml" }])
    await expect(loadFlows(source as never)).rejects.toThrow("source: must be a path");
  await expect(loadFlows({ text: head }, { limits: { depthMax: -1 } })).rejects.toThrow("limits.depthMax: must be a positive integer");
});
