import { ucs2length } from "@cfworker/json-schema";
import type { JsonSchema } from "./compiler.js";
import { duplicateIn } from "./equality.js";
import type { Keywords } from "./keywords.js";
import { finds, LinearPattern } from "./linear-pattern.js";
import type { SchemaChecks } from "./schema-check.js";
import { beginValue, type Check, mustBeJson, mustBeShallow } from "./verdict.js";

export interface Problem {
  /** JSON pointer into the value. */
  readonly pointer: string;
  readonly message: string;
}

type Members = Readonly<Record<string, unknown>>;
type Words = (schema: Keywords, value: never) => string;

/** Keywords that say one thing about a value as it is. Those that lead to its members are in `Explanation`. */
const words: Partial<Record<keyof Keywords, Words>> = {
  type: ({ type }, value) => `Instance type "${typeOf(value)}" is invalid. Expected "${[type].flat().join('", "')}".`,
  const: (schema) => `Instance does not match ${JSON.stringify(schema.const)}.`,
  enum: (schema) => `Instance does not match any of ${JSON.stringify(schema.enum)}.`,
  not: () => 'Instance matched "not" schema.',
  minProperties: ({ minProperties }) => `Instance has fewer than ${minProperties} properties.`,
  maxProperties: ({ maxProperties }) => `Instance has more than ${maxProperties} properties.`,
  minItems: ({ minItems }, value: unknown[]) => `Array has too few items (${value.length} < ${minItems}).`,
  maxItems: ({ maxItems }, value: unknown[]) => `Array has too many items (${value.length} > ${maxItems}).`,
  contains: () => "Array does not contain item matching schema.",
  uniqueItems: (_, value: unknown[]) => `Duplicate items at indexes ${duplicateIn(value)?.join(" and ")}.`,
  minimum: ({ minimum }, value: number) => `${value} is less than ${minimum}.`,
  maximum: ({ maximum }, value: number) => `${value} is greater than ${maximum}.`,
  exclusiveMinimum: ({ exclusiveMinimum }, value: number) => `${value} is less than or equal to ${exclusiveMinimum}.`,
  exclusiveMaximum: ({ exclusiveMaximum }, value: number) => `${value} is greater than or equal to ${exclusiveMaximum}.`,
  multipleOf: ({ multipleOf }, value: number) => `${value} is not a multiple of ${multipleOf}.`,
  minLength: ({ minLength }, value: string) => `String is too short (${ucs2length(value)} < ${minLength}).`,
  maxLength: ({ maxLength }, value: string) => `String is too long (${ucs2length(value)} > ${maxLength}).`,
  pattern: () => "String does not match pattern.",
  format: (schema) => `String does not match format "${schema.format}".`,
};

function typeOf(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
}

const prefix = "#/definitions/";
const withoutReason = "Instance does not match its schema.";

/** What is wrong with a value that its check has refused: the first `problemsMax` things, with their places. */
export class Explanations {
  readonly #definitions: Readonly<Record<string, JsonSchema>>;
  readonly #checks: SchemaChecks;
  readonly #parts = new WeakMap<object, readonly { readonly check: Check; readonly words: Words }[]>();
  readonly #patterns = new WeakMap<object, readonly (readonly [LinearPattern, JsonSchema])[]>();
  readonly #compiled = new WeakMap<object, Check>();

  constructor(definitions: Readonly<Record<string, JsonSchema>>, checks: SchemaChecks) {
    this.#definitions = definitions;
    this.#checks = checks;
  }

  of(definition: string, value: unknown, problemsMax: number): readonly Problem[] {
    const found = new Found(problemsMax);
    beginValue();
    try {
      this.#explain({ $ref: `${prefix}${definition}` }, { value, pointer: "", depth: 0, found });
    } catch (error) {
      // Nested too deep, or not JSON: what was found before may not be the reason.
      return [{ pointer: "", message: `cannot be checked: ${(error as Error).message}` }];
    }
    // A value that was refused is never valid for want of words.
    return found.problems.length > 0 ? found.problems : [{ pointer: "", message: withoutReason }];
  }

  #explain(schema: JsonSchema, at: Place): void {
    const { value, depth, found } = at;
    if (found.isFull) return;
    if (schema === true) return;
    if (schema === false) return found.add(at, "False boolean schema.");
    mustBeShallow(depth);
    mustBeJson(value);
    const { $ref, allOf, anyOf, oneOf, if: condition, then = true, else: otherwise = true } = schema as Keywords;
    if ($ref !== undefined) return this.#explain(this.#definitions[$ref.slice(prefix.length)] ?? true, deeper(at));
    for (const { check, words: say } of this.#partsOf(schema))
      if (!check(value, depth)) found.add(at, say(schema as Keywords, value as never));
    for (const one of allOf ?? []) this.#explain(one, deeper(at));
    if (anyOf !== undefined)
      this.#choice(
        anyOf,
        at,
        (matches) => matches > 0,
        () => "Instance does not match any subschemas.",
      );
    const exactly = (matches: number) => `Instance does not match exactly one subschema (${matches} matches).`;
    if (oneOf !== undefined) this.#choice(oneOf, at, (matches) => matches === 1, exactly);
    if (condition !== undefined) this.#explain(this.#matches(condition, at) ? then : otherwise, deeper(at));
    if (Array.isArray(value)) this.#list(schema as Keywords, value, at);
    else if (typeof value === "object" && value !== null) this.#object(schema as Keywords, value as Members, at);
  }

  #choice(branches: readonly JsonSchema[], at: Place, isRight: (matches: number) => boolean, say: (matches: number) => string): void {
    const matches = branches.filter((branch) => this.#matches(branch, at)).length;
    if (isRight(matches)) return;
    at.found.add(at, say(matches));
    if (matches === 0) for (const branch of branches) this.#explain(branch, deeper(at));
  }

  #matches(schema: JsonSchema, { value, depth }: Place): boolean {
    if (typeof schema === "boolean") return schema;
    const check = this.#compiled.get(schema) ?? this.#checks.compile(schema);
    this.#compiled.set(schema, check);
    return check(value, depth + 1);
  }

  #list({ items, additionalItems = true }: Keywords, list: readonly unknown[], at: Place): void {
    if (items === undefined) return;
    const isTuple = Array.isArray(items);
    for (let i = 0; i < list.length && !at.found.isFull; i += 1)
      this.#explain(
        isTuple ? ((items as readonly JsonSchema[])[i] ?? additionalItems) : (items as JsonSchema),
        member(at, String(i), list[i]),
      );
  }

  #object(schema: Keywords, object: Members, at: Place): void {
    const { required = [], properties = {}, additionalProperties = true, propertyNames, dependencies = {} } = schema;
    const { found } = at;
    for (const name of required) if (!Object.hasOwn(object, name)) found.add(at, `Instance does not have required property "${name}".`);
    for (const [name, then] of Object.entries(dependencies)) if (Object.hasOwn(object, name)) this.#dependent(name, then, object, at);
    for (const [name, one] of Object.entries(properties))
      if (Object.hasOwn(object, name)) this.#explain(one, member(at, name, object[name]));
    const patterns = this.#patternsOf(schema);
    for (const name in object) {
      if (found.isFull) return;
      if (propertyNames !== undefined && !this.#matches(propertyNames, { ...at, value: name })) {
        found.add(at, `Property name "${name}" does not match schema.`);
        this.#explain(propertyNames, member(at, name, name));
      }
      let isKnown = Object.hasOwn(properties, name) && Object.hasOwn(object, name);
      for (const [pattern, one] of patterns) {
        if (!finds(pattern, name)) continue;
        isKnown = true;
        this.#explain(one, member(at, name, object[name]));
      }
      if (isKnown || additionalProperties === true) continue;
      if (additionalProperties === false) found.add(at, `Property "${name}" does not match additional properties schema.`);
      this.#explain(additionalProperties, member(at, name, object[name]));
    }
  }

  #dependent(name: string, then: readonly string[] | JsonSchema, object: Members, at: Place): void {
    if (!Array.isArray(then)) return this.#explain(then as JsonSchema, deeper(at));
    for (const other of then as readonly string[])
      if (!Object.hasOwn(object, other)) at.found.add(at, `Instance has "${name}" but does not have "${other}".`);
  }

  /** One check for each keyword of `words`, made once: a pattern is compiled in it. */
  #partsOf(schema: Keywords) {
    const known = this.#parts.get(schema);
    if (known !== undefined) return known;
    const parts = Object.entries(words)
      .filter(([name]) => Object.hasOwn(schema, name))
      .map(([name, say]) => ({ check: this.#checks.compile({ [name]: schema[name as keyof Keywords] }), words: say }));
    this.#parts.set(schema, parts);
    return parts;
  }

  #patternsOf(schema: Keywords) {
    const known = this.#patterns.get(schema);
    if (known !== undefined) return known;
    const patterns = Object.entries(schema.patternProperties ?? {}).map(([text, one]) => [new LinearPattern(text), one] as const);
    this.#patterns.set(schema, patterns);
    return patterns;
  }
}

/** A value, and where it stands. */
interface Place {
  readonly value: unknown;
  readonly pointer: string;
  readonly depth: number;
  readonly found: Found;
}

function deeper(at: Place): Place {
  return { ...at, depth: at.depth + 1 };
}

function member(at: Place, name: string, value: unknown): Place {
  const pointer = `${at.pointer}/${name.replace(/~/g, "~0").replace(/\//g, "~1")}`;
  return { ...at, value, pointer, depth: at.depth + 1 };
}

class Found {
  readonly problems: Problem[] = [];
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  get isFull(): boolean {
    return this.problems.length >= this.#max;
  }

  add({ pointer }: Place, message: string): void {
    if (!this.isFull) this.problems.push({ pointer, message });
  }
}
