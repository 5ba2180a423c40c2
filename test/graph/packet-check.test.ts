import { Ajv, type AnySchema, type ValidateFunction } from "ajv";
import { expect, test } from "vitest";
import type { JsonSchema } from "../../src/graph/schema/compiler.js";
import { multipleOf } from "../../src/graph/schema/decimals.js";
import { Explanations } from "../../src/graph/schema/explain.js";
import { formatCheck } from "../../src/graph/schema/formats/known-formats.js";
import { keywords } from "../../src/graph/schema/known-keywords.js";
import { SchemaChecks } from "../../src/graph/schema/schema-check.js";
import { isValid } from "../../src/graph/schema/verdict.js";
import { type Definitions, formats, RandomSchemas } from "./random-schema.js";

const seeds = 600;
const valuesPerSchema = 12;

/**
 * Ajv with our formats and our decimals: this test compares how keywords work together. Ajv generates code, so it is used
 * only here.
 */
function ajvFor(definitions: Definitions): (name: string) => ValidateFunction {
  const ajv = new Ajv({
    strict: false,
    validateSchema: false,
    ownProperties: true,
    formats: Object.fromEntries(formats.map((name) => [name, formatCheck(name) ?? true])),
  });
  ajv.removeKeyword("multipleOf");
  ajv.addKeyword({ keyword: "multipleOf", type: "number", validate: (divisor: number, value: number) => multipleOf(divisor)(value) });
  ajv.addSchema(renamed({ definitions }) as AnySchema, "table");
  return (name) => ajv.compile({ $ref: `table#/definitions/${name}` });
}

/** The same JSON with other property names: objects with properties of these names confuse Ajv. */
function renamed<T>(json: T): T {
  const text = ["__proto__", "constructor", "toString"].reduce(
    (written, name) => written.replaceAll(`"${name}"`, `"${name.slice(0, -1)}"`),
    JSON.stringify(json),
  );
  return JSON.parse(text, (_, value) => withContainsApart(value)) as T;
}

/** Ajv accepts an empty list if `contains` stands beside a list of `items`. */
function withContainsApart(value: unknown): unknown {
  if (typeof value !== "object" || value === null || !("contains" in value) || !("items" in value)) return value;
  const { contains, ...others } = value;
  return { allOf: [others, { contains }] };
}

/** Only for JSON values are the results of both meaningful. */
function isJson(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return typeof value === "string" || typeof value === "boolean" || value === null;
  if (Array.isArray(value)) return value.every(isJson);
  if (Object.getPrototypeOf(value) !== Object.prototype) return false;
  return Object.getOwnPropertyNames(value).every(
    (name) => Object.prototype.propertyIsEnumerable.call(value, name) && isJson((value as Record<string, unknown>)[name]),
  );
}

test("the checks and Ajv agree on random schemas and on their negation, and every problem has a specific message", () => {
  const seen = new Map<string, { yes: number; no: number }>();
  let judged = 0;
  for (let seed = 0; seed < seeds; seed += 1) {
    const random = new RandomSchemas(seed);
    const schema = random.schema(3);
    const definitions: Definitions = { ...random.definitions, P: schema, Not: { not: schema } };
    const ajv = ajvFor(definitions);
    const [expected, expectedNot] = [ajv("P"), ajv("Not")];
    const checks = new SchemaChecks(definitions as Record<string, JsonSchema>);
    const explanations = new Explanations(definitions as Record<string, JsonSchema>, checks);
    const [check, opposite] = [checks.of("P"), checks.of("Not")];
    for (let i = 0; i < valuesPerSchema; i += 1) {
      const value = i % 3 === 0 ? random.anything() : random.likely(schema);
      const [valid, validNot] = [isValid(check, value), isValid(opposite, value)];
      if (isJson(value)) {
        judged += 1;
        const agree = valid === expected(renamed(value)) && validNot === expectedNot(renamed(value));
        if (!agree) expect.fail(`seed ${seed}, value ${i}: ${JSON.stringify(value)} by ${JSON.stringify(definitions)}`);
      }
      if (!valid) {
        const [problem] = explanations.of("P", value, 10);
        expect(problem?.message, `seed ${seed}, value ${i}`).not.toBe("does not match its schema");
      }
      for (const name of Object.keys(schema)) {
        const count = seen.get(name) ?? { yes: 0, no: 0 };
        count[valid ? "yes" : "no"] += 1;
        seen.set(name, count);
      }
    }
  }
  expect(judged).toBeGreaterThan(seeds * valuesPerSchema * 0.7);
  for (const name of [...keywords.keys(), "$ref"]) {
    const { yes, no } = seen.get(name) ?? { yes: 0, no: 0 };
    expect(Math.min(yes, no), `${name} was right ${yes} times, and wrong ${no} times`).toBeGreaterThan(20);
  }
});
