import { Random } from "../../src/testing/simulator/random.js";

type Schema = Record<string, unknown>;
export type Definitions = Record<string, Schema | boolean>;

const names = ["a", "b", "c", "id", "type", "constructor", "toString", "__proto__"];
const texts = [
  "",
  "a",
  "ab",
  "abc",
  "aaaaaa",
  "😀",
  "😀a",
  "\ud800",
  "\udc00\ud800",
  "a@b.example",
  "2024-02-29",
  "12:00:00Z",
  "constructor",
  "^(",
];
const numbers = [0, -0, 1, 2, 3, -1, 1.5, 0.1, 0.3, 1e-7, 1e21, 2 ** 53, 2 ** 60];
const bounds = [0, 1, 2, 3, -1, 1.5, 0.3, 1e21];
const types = ["string", "number", "integer", "boolean", "object", "array", "null"];
const patterns = ["^a", "b$", "^.{2}$", "^[a-c]+$", "\\p{L}", "^$"];
export const formats = ["email", "date", "time", "uuid", "ipv4", "regex", "json-pointer", "no-such-format", "url", "uri", "hostname"];

/** Random schemas, as in the `packets` table of a document, and values that are valid, almost valid or arbitrary. */
export class RandomSchemas {
  readonly definitions: Definitions = {};
  readonly #random: Random;
  #next = 0;

  constructor(seed: number) {
    this.#random = new Random(seed);
    const count = this.#random.between(1, 3);
    for (this.#next = count - 1; this.#next >= 0; this.#next -= 1) this.definitions[`D${this.#next}`] = this.schema(3);
  }

  schema(levels: number): Schema | boolean {
    const random = this.#random;
    if (random.chance(0.04)) return random.chance(0.7);
    if (random.chance(0.1)) return this.#reference(false);
    const schema: Schema = {};
    if (random.chance(0.5)) schema["type"] = random.chance(0.7) ? random.pick(types) : this.#some(types);
    for (let left = random.between(1, 3); left > 0; left -= 1) this.#addKeyword(schema, levels);
    return schema;
  }

  /** A reference to itself or an earlier schema only occurs inside a property or an item: otherwise it would never end. */
  #reference(inside: boolean): Schema | boolean {
    const all = Object.keys(this.definitions);
    if (inside && this.#next >= 0) all.push(`D${this.#next}`);
    return all.length === 0 ? true : { $ref: `#/definitions/${this.#random.pick(all)}` };
  }

  #addKeyword(schema: Schema, levels: number): void {
    const random = this.#random;
    const inner = () => (levels > 0 ? this.schema(levels - 1) : random.chance(0.8));
    const deeper = () => (random.chance(0.15) ? this.#reference(true) : inner());
    const map = (value: () => unknown) => Object.fromEntries(this.#some(names).map((name) => [name, value()]));
    const makers: Record<string, () => unknown> = {
      properties: () => map(deeper),
      required: () => this.#some(names),
      additionalProperties: deeper,
      patternProperties: () => Object.fromEntries(this.#some(patterns).map((pattern) => [pattern, deeper()])),
      propertyNames: inner,
      dependencies: () => map(() => (random.chance(0.5) ? this.#some(names) : inner())),
      minProperties: () => random.between(0, 3),
      maxProperties: () => random.between(0, 3),
      items: () => (random.chance(0.7) ? deeper() : [deeper(), deeper()]),
      additionalItems: deeper,
      contains: inner,
      minItems: () => random.between(0, 3),
      maxItems: () => random.between(0, 3),
      uniqueItems: () => random.chance(0.8),
      enum: () => Array.from({ length: random.between(1, 4) }, () => this.json(1)),
      const: () => this.json(1),
      minimum: () => random.pick(bounds),
      maximum: () => random.pick(bounds),
      exclusiveMinimum: () => random.pick(bounds),
      exclusiveMaximum: () => random.pick(bounds),
      multipleOf: () => random.pick([1, 2, 3, 0.1, 0.5, 1e-7, 1e21]),
      minLength: () => random.between(0, 3),
      maxLength: () => random.between(0, 3),
      pattern: () => random.pick(patterns),
      format: () => random.pick(formats),
      not: inner,
      allOf: () => [inner(), inner()],
      anyOf: () => [inner(), inner()],
      oneOf: () => [inner(), inner(), ...(random.chance(0.3) ? [inner()] : [])],
      if: inner,
      then: inner,
      else: inner,
      title: () => "t",
      description: () => "d",
    };
    const name = random.pick(Object.keys(makers));
    schema[name] = makers[name]?.();
    if (name === "if" && random.chance(0.8)) schema["then"] = inner();
    if (name === "additionalItems") schema["items"] = [deeper()];
  }

  #some<T>(all: readonly T[]): T[] {
    return Array.from({ length: this.#random.between(1, 3) }, () => this.#random.pick(all)).filter(
      (one, i, list) => list.indexOf(one) === i,
    );
  }

  json(levels: number): unknown {
    const random = this.#random;
    const leaf = levels <= 0 || random.chance(0.5);
    if (leaf) return random.pick([() => random.pick(texts), () => random.pick(numbers), () => random.chance(0.5), () => null])();
    if (random.chance(0.4)) return Array.from({ length: random.between(0, 3) }, () => this.json(levels - 1));
    return Object.fromEntries(this.#some(names).map((name) => [name, this.json(levels - 1)]));
  }

  /** JSON, and sometimes a value that is not JSON: a function, undefined, an object with an unusual prototype. */
  anything(): unknown {
    const random = this.#random;
    const value = this.json(3);
    if (random.chance(0.9) || typeof value !== "object" || value === null) return random.chance(0.02) ? undefined : value;
    const name = random.pick(names);
    const odd = random.pick([
      { is: undefined },
      { is: () => 1 },
      { is: 1n },
      { is: Number.NaN },
      { is: Number.NEGATIVE_INFINITY },
      { is: Symbol("s") },
      { is: new Date(0) },
      { is: new Map() },
    ]).is;
    if (Array.isArray(value)) return [...(value as unknown[]), odd];
    if (random.chance(0.4)) return Object.defineProperty(value, name, { value: odd, enumerable: true });
    if (random.chance(0.5)) return Object.defineProperty({ b: 1 }, name, { value: this.json(1), enumerable: false });
    return Object.setPrototypeOf({ ...value }, { [name]: this.json(1) });
  }

  /** A value generated from the schema, so often a valid one. */
  likely(schema: unknown, levels = 4): unknown {
    const random = this.#random;
    if (typeof schema !== "object" || schema === null || levels <= 0 || random.chance(0.05)) return this.json(1);
    const { $ref, type, enum: values, properties, required, items, const: only, anyOf, allOf, oneOf } = schema as Schema;
    if (typeof $ref === "string") return this.likely(this.definitions[$ref.slice("#/definitions/".length)], levels);
    if (only !== undefined) return structuredClone(only);
    if (Array.isArray(values) && values.length > 0) return structuredClone(random.pick(values.map((value: unknown) => ({ value }))).value);
    const choice = (anyOf ?? allOf ?? oneOf) as unknown[] | undefined;
    if (choice !== undefined && random.chance(0.6)) return this.likely(random.pick(choice), levels - 1);
    const wanted = Array.isArray(type) ? random.pick(type as string[]) : type;
    if (wanted === "string") return random.pick(texts);
    if (wanted === "number" || wanted === "integer") return random.pick(numbers);
    if (wanted === "boolean") return random.chance(0.5);
    if (wanted === "null") return null;
    if (wanted === "array" || (wanted === undefined && items !== undefined)) {
      const of = (i: number) => (Array.isArray(items) ? (items as unknown[])[i] : items);
      return Array.from({ length: random.between(0, 4) }, (_, i) => this.likely(of(i), levels - 1));
    }
    if (wanted !== "object" && properties === undefined && required === undefined) return this.json(2);
    const members = Object.entries((properties ?? {}) as Schema).filter(() => random.chance(0.85));
    const made = members.map(([name, member]) => [name, this.likely(member, levels - 1)] as const);
    return Object.fromEntries([...((required ?? []) as string[]).map((name) => [name, this.json(1)] as const), ...made]);
  }
}
