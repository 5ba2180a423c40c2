import { describe, expect, test } from "vitest";
import type { JsonSchema } from "./compiler.js";
import { keywords } from "./known-keywords.js";
import { SchemaChecks } from "./schema-check.js";
import { isValid } from "./verdict.js";

function validBy(schema: unknown, value: unknown, definitions: Record<string, unknown> = {}): boolean {
  const table = { ...definitions, P: schema } as Record<string, JsonSchema>;
  return isValid(new SchemaChecks(table).of("P"), value);
}

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;
const own = (json: string) => JSON.parse(json) as unknown;
const inherits = (inherited: object, members: object) => Object.assign(Object.create(inherited), members) as unknown;

/** Valid and invalid values, including values that JSON cannot represent, which a node may send. The official suite has only JSON. */
const cases: Record<string, readonly (readonly [schema: unknown, valid: readonly unknown[], wrong: readonly unknown[]])[]> = {
  type: [
    [{ type: "string" }, ["", "a"], [1, null, true, {}, []]],
    [{ type: "number" }, [1, 1.5, -0, nan, infinity], ["1", null]],
    [{ type: "integer" }, [1, -0, 1e21], [1.5, nan, infinity, "1", null]],
    [{ type: ["integer", "null"] }, [1, null], [1.5, infinity, nan, "1"]],
    [{ type: ["number", "integer"] }, [1.5, infinity], ["1"]],
    [{ type: "boolean" }, [true, false], [0, "true"]],
    [{ type: "null" }, [null], [0, "", {}]],
    [{ type: "object" }, [{}, inherits({ a: 1 }, {}), new Date(0)], [[], null, "a"]],
    [{ type: "array" }, [[]], [{}, { length: 0 }, "a"]],
  ],
  properties: [
    [{ properties: { a: { type: "string" } } }, [{}, { a: "" }, { b: 1 }, 1, ["a"], inherits({ a: 1 }, {})], [{ a: 1 }, { a: null }]],
    [{ properties: { constructor: { type: "string" }, toString: {} } }, [{}, own('{"constructor": "a"}')], [own('{"constructor": 1}')]],
    [own('{"properties": {"__proto__": {"type": "string"}}}'), [{}, own('{"__proto__": "a"}')], [own('{"__proto__": 1}')]],
    [{ properties: { a: { properties: { b: { properties: { c: { type: "null" } } } } } } }, [{ a: { b: {} } }], [{ a: { b: { c: 1 } } }]],
    [{ properties: { a: {} } }, [Object.create(null)], [Object.defineProperty({}, "a", { value: undefined })]],
  ],
  required: [[{ required: ["a", "toString"] }, [{ a: undefined, toString: 1 }, [], "a"], [{ a: 1 }, inherits({ a: 1 }, { toString: 1 })]]],
  additionalProperties: [
    [{ properties: { a: {} }, additionalProperties: false }, [{}, { a: 1 }], [{ b: 1 }, { a: 1, b: 1 }, inherits({ a: 1 }, {})]],
    [{ additionalProperties: { type: "string" } }, [{ a: "b" }], [{ a: "b", c: 1 }]],
    [{ additionalProperties: true }, [{ a: undefined }], []],
  ],
  patternProperties: [
    [{ patternProperties: { "^a": { type: "string" }, b$: { minLength: 2 } } }, [{ ab: "xy", c: 1 }], [{ ab: "x" }, { ab: 1 }]],
    [{ patternProperties: { "^a": true }, additionalProperties: false }, [{ ab: 1 }], [{ b: 1 }]],
    [{ patternProperties: { "^😀$": false } }, [{ a: 1 }], [{ "😀": 1 }]],
  ],
  minProperties: [[{ minProperties: 1 }, [{ a: 1 }, []], [{}, inherits({ a: 1 }, {})]]],
  maxProperties: [[{ maxProperties: 1 }, [{ a: 1 }, inherits({ a: 1 }, { b: 1 })], [{ a: 1, b: 1 }]]],
  propertyNames: [[{ propertyNames: { maxLength: 1 } }, [{ a: 1 }], [{ ab: 1 }, inherits({ ab: 1 }, {})]]],
  dependencies: [
    [{ dependencies: { a: ["b"] } }, [{ a: 1, b: 1 }, { c: 1 }], [{ a: 1 }]],
    [{ dependencies: { a: { required: ["b"] }, id: true, type: false } }, [{ a: 1, b: 1, id: 1 }], [{ a: 1 }, { type: 1 }]],
  ],
  items: [
    [{ items: { type: "string" } }, [[], ["a"], {}], [["a", 1], [null]]],
    [{ items: [{ type: "string" }, { type: "number" }] }, [["a", 1, null], ["a"], []], [[1], ["a", "b"]]],
    [{ items: false }, [[]], [[1]]],
  ],
  additionalItems: [
    [{ items: [{ type: "string" }], additionalItems: { type: "number" } }, [["a", 1], ["a"]], [["a", 1, "b"]]],
    [{ items: { type: "string" }, additionalItems: false }, [["a", "b"]], []],
    [{ additionalItems: false }, [[1]], []],
  ],
  contains: [[{ contains: { type: "string" } }, [[1, "a"], ["a", 1], {}], [[], [1]]]],
  minItems: [[{ minItems: 2 }, [[1, 2], {}, "a"], [[1]]]],
  maxItems: [[{ maxItems: 1 }, [[1], []], [[1, 2]]]],
  uniqueItems: [
    [
      { uniqueItems: true },
      [[], [1, "1", true, null], [nan, nan]],
      [
        [1, 1],
        [0, -0],
        ["a", "b", "a"],
        [null, null],
      ],
    ],
    [{ uniqueItems: false }, [[1, 1]], []],
  ],
  enum: [
    [
      { enum: ["a", 1, null, { b: [1] }, [{}]] },
      ["a", 1, null, { b: [1] }, [{}]],
      ["b", 2, true, { b: [2] }, { b: [1], c: 1 }, [{}, {}], {}],
    ],
    [{ enum: [0] }, [0, -0], [nan, "", false]],
    [{ enum: [] }, [], [1, {}]],
  ],
  const: [
    [{ const: { a: 1, b: 2 } }, [{ b: 2, a: 1 }], [{ a: 1 }, { a: 1, b: 3 }, null]],
    [{ const: null }, [null], [{}, [], 0, ""]],
    [{ const: 0 }, [0, -0], [false, nan, ""]],
  ],
  minimum: [[{ minimum: 1 }, [1, 2, nan, infinity, "0"], [0, 0.9999, -infinity]]],
  maximum: [[{ maximum: 1 }, [1, 0, nan, -infinity, "2"], [2, 1.0001, infinity]]],
  exclusiveMinimum: [[{ exclusiveMinimum: 0 }, [0.1, nan], [0, -0, -1]]],
  exclusiveMaximum: [[{ exclusiveMaximum: 0 }, [-0.1, nan], [0, -0, 1]]],
  multipleOf: [
    [{ multipleOf: 3 }, [0, -0, 3, -6, "1"], [1, 1.5, nan, infinity]],
    [{ multipleOf: 0.1 }, [0.3, 1, -0.7], [0.35]],
    [{ multipleOf: 10 }, [1e21, 2 ** 60], [2 ** 53]],
    [{ multipleOf: 1e21 }, [0, 2e21], [1]],
  ],
  minLength: [[{ minLength: 2 }, ["ab", "😀😀", "a😀", "\ud800\ud800", 1], ["", "a", "😀"]]],
  maxLength: [[{ maxLength: 1 }, ["", "a", "😀", "\udc00"], ["ab", "😀a", "\udc00\ud800"]]],
  pattern: [[{ pattern: "^.$" }, ["a", "😀", 1], ["", "ab"]]],
  format: [
    [{ format: "email" }, ["a@b.example", 1], ["a"]],
    [{ format: "date-time" }, ["2024-02-29T23:59:60Z"], ["2023-02-29T00:00:00Z"]],
    [{ format: "no-such" }, ["a"], []],
  ],
  not: [
    [{ not: { type: "string" } }, [1, {}], ["a"]],
    [{ not: { not: { properties: { a: { minimum: 1 } } } } }, [{ a: 1 }], [{ a: 0 }]],
    [{ not: false }, [1], []],
  ],
  allOf: [[{ allOf: [{ minimum: 1 }, { maximum: 2 }, true] }, [1, 2, "a"], [0, 3]]],
  anyOf: [[{ anyOf: [{ type: "string" }, { minimum: 1, type: "number" }] }, ["a", 1], [0, null]]],
  oneOf: [[{ oneOf: [{ minimum: 1 }, { type: "integer" }, false] }, [1.5, 0, "a"], [1, 0.5]]],
  if: [
    [{ if: { type: "string" }, then: { minLength: 1 }, else: { minimum: 1 } }, ["a", 1, null], ["", 0]],
    [{ if: { type: "string" } }, ["a", 1], []],
  ],
  then: [
    [{ if: true, then: { type: "string" } }, ["a"], [1]],
    [{ then: false }, [1], []],
  ],
  else: [
    [{ if: false, else: { type: "string" } }, ["a"], [1]],
    [{ else: false }, [1], []],
  ],
  title: [[{ title: "t" }, [1], []]],
  description: [[{ description: "d" }, [1], []]],
};

test("every supported keyword has cases", () => {
  expect(Object.keys(cases).sort()).toEqual([...keywords.keys()].sort());
});

describe.each(Object.entries(cases))("%s", (_, ofKeyword) => {
  test.each(ofKeyword.map(([schema, valid, wrong]) => ({ text: JSON.stringify(schema), schema, valid, wrong })))("$text", (one) => {
    for (const value of one.valid) expect([value, validBy(one.schema, value)]).toEqual([value, true]);
    for (const value of one.wrong) expect([value, validBy(one.schema, value)]).toEqual([value, false]);
  });
});

describe("references", () => {
  const tree = { properties: { child: { $ref: "#/definitions/P" }, n: { type: "number" } }, required: ["n"] };
  const nested = (levels: number) => {
    let value: object = { n: 0 };
    for (let i = 0; i < levels; i += 1) value = { n: i, child: value };
    return value;
  };

  test("to itself are followed 500 levels deep; a deeper value cannot be checked", () => {
    expect(validBy(tree, nested(20))).toBe(true);
    expect(validBy(tree, nested(200))).toBe(true);
    expect(validBy(tree, nested(100_000))).toBe(false);
    const cyclic: { n: number; child?: unknown } = { n: 1 };
    cyclic.child = cyclic;
    expect(validBy(tree, cyclic)).toBe(false);
  });

  type Wrap = (inner: unknown) => unknown;
  const same: Wrap = (value) => value;
  test.each<[string, Wrap, Wrap]>([
    ["not", (not) => ({ not }), same],
    ["allOf", (one) => ({ allOf: [one] }), same],
    ["anyOf", (one) => ({ anyOf: [one] }), same],
    ["oneOf", (one) => ({ oneOf: [one] }), same],
    ["if", (one) => ({ if: one }), same],
    ["then", (one) => ({ if: true, then: one }), same],
    ["else", (one) => ({ if: false, else: one }), same],
    ["dependencies", (a) => ({ dependencies: { a } }), same],
    ["items", (items) => ({ items }), (value) => [value]],
    ["items in place", (one) => ({ items: [one] }), (value) => [value]],
    ["contains", (contains) => ({ contains }), (value) => [value]],
    ["properties", (b) => ({ properties: { b } }), (b) => ({ b })],
    ["additionalProperties", (one) => ({ additionalProperties: one }), (b) => ({ b })],
    ["patternProperties", (one) => ({ patternProperties: { "": one } }), (b) => ({ b })],
  ])("and schemas in schemas are counted alike: %s", (_, schemaAround, valueAround) => {
    const nest = (levels: number, inner: unknown, wrap: Wrap): unknown => (levels === 0 ? inner : wrap(nest(levels - 1, inner, wrap)));
    const at = (levels: number) => validBy(nest(levels, {}, schemaAround), nest(levels, { a: 1 }, valueAround));
    expect(at(498)).toBe(true);
    expect(at(502)).toBe(false);
  });

  test("and references to references", () => {
    const chain = (levels: number) =>
      Object.fromEntries(Array.from({ length: levels }, (_, i) => [`D${i}`, i === 0 || { $ref: `#/definitions/D${i - 1}` }]));
    expect(validBy({ $ref: "#/definitions/D497" }, 1, chain(498))).toBe(true);
    expect(validBy({ $ref: "#/definitions/D501" }, 1, chain(502))).toBe(false);
  });

  test.each([
    ["a circle", { $ref: "#/definitions/P" }],
    ["a circle that it hides in a choice", { anyOf: [true, { $ref: "#/definitions/P" }] }],
    ["nowhere", { $ref: "#/definitions/Nowhere" }],
    ["another document", { $ref: "other.json" }],
  ])("that lead into %s cannot be checked", (_, schema) => {
    expect(validBy(schema, 1)).toBe(false);
  });
});

describe("a value that is not JSON is not valid, wherever a schema is applied to it:", () => {
  const odd = [undefined, () => 1, 1n, Symbol("s")];
  test.each<[string, unknown, Record<string, unknown>?]>([
    ["a schema that says nothing", { properties: { a: {} } }],
    ["a choice that is made already", { anyOf: [true, { properties: { a: {} } }] }],
    ["a branch that is wrong for its type already", { anyOf: [{ type: "string", properties: { a: {} } }, true] }],
    ["a branch that is wrong for another member already", { anyOf: [{ properties: { b: false, a: {} } }, true] }],
    ["a list of checks of which one has failed", { not: { type: "string", minProperties: 9, additionalProperties: {} } }],
    ["an item after one that is wrong", { not: { properties: { list: { items: { type: "string" } } } } }],
    ["an item after the one that it contains", { properties: { list: { contains: { type: "number" } } } }],
    ["a reference to the schema `true`", { properties: { a: { $ref: "#/definitions/Yes" } } }, { Yes: true }],
    ["a condition that nothing follows from", { if: { properties: { a: { type: "string" } } } }],
  ])("%s", (_, schema, definitions) => {
    for (const a of odd) expect(validBy(schema, { b: 1, a, list: [1, a] }, definitions)).toBe(false);
  });

  test("only the schema `true` accepts any value", () => {
    for (const value of odd) expect(validBy(true, value)).toBe(true);
    expect(validBy(false, 1)).toBe(false);
  });

  test("a getter that throws", () => {
    const hostile = {
      get a() {
        throw new Error("no");
      },
    };
    expect(validBy({ properties: { a: {} } }, hostile)).toBe(false);
  });

  test.each(["hasOwnProperty", "__proto__", "constructor"])("the format %s, a name that every object inherits, is unknown", (format) => {
    expect(validBy({ format }, "a")).toBe(true);
  });
});

test("state of a choice is discarded: a long list of choices stays valid", () => {
  const schema = {
    items: { oneOf: [{ type: "string" }, { type: "number" }], not: { type: "null" }, if: { const: 1 }, contains: { const: 1 } },
  };
  const long = Array.from({ length: 2000 }, (_, i) => (i % 2 === 0 ? i : `${i}`));
  expect(validBy(schema, long)).toBe(true);
  expect(validBy({ contains: { const: 1998 } }, long)).toBe(true);
});

test("errors in a branch that is not required do not matter", () => {
  const schema = { anyOf: [{ items: { type: "string" } }, true] };
  const numbers = (length: number) => Array.from({ length }, (_, i) => i);
  expect(validBy(schema, numbers(50))).toBe(true);
  expect(validBy(schema, numbers(500))).toBe(true);
});

test("an unknown keyword cannot be checked", () => {
  expect(validBy({ minContains: 2, contains: { const: 1 } }, [1])).toBe(false);
  expect(validBy({ properties: { a: { "x-other": 1 } } }, { a: 1 })).toBe(false);
});

test("unique items are compared by value", () => {
  expect(validBy({ uniqueItems: true }, [{ a: 1 }, { a: 1 }])).toBe(false);
  expect(validBy({ uniqueItems: true }, [{ a: 1 }, { a: 2 }])).toBe(true);
  expect(validBy({ uniqueItems: true }, [{ a: 1, b: [2] }, 1, { b: [2], a: 1 }])).toBe(false);
  expect(validBy({ uniqueItems: true }, [[1], ["1"], { 0: 1 }, "[1]", "1", 1, null, "null", [null], [], {}, { a: nan }, { a: nan }])).toBe(
    true,
  );
  expect(validBy({ uniqueItems: true }, [[0], [-0]])).toBe(false);
});
