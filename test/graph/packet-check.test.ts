import { validate } from "@cfworker/json-schema";
import { expect, test } from "vitest";
import type { JsonSchema } from "../../src/graph/schema/compiler.js";
import { Explanations } from "../../src/graph/schema/explain.js";
import { keywords } from "../../src/graph/schema/known-keywords.js";
import { SchemaChecks } from "../../src/graph/schema/schema-check.js";
import { isValid } from "../../src/graph/schema/verdict.js";
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

test("what the checks say is what the library says, also in the opposite", { timeout: 120_000 }, () => {
  const seen = new Map<string, { yes: number; no: number }>();
  let judged = 0;
  for (let seed = 0; seed < seeds; seed += 1) {
    const random = new RandomSchemas(seed);
    const schema = random.schema(3);
    const definitions: Definitions = { ...random.definitions, P: schema, Not: { not: schema } };
    const library = libraryOf(definitions);
    const checks = new SchemaChecks(definitions as Record<string, JsonSchema>);
    const explanations = new Explanations(definitions as Record<string, JsonSchema>, checks);
    const [check, opposite] = [checks.of("P"), checks.of("Not")];
    for (let i = 0; i < valuesPerSchema; i += 1) {
      const value = i % 3 === 0 ? random.anything() : random.likely(schema);
      const said = library(schema, value);
      const sure = isValid(check, value);
      const sureNot = isValid(opposite, value);
      const saidNot = library(definitions["Not"], value);
      // What the library throws at may be one of its own limits.
      const wrong = (said !== undefined && sure !== said) || (saidNot !== undefined && sureNot !== saidNot);
      if (wrong) expect.fail(`seed ${seed}, value ${i}: ${JSON.stringify(definitions)}`);
      if (said !== undefined) judged += 1;
      if (!sure) {
        const [problem] = explanations.of("P", value, 10);
        expect(problem?.message, `seed ${seed}, value ${i}`).not.toBe("Instance does not match its schema.");
      }
      for (const name of Object.keys(schema)) {
        const count = seen.get(name) ?? { yes: 0, no: 0 };
        count[sure ? "yes" : "no"] += 1;
        seen.set(name, count);
      }
    }
  }
  expect(judged).toBeGreaterThan(seeds * valuesPerSchema * 0.8);
  for (const name of [...keywords.keys(), "$ref"]) {
    const { yes, no } = seen.get(name) ?? { yes: 0, no: 0 };
    expect(Math.min(yes, no), `${name} was right ${yes} times, and wrong ${no} times`).toBeGreaterThan(20);
  }
});
