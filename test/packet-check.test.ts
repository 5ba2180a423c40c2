import { validate } from "@cfworker/json-schema";
import { expect, test } from "vitest";
import { SchemaChecks } from "../src/graph/check/schema-check.js";
import { isSurelyValid } from "../src/graph/check/verdict.js";
import type { JsonSchema } from "../src/graph/schema-compiler.js";
import { keywords } from "../src/graph/schema-keywords.js";
import { type Definitions, RandomSchemas } from "./random-schema.js";

const seeds = 3000;
const valuesPerSchema = 12;

/** What the library says; it throws at what it can't check, and that is no. */
function libraryOf(definitions: Definitions) {
  const lookup = Object.fromEntries(Object.entries(definitions).map(([name, schema]) => [`#/definitions/${name}`, schema]));
  return (schema: unknown, value: unknown) => {
    try {
      return validate(value, schema as boolean, "7", lookup as Record<string, boolean>, false).valid;
    } catch {
      return undefined;
    }
  };
}

test("what the checks are sure of is what the library says, also in the opposite; and mostly they are sure", { timeout: 120_000 }, () => {
  const seen = new Map<string, { yes: number; no: number }>();
  let judged = 0;
  let unsure = 0;
  for (let seed = 0; seed < seeds; seed += 1) {
    const random = new RandomSchemas(seed);
    const schema = random.schema(3);
    const definitions: Definitions = { ...random.definitions, P: schema, Not: { not: schema } };
    const library = libraryOf(definitions);
    const checks = new SchemaChecks(definitions as Record<string, JsonSchema>);
    const [check, opposite] = [checks.of("P"), checks.of("Not")];
    for (let i = 0; i < valuesPerSchema; i += 1) {
      const value = i % 3 === 0 ? random.anything() : random.likely(schema);
      const said = library(schema, value);
      const sure = isSurelyValid(check, value);
      const sureNot = isSurelyValid(opposite, value);
      const wrong = (sure && said !== true) || (sureNot && library(definitions["Not"], value) !== true);
      if (wrong) expect.fail(`seed ${seed}, value ${i}: ${JSON.stringify(definitions)}`);
      if (said !== undefined) {
        judged += 1;
        if (!sure && !sureNot) unsure += 1;
      }
      for (const name of Object.keys(schema)) {
        const count = seen.get(name) ?? { yes: 0, no: 0 };
        count[sure ? "yes" : "no"] += 1;
        seen.set(name, count);
      }
    }
  }
  expect(judged).toBeGreaterThan(seeds * valuesPerSchema * 0.8);
  expect(unsure / judged).toBeLessThan(0.02);
  for (const name of [...keywords.keys(), "$ref"]) {
    const { yes, no } = seen.get(name) ?? { yes: 0, no: 0 };
    expect(Math.min(yes, no), `${name} was right ${yes} times, and wrong ${no} times`).toBeGreaterThan(20);
  }
});
