import { expect, test } from "vitest";
import { parse } from "yaml";
import { convertFlow, formatFlow } from "../format/format.js";
import { loadFlows } from "./load-flows.js";

const flow = `flowdsl: "1.0"
info: { title: T, version: "1" }
x-slow: &slow { mode: durable, store: sqlite, timeout: PT1M }
x-keyed: &keyed
  mode: checkpoint
  idempotencyKey: "{{payload.id}}-b"
  priority: 7
nodes: { A: { operationId: a, kind: source }, B: { operationId: b, kind: transform } }
edges:
  - from: A
    to: B
    delivery:
      priority: 3
      <<: [*slow, *keyed]
      timeout: PT2M
`;

test("own fields come before merged fields, and earlier maps before later ones", async () => {
  const { ok, flows, findings } = await loadFlows({ text: flow });
  expect({ ok, findings }).toEqual({ ok: true, findings: [] });
  expect(flows[0]?.edges[0]?.delivery).toMatchObject({
    mode: "durable",
    store: "sqlite",
    timeoutMs: 120_000,
    priority: 3,
    key: { text: "{{payload.id}}-b" },
  });
});

test("agrees with the YAML library", () => {
  const { text } = convertFlow(flow, { to: "json" });
  expect(JSON.parse(text)).toEqual(parse(flow, { merge: true }));
});

test("a finding in a merged field points to where the field is written", async () => {
  const { findings } = await loadFlows({ text: flow.replace("priority: 7", "priorty: 7").replace("PT1M }", "PT1M, backof: 1 }") });
  expect(findings).toMatchObject([
    { code: "FLOW_UNKNOWN_FIELD", pointer: "/x-slow/backof", line: 3, fix: expect.stringContaining("remove it") as string },
    { code: "FLOW_UNKNOWN_FIELD", pointer: "/x-keyed/priorty", line: 7, column: 3, fix: 'did you mean "priority"?' },
  ]);
});

test("a merge of merges, and of an inline map", () => {
  const text = "a: &a { x: 1, y: 1 }\nb: &b { <<: *a, y: 2 }\nc: { <<: { z: 3 }, x: 0 }\nd: { <<: *b }\n";
  expect(JSON.parse(convertFlow(text, { to: "json" }).text)).toEqual({
    a: { x: 1, y: 1 },
    b: { x: 1, y: 2 },
    c: { z: 3, x: 0 },
    d: { x: 1, y: 2 },
  });
});

test.each([
  ["a: { <<: 5 }", "FLOW_BAD_TYPE", "a merge key takes a map, or a list of maps", "/a/<<"],
  ["a: &a { x: 1 }\nb: { <<: [*a, 5] }", "FLOW_BAD_TYPE", "a merge key takes a map, or a list of maps", "/b/<</1"],
  ["a: &a { x: 1 }\nb: { <<: *a, <<: *a }", "FLOW_DUPLICATE_KEY", '"<<" occurs twice', "/b"],
  ["a: &a { <<: *a }", "FLOW_BAD_REF", "alias *a refers to a value that contains it", "/a/<<"],
  ["a: { <<: *b }\nb: &b { x: 1 }", "FLOW_BAD_REF", "anchor &b not found", "/a/<<"],
  ["a: { x: 1, <<: &b { y: 1, y: 2 } }", "FLOW_DUPLICATE_KEY", '"y" occurs twice', "/a/<<"],
])("%s", async (text, code, message, pointer) => {
  const { findings } = await loadFlows({ text });
  expect(findings).toMatchObject([{ code, message, pointer, fix: expect.stringMatching(/\w/) as string }]);
});

test("many merges of a large map end at a limit before they fill the memory", async () => {
  const fields = Array.from({ length: 1000 }, (_, i) => `k${i}: 1`).join(", ");
  const text = `a: &a { ${fields} }\nb:\n${"  - { <<: *a }\n".repeat(5000)}`;
  const { findings } = await loadFlows({ text });
  expect(findings).toMatchObject([
    { code: "FLOW_TOO_LARGE", message: "merge keys copy more than 100000 values", pointer: "/b/100/<<", line: 103 },
  ]);
});

test("a chain of doubling merges is counted, too", async () => {
  const levels = Array.from({ length: 40 }, (_, i) => `a${i + 1}: &a${i + 1} { <<: [*a${i}, *a${i}], k${i}: *a${i} }`);
  const { findings } = await loadFlows({ text: `a0: &a0 { x: 1 }\n${levels.join("\n")}\n` });
  expect(findings.map(({ code }) => code)).toContain("FLOW_TOO_LARGE");
});

test("format keeps merge keys, and puts them first", () => {
  const { text, findings } = formatFlow(flow);
  expect(findings).toEqual([]);
  expect(parse(text, { merge: true })).toEqual(parse(flow, { merge: true }));
  expect(text).toContain("delivery:\n      <<: [*slow, *keyed]\n      priority: 3");
  expect(formatFlow(text).changed).toBe(false);
});

test("a quoted << is an ordinary field, also in JSON", async () => {
  const quoted = await loadFlows({ text: flow.replace("<<: [*slow, *keyed]", '"<<": 1\n      mode: direct') });
  expect(quoted.findings.filter(({ code }) => code === "FLOW_UNKNOWN_FIELD")).toMatchObject([
    { message: 'unknown field "<<"', fix: expect.stringContaining("without quotes") as string },
  ]);
});
