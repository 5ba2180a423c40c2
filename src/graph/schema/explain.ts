import type { JsonSchema } from "./compiler.js";
import { duplicateIn } from "./equality.js";
import type { Keywords } from "./keywords.js";
import { finds, LinearPattern } from "./linear-pattern.js";
import { countCharacters } from "./scalars.js";
import type { SchemaChecks } from "./schema-check.js";
import { beginValue, type Check, mustBeJson, mustBeShallow } from "./verdict.js";

/** A part of a value that does not match the schema. */
export interface Problem {
  /** JSON pointer into the value. */
  readonly pointer: string;
  readonly message: string;
}

type Members = Readonly<Record<string, unknown>>;
type Words = (schema: Keywords, value: never) => string;

/** Messages of keywords that check a value itself. Keywords that apply to its members are handled in `Explanations`. */
const words: Partial<Record<keyof Keywords, Words>> = {
  type: ({ type }, value) => `must be ${[type].flat().join(" or ")}, is ${typeOf(value)}`,
  const: (schema) => `must be ${JSON.stringify(schema.const)}`,
  enum: (schema) => `must be one of ${JSON.stringify(schema.enum)}`,
  not: () => 'matches the schema in "not"',
  minProperties: ({ minProperties }, value: Members) => `must have at least ${minProperties} properties, has ${Object.keys(value).length}`,
  maxProperties: ({ maxProperties }, value: Members) => `must have at most ${maxProperties} properties, has ${Object.keys(value).length}`,
  minItems: ({ minItems }, value: unknown[]) => `must have at least ${minItems} items, has ${value.length}`,
  maxItems: ({ maxItems }, value: unknown[]) => `must have at most ${maxItems} items, has ${value.length}`,
  contains: () => 'has no item that matches the schema in "contains"',
  uniqueItems: (_, value: unknown[]) => `has equal items at the indexes ${duplicateIn(value)?.join(" and ")}`,
  minimum: ({ minimum }, value: number) => `must be at least ${minimum}, is ${value}`,
  maximum: ({ maximum }, value: number) => `must be at most ${maximum}, is ${value}`,
  exclusiveMinimum: ({ exclusiveMinimum }, value: number) => `must be greater than ${exclusiveMinimum}, is ${value}`,
  exclusiveMaximum: ({ exclusiveMaximum }, value: number) => `must be less than ${exclusiveMaximum}, is ${value}`,
  multipleOf: ({ multipleOf }, value: number) => `must be a multiple of ${multipleOf}, is ${value}`,
  minLength: ({ minLength }, value: string) => `must have at least ${minLength} characters, has ${countCharacters(value)}`,
  maxLength: ({ maxLength }, value: string) => `must have at most ${maxLength} characters, has ${countCharacters(value)}`,
  pattern: ({ pattern }) => `does not match the pattern ${JSON.stringify(pattern)}`,
  format: ({ format }) => `does not have the format "${format}"`,
};

function typeOf(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
}

const prefix = "#/definitions/";
const withoutReason = "does not match its schema";

/** Explains why a value failed its check: the first `problemsMax` problems, with pointers. */
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
      // Nested too deeply, or not JSON: the problems found before may not be the reason.
      return [{ pointer: "", message: `cannot be checked: ${(error as Error).message}` }];
    }
    // A value that failed its check must not be reported as valid.
    return found.problems.length > 0 ? found.problems : [{ pointer: "", message: withoutReason }];
  }

  #explain(schema: JsonSchema, at: ValueAt): void {
    const { value, depth, found } = at;
    if (found.isFull) return;
    if (schema === true) return;
    if (schema === false) return found.add(at, "is not allowed");
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
        () => 'matches none of the schemas in "anyOf"',
      );
    const exactly = (matches: number) => `must match exactly one of the schemas in "oneOf", matches ${matches}`;
    if (oneOf !== undefined) this.#choice(oneOf, at, (matches) => matches === 1, exactly);
    if (condition !== undefined) this.#explain(this.#matches(condition, at) ? then : otherwise, deeper(at));
    if (Array.isArray(value)) this.#list(schema as Keywords, value, at);
    else if (typeof value === "object" && value !== null) this.#object(schema as Keywords, value as Members, at);
  }

  #choice(branches: readonly JsonSchema[], at: ValueAt, isRight: (matches: number) => boolean, say: (matches: number) => string): void {
    const matches = branches.filter((branch) => this.#matches(branch, at)).length;
    if (isRight(matches)) return;
    at.found.add(at, say(matches));
    if (matches === 0) for (const branch of branches) this.#explain(branch, deeper(at));
  }

  #matches(schema: JsonSchema, { value, depth }: ValueAt): boolean {
    if (typeof schema === "boolean") return schema;
    const check = this.#compiled.get(schema) ?? this.#checks.compile(schema);
    this.#compiled.set(schema, check);
    return check(value, depth + 1);
  }

  #list({ items, additionalItems = true }: Keywords, list: readonly unknown[], at: ValueAt): void {
    if (items === undefined) return;
    const isTuple = Array.isArray(items);
    for (let i = 0; i < list.length && !at.found.isFull; i += 1)
      this.#explain(
        isTuple ? ((items as readonly JsonSchema[])[i] ?? additionalItems) : (items as JsonSchema),
        member(at, String(i), list[i]),
      );
  }

  #object(schema: Keywords, object: Members, at: ValueAt): void {
    const { required = [], properties = {}, additionalProperties = true, propertyNames, dependencies = {} } = schema;
    const { found } = at;
    for (const name of required) if (!Object.hasOwn(object, name)) found.add(at, `lacks the required property "${name}"`);
    for (const [name, then] of Object.entries(dependencies)) if (Object.hasOwn(object, name)) this.#dependent(name, then, object, at);
    for (const [name, one] of Object.entries(properties))
      if (Object.hasOwn(object, name)) this.#explain(one, member(at, name, object[name]));
    const patterns = this.#patternsOf(schema);
    for (const name in object) {
      if (found.isFull) return;
      if (propertyNames !== undefined && !this.#matches(propertyNames, { ...at, value: name })) {
        found.add(at, `has a property of the name "${name}", which does not match the schema in "propertyNames"`);
        this.#explain(propertyNames, member(at, name, name));
      }
      let isKnown = Object.hasOwn(properties, name) && Object.hasOwn(object, name);
      for (const [pattern, one] of patterns) {
        if (!finds(pattern, name)) continue;
        isKnown = true;
        this.#explain(one, member(at, name, object[name]));
      }
      if (isKnown || additionalProperties === true) continue;
      if (additionalProperties === false) found.add(at, `has the additional property "${name}"`);
      this.#explain(additionalProperties, member(at, name, object[name]));
    }
  }

  #dependent(name: string, then: readonly string[] | JsonSchema, object: Members, at: ValueAt): void {
    if (!Array.isArray(then)) return this.#explain(then as JsonSchema, deeper(at));
    for (const other of then as readonly string[])
      if (!Object.hasOwn(object, other)) at.found.add(at, `has the property "${name}" and lacks "${other}"`);
  }

  /** One check for each keyword of `words`, compiled once per schema. */
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

/** A value with its pointer and depth. */
interface ValueAt {
  readonly value: unknown;
  readonly pointer: string;
  readonly depth: number;
  readonly found: Found;
}

function deeper(at: ValueAt): ValueAt {
  return { ...at, depth: at.depth + 1 };
}

function member(at: ValueAt, name: string, value: unknown): ValueAt {
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

  add({ pointer }: ValueAt, message: string): void {
    if (!this.isFull) this.problems.push({ pointer, message });
  }
}
