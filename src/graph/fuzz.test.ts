import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { findingCodes } from "./finding-codes.js";
import { formatFlow } from "./format.js";
import { generateDocs } from "./generate/markdown.js";
import { generateTypeScript } from "./generate/typescript.js";
import { loadFlows } from "./load-flows.js";

const folder = resolve(import.meta.dirname, "../../examples/flows");
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

test("whatever is done to a document, loading ends with findings or with plans that can be used", { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...texts), fc.array(change, { minLength: 1, maxLength: 4 }), async (text, changes) => {
      const mutated = changes.reduce(mutate, text);
      const { ok, flows, findings } = await loadFlows({ text: mutated, file: join(folder, "x.yaml") });
      const lines = mutated.split(/\r\n|\r|\n/).length;
      for (const finding of findings) {
        expect(findingCodes).toHaveProperty(finding.code);
        expect(finding.message).not.toMatch(/undefined|\[object|Cannot read/);
        expect(finding.line).toBeGreaterThan(0);
        if (finding.file.endsWith("x.yaml")) expect(finding.line).toBeLessThanOrEqual(lines);
      }
      expect(ok).toBe(!findings.some(({ severity }) => severity === "error"));
      for (const plan of flows) {
        generateDocs(plan);
        generateTypeScript(plan);
        for (const { when, delivery } of plan.edges) {
          when?.evaluate({ payload: { a: 1 }, output: "x" });
          delivery.key?.make({ payload: {}, operationId: "o", flowId: "f" });
        }
      }
      formatFlow(mutated);
    }),
    { numRuns: 150 },
  );
});
