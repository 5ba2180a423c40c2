import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { cpuMs } from "../../../../test/kit/cpu-time.js";
import { fc } from "../../../../test/kit/properties.js";
import { loadFlows } from "../../load/load-flows.js";

async function edgeWith({ when, key }: { readonly when?: string; readonly key?: string }) {
  const document = {
    flowdsl: "1.0",
    info: { title: "T", version: "1" },
    nodes: { A: { operationId: "a", kind: "source" }, B: { operationId: "b", kind: "action" } },
    edges: [{ from: "A", to: "B", ...(when && { when }), delivery: { mode: "durable", ...(key && { idempotencyKey: key }) } }],
  };
  const { flows, findings } = await loadFlows({ text: JSON.stringify(document), file: "t.json" });
  return { edge: flows[0]?.edges[0], findings };
}

async function keyOf(key: string, payload: unknown) {
  const { edge, findings } = await edgeWith({ key });
  expect(findings.filter(({ severity }) => severity === "error")).toEqual([]);
  return edge?.delivery.key?.make({ payload, operationId: "b", flowId: "t" });
}

const page = readFileSync(resolve(import.meta.dirname, "../../../../docs/reference/graph-documents.md"), "utf8");

/** The rows of the table below a heading: the code of each cell. */
function rowsBelow(heading: string): readonly (readonly string[])[] {
  const section = page.slice(page.indexOf(heading)).split("\n").slice(1);
  const table = section.slice(section.findIndex((line) => line.startsWith("|---")) + 1);
  const end = table.findIndex((line) => !line.startsWith("|"));
  return table.slice(0, end).map((line) => line.split(" | ").map((cell) => /`(.*)`/.exec(cell)?.[1] ?? cell));
}

describe("the documented functions", () => {
  const rows = rowsBelow("### Functions and operators");

  test("the table has every function", () => {
    expect(rows.length).toBeGreaterThan(25);
  });

  test.each(rows)("%s of %s is %s", async (expression, packet, value) => {
    expect(await keyOf(expression ?? "", JSON.parse(packet ?? ""))).toEqual({ ok: true, value: String(JSON.parse(value ?? "")) });
  });
});

describe("no value, but a reason", () => {
  test.each(rowsBelow("### Expressions without a value"))("%s of %s: %s", async (expression, packet, why) => {
    expect(await keyOf(expression ?? "", JSON.parse(packet ?? ""))).toEqual({ ok: false, why });
  });

  test.each([
    [
      "payload.a.includes('b')",
      "the function includes() is not allowed (at character 1)",
      "use contains() for a string, or `value in list`",
    ],
    ["payload.a.length() > 1", "the function length() is not allowed (at character 1)", "use .length without parentheses, or size()"],
    ["payload.a.startWith('b')", "the function startWith() is not allowed (at character 1)", "did you mean startsWith()?"],
    [
      "payload.a == 1 && payload.b.exists(x, x.c.all(y, y))",
      "all() inside exists() or all() is not allowed (at character 39)",
      "decide it in a node",
    ],
    [
      "payload.a.matches('(?=b)')",
      expect.stringContaining("the pattern"),
      "patterns run in linear time: write alternatives and conditions out",
    ],
  ])("%s is rejected with advice", async (when, message, fix) => {
    const { findings } = await edgeWith({ when });
    expect(findings.filter(({ severity }) => severity === "error")).toMatchObject([{ code: "FLOW_BAD_EXPRESSION", message, fix }]);
  });
});

describe("templates", () => {
  test.each([
    ["{{payload.items[0].id}}-ship", "i-1-ship"],
    ["{{payload.email.trim().lower()}}-welcome", "ann@example.com-welcome"],
    ["{{operationId}}:{{payload.items.length}}:{{ payload.n > 1 ? 'many' : 'one' }}", "b:2:many"],
  ])("%s", async (key, value) => {
    const payload = { items: [{ id: "i-1" }, {}], email: " Ann@Example.com", n: 2 };
    expect(await keyOf(key, payload)).toEqual({ ok: true, value });
  });

  test.each(["{{payload.items[5].id}}-ship", "{{payload.email.trim()}}-welcome", "{{payload.none.lower()}}-x", "{{payload.items[0]}}-x"])(
    "%s makes no key from a missing, empty or wrong value",
    async (key) => {
      const made = await keyOf(key, { items: [{ id: "i-1" }], email: "  " });
      expect(made).toEqual({ ok: false, why: expect.stringMatching(/\w/) as string });
      expect(JSON.stringify(made)).not.toContain("undefined");
    },
  );

  test.each(["{{payload.a.nope()}}-x", "{{secret.a.lower()}}-x", "{{payload.}}-x", "{{1 +}}-x"])("rejects %s at load", async (key) => {
    const { findings } = await edgeWith({ key });
    expect(findings.map(({ code }) => code)).toContain("FLOW_BAD_TEMPLATE");
  });
});

test("any text is rejected at load, or has a value or a reason for every packet", async () => {
  const piece = fc.constantFrom(
    ...["payload", "output", "input.payload", "x", ".a", ".b", "[0]", ".length", ".size()", ".lower()", ".trim()", ".contains('a')"],
    ...[
      ".matches('a+')",
      ".exists(x, ",
      ".all(x, ",
      "size(",
      "int(",
      "double(",
      "string(",
      "has(",
      "(",
      ")",
      ",",
      "'a'",
      "1",
      "2.5",
      "true",
      "null",
    ],
    ...[" == ", " < ", " + ", " - ", " * ", " / ", " % ", " && ", " || ", " in ", " ? ", " : ", "!", "-", "['a', 'b']", "[1, -2]", "{}"],
  );
  const packet = fc.dictionary(fc.constantFrom("a", "b", "length"), fc.jsonValue({ maxDepth: 3 }));
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 9 }), packet, async (pieces, payload) => {
      const { edge, findings } = await edgeWith({ when: pieces.join("") });
      const result = edge?.when?.evaluate({ payload, output: "out" });
      expect(JSON.stringify([findings, result])).not.toMatch(/undefined|\[object|Cannot read|_\(/);
      if (result !== undefined) expect(result.ok ? typeof result.value : result.why).toMatch(/\w/);
    }),
    { numRuns: 300 },
  );
});

describe("large packets", () => {
  const items = Array.from({ length: 50_000 }, (_, i) => ({ id: `item-${i}`, price: i }));
  const text = "x".repeat(500_000);

  test("takes time in proportion to the packet", async () => {
    const { edge } = await edgeWith({
      when: "payload.items.all(x, x.price >= 0 && x.id.startsWith('item-')) && !payload.text.contains('y') && payload.text.length > 5 && payload.text.matches('^x+$')",
    });
    edge?.when?.evaluate({ payload: { items: [], text: "" } });
    let result: unknown;
    const spentMs = cpuMs(() => {
      result = edge?.when?.evaluate({ payload: { items, text } });
    });
    expect(result).toEqual({ ok: true, value: true });
    expect(spentMs).toBeLessThan(2000);
  });

  test.each([
    "payload.items.exists(x, payload.text.contains(x.id))",
    "payload.items.all(x, payload.text.lower() != x.id)",
    "payload.items.exists(x, (payload.text + x.id).endsWith('y'))",
    "payload.items.exists(x, x.id in payload.others)",
    "payload.items.exists(x, size(payload.text) == x.price - 1000000)",
  ])("%s ends at a limit", async (when) => {
    const { edge } = await edgeWith({ when });
    let result: unknown;
    const spentMs = cpuMs(() => {
      result = edge?.when?.evaluate({ payload: { items, text, others: items.map(({ price }) => `other-${price}`) } });
    });
    expect(result).toEqual({ ok: false, why: "the expression reads more than 10000000 characters; decide it in a node" });
    expect(spentMs).toBeLessThan(3000);
  });
});
