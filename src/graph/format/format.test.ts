import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { fc } from "../../../test/kit/properties.js";
import { convertFlow, formatFlow } from "./format.js";

const folder = resolve(import.meta.dirname, "../../../examples/flows");
const examples = readdirSync(folder).filter((name) => name.endsWith(".yaml"));
const textOf = (name: string) => readFileSync(join(folder, name), "utf8");
const comments = (text: string) => [...text.matchAll(/#c\d+/g)].map(([comment]) => comment).sort();

test.each(examples)("%s keeps its meaning when formatted and converted", (name) => {
  const text = textOf(name);
  const formatted = formatFlow(text);
  expect(parse(formatted.text)).toEqual(parse(text));
  expect(formatFlow(formatted.text)).toMatchObject({ changed: false, findings: [] });
  const json = convertFlow(text, { to: "json" });
  expect(JSON.parse(json.text)).toEqual(parse(text));
  expect(parse(convertFlow(json.text, { to: "yaml", file: "a.json" }).text)).toEqual(parse(text));
});

test.each(examples.filter((name) => name.includes(".flowdsl.")))("%s is already formatted", (name) => {
  expect(formatFlow(textOf(name))).toMatchObject({ changed: false, findings: [] });
});

test("orders fields, with their comments", () => {
  const { text } = formatFlow(`# about the whole

# about the parts
components: {}   # none yet
edges:
  # the only one
  - delivery: {mode: direct} # quick
    to: B
    # where it begins
    from: A
x-more: [1,   2]
info:
    # its version
    version: "1"
    title: T
flowdsl: "1.0" # the old one
`);
  expect(text).toBe(`# about the whole

flowdsl: "1.0" # the old one
info:
  title: T
  # its version
  version: "1"
edges:
  # the only one
  - # where it begins
    from: A
    to: B
    delivery: { mode: direct } # quick
# about the parts
components: {} # none yet
x-more: [1, 2]
`);
});

test.each(["flow.yaml", "flow.json"])("%s: keeps line endings, and formatting again changes nothing", (file) => {
  const document = file.endsWith("json")
    ? '{\n"info": { "title": "T", "version": "1" },\n"flowdsl": "1.0"\n}\n'
    : 'info: { title: T, version: "1", description: "two\\r\\nlines" } # about it\n# the version\nflowdsl: "1.0"\nx-a: |\n    two\n    lines\n';
  const { text, changed, findings } = formatFlow(document.replaceAll("\n", "\r\n"), { file });
  expect([changed, findings]).toEqual([true, []]);
  expect(text).toBe(formatFlow(document, { file }).text.replaceAll("\n", "\r\n"));
  expect(text).not.toMatch(/[^\r]\n|\r\r/);
  expect(formatFlow(text, { file })).toMatchObject({ text, changed: false });
});

test("formats a line that becomes twenty thousand lines", () => {
  const numbers = Array.from({ length: 20_000 }, (_, i) => i).join(", ");
  const { changed, findings } = formatFlow(`info: { title: T, version: "1" }\nflowdsl: "1.0"\nx-a: [${numbers}]\n`);
  expect([changed, findings]).toEqual([true, []]);
});

test("JSON stays JSON", () => {
  expect(formatFlow('{"info":{"version":"1","title":"T"},"flowdsl":"1.0"}', { file: "a.flowdsl.json" }).text).toBe(`{
  "flowdsl": "1.0",
  "info": {
    "title": "T",
    "version": "1"
  }
}
`);
});

test("returns an unreadable text unchanged", () => {
  for (const text of ["a: [", "a: 1\na: 2", ""]) {
    const { text: same, changed, findings } = formatFlow(text);
    expect({ same, changed }).toEqual({ same: text, changed: false });
    expect(findings[0]?.severity).toBe("error");
    expect(convertFlow(text, { to: "json" }).findings[0]?.severity).toBe("error");
  }
});

test("reports a document that would lose a comment, and returns it unchanged", () => {
  const text = "?   # one\n:   # two\n";
  expect(formatFlow(text)).toMatchObject({ text, changed: false, findings: [{ code: "FLOW_NOT_FORMATTED" }] });
});

test("keeps an anchor before its aliases", () => {
  const text = 'components: { packets: { A: &a { type: object } } }\nflowdsl: "1.0"\nnodes: { N: *a }\n';
  const { text: formatted, findings } = formatFlow(text);
  expect(findings).toEqual([]);
  expect(parse(formatted)).toEqual(parse(text));
  expect(formatted.indexOf("&a")).toBeLessThan(formatted.indexOf("*a"));
});

describe("for any document with comments anywhere", () => {
  const scalar = fc.oneof(
    fc.constantFrom("plain", '"quoted # no comment"', "'it''s'", "12", "1.50", "true", "null", '"1.0"', "~", "a: b".replace(": ", ":")),
  );
  const name = fc.constantFrom(
    "flowdsl",
    "info",
    "nodes",
    "edges",
    "components",
    "title",
    "version",
    "from",
    "to",
    "delivery",
    "mode",
    "x-a",
    "operationId",
    "kind",
  );
  type Line = { readonly name: string; readonly value: string | readonly Line[]; readonly above: boolean; readonly beside: boolean };
  const { lines } = fc.letrec<{ lines: readonly Line[] }>((tie) => ({
    lines: fc.uniqueArray(
      fc.record({
        name,
        value: fc.oneof({ depthSize: "small" }, scalar, tie("lines")),
        above: fc.boolean(),
        beside: fc.boolean(),
      }) as fc.Arbitrary<Line>,
      { minLength: 1, maxLength: 5, selector: (line) => line.name },
    ),
  }));
  const write = (all: readonly Line[], indent: string, count: { n: number }): string =>
    all
      .map((line) => {
        const comment = () => {
          count.n += 1;
          return `#c${count.n}`;
        };
        const above = line.above ? `${indent}${comment()}\n` : "";
        const head = `${indent}${line.name}:`;
        const value = typeof line.value === "string" ? ` ${line.value}` : "";
        const below = typeof line.value === "string" ? "" : write(line.value, `${indent}  `, count);
        return `${above}${head}${value}${line.beside ? ` ${comment()}` : ""}\n${below}`;
      })
      .join("");

  test("format keeps comments and meaning, and is idempotent", () => {
    fc.assert(
      fc.property(lines, (all) => {
        const text = write(all, "", { n: 0 });
        const formatted = formatFlow(text);
        expect(formatted.findings.filter(({ code }) => code === "FLOW_NOT_FORMATTED")).toEqual([]);
        expect(parse(formatted.text)).toEqual(parse(text));
        expect(comments(formatted.text)).toEqual(comments(text));
        expect(formatFlow(formatted.text).text).toBe(formatted.text);
      }),
      { numRuns: 100 },
    );
  });

  test("YAML to JSON to YAML keeps the meaning", () => {
    fc.assert(
      fc.property(lines, (all) => {
        const text = write(all, "", { n: 0 });
        const json = convertFlow(text, { to: "json" }).text;
        expect(parse(convertFlow(json, { to: "yaml", file: "a.json" }).text)).toEqual(parse(text));
      }),
      { numRuns: 50 },
    );
  });
});
