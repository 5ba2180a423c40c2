import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { fc } from "../../../test/kit/properties.js";
import { findingCodes } from "../findings/finding-codes.js";
import { formatFlow } from "../format/format.js";
import { generateDocs } from "../generate/markdown.js";
import { generateTypeScript } from "../generate/typescript.js";
import { loadFlows } from "./load-flows.js";

const folder = resolve(import.meta.dirname, "../../../examples/flows");
const texts = readdirSync(folder)
  .filter((name) => name.includes(".flowdsl."))
  .map((name) => readFileSync(join(folder, name), "utf8"));

type Change = readonly ["delete" | "double" | "replace" | "insert" | "swap", number, number, string];

const pieces = fc.constantFrom(
  "null",
  "[]",
  "{}",
  "- ",
  ": ",
  "\n",
  "  ",
  "*a",
  "&a ",
  "!!set ",
  "!x ",
  "'",
  '"',
  "#",
  "|",
  ">",
  "? ",
  "---\n",
  "<<: ",
  "1e400",
  "{{",
  "}}",
  "payload.",
  "$ref",
  "\t",
  "\u0000",
  "\ud800",
  "%YAML 1.1\n",
  "-1",
  "true",
  "__proto__: ",
  "constructor: ",
  "#/components/packets/Order",
  "flows: ",
  "nodes: ",
  "mode: stream",
  "<<: *a\n",
  "<<: [*a, *a]\n",
  "workflowRef: '#/flows/x'",
  "$ref: ./other.yaml#/a",
  "$ref: '#/components/edges/x'",
  "when: payload.items.exists(x, x.a > 1)",
  ".length",
  "[[[[",
  "}",
);
const change: fc.Arbitrary<Change> = fc.tuple(
  fc.constantFrom("delete", "double", "replace", "insert", "swap"),
  fc.nat(),
  fc.nat(60),
  pieces,
);

function mutate(text: string, [kind, where, length, piece]: Change): string {
  const at = where % (text.length + 1);
  const [before, part, after] = [text.slice(0, at), text.slice(at, at + length), text.slice(at + length)];
  if (kind === "delete") return before + after;
  if (kind === "double") return before + part + part + after;
  if (kind === "replace") return before + piece + after;
  if (kind === "insert") return before + piece + part + after;
  return part + before + after;
}

/** Loading ends, findings contain no internal texts, and plans can be used. */
async function loadAndUse(text: string, file: string): Promise<void> {
  const { ok, flows, findings } = await loadFlows({ text, file });
  const lines = text.split(/\r\n|\r|\n/).length;
  for (const finding of findings) {
    expect(findingCodes).toHaveProperty(finding.code);
    expect(finding.message).not.toMatch(/undefined|\[object|Cannot read/);
    expect(finding.line).toBeGreaterThan(0);
    if (finding.file === file) expect(finding.line).toBeLessThanOrEqual(lines);
  }
  expect(ok).toBe(!findings.some(({ severity }) => severity === "error"));
  for (const plan of flows) {
    generateDocs(plan);
    generateTypeScript(plan);
    for (const { when, delivery, packet } of plan.edges) {
      when?.evaluate({ payload: { a: 1 }, output: "x" });
      packet?.check({ a: 1 });
      delivery.key?.make({ payload: {}, operationId: "o", flowId: "f" });
    }
  }
}

test("loading a changed text ends with findings or with usable plans", async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...texts), fc.array(change, { minLength: 1, maxLength: 4 }), async (text, changes) => {
      const mutated = changes.reduce(mutate, text);
      await loadAndUse(mutated, join(folder, "x.yaml"));
      formatFlow(mutated);
    }),
    { numRuns: 150 },
  );
});

test("any value may be any other value", async () => {
  const values: readonly unknown[] = [null, [], {}, 1, "x", "", true, [null], { a: null }, "{{", "#/components/packets/P", [["a"]]];
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...texts), fc.nat(), fc.constantFrom(...values), async (text, where, value) => {
      const document: unknown = parse(text);
      const spots = spotsIn(document);
      const [holder, name] = spots[where % spots.length] ?? [{}, ""];
      holder[name] = value;
      await loadAndUse(JSON.stringify(document), join(folder, "x.json"));
    }),
    { numRuns: 200 },
  );
});

type Holder = Record<string, unknown>;

function spotsIn(value: unknown): readonly (readonly [Holder, string])[] {
  if (typeof value !== "object" || value === null) return [];
  const holder = value as Holder;
  return Object.keys(holder).flatMap((name) => [[holder, name] as const, ...spotsIn(holder[name])]);
}
