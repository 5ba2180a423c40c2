import { InvalidInputError } from "../../core/errors/errors.js";
import { inShort } from "../../core/errors/in-short.js";
import { knownOptions } from "../../core/errors/known-options.js";
import { type Attributes, type AttributeValue, checkAttribute, checkAttributes } from "../../core/values/attributes.js";
import { isPlainObject } from "../../core/values/plain-object.js";
import { checkStorable } from "../../core/values/storable-text.js";

/** One input of a route: how it is checked, and its JSON Schema for the OpenAPI document. */
export interface Field<Value = unknown, Required extends boolean = boolean> {
  readonly about: string;
  readonly schema: Readonly<Record<string, unknown>>;
  readonly required: Required;
  /** Checks a value of a body. Throws InvalidInputError. */
  readonly read: (value: unknown, name: string) => Value;
  /** Converts the text of a query parameter to what `read` takes. */
  readonly ofText: (text: string) => unknown;
}

export type Fields = Readonly<Record<string, Field>>;

/** The checked input of a route. Inputs that were not given are absent. */
export type InputOf<F extends Fields> = {
  readonly [Name in keyof F as F[Name] extends Field<unknown, true> ? Name : never]: F[Name] extends Field<infer Value> ? Value : never;
} & {
  readonly [Name in keyof F as F[Name] extends Field<unknown, true> ? never : Name]?: F[Name] extends Field<infer Value> ? Value : never;
};

export function optional<Value>(field: Field<Value>): Field<Value, false> {
  return { ...field, required: false };
}

const textCharsMax = 4096;
const asIs = (text: string): string => text;

export function text(about: string, max = textCharsMax): Field<string, true> {
  const read = (value: unknown, name: string): string => {
    if (typeof value !== "string" || value.length > max) throw new InvalidInputError(name, `must be a text of at most ${max} characters`);
    checkStorable(name, value);
    return value;
  };
  return { about, schema: { type: "string", maxLength: max }, required: true, read, ofText: asIs };
}

export function wholeNumber(about: string, min: number, max: number): Field<number, true> {
  const read = (value: unknown, name: string): number => {
    if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
    throw new InvalidInputError(name, `must be a whole number from ${min} to ${max}, not ${inShort(value)}`);
  };
  const ofText = (given: string): unknown => (/^-?\d{1,16}$/.test(given) ? Number(given) : given);
  return { about, schema: { type: "integer", minimum: min, maximum: max }, required: true, read, ofText };
}

export function flag(about: string): Field<boolean, true> {
  const read = (value: unknown, name: string): boolean => {
    if (typeof value === "boolean") return value;
    throw new InvalidInputError(name, `must be true or false, not ${inShort(value)}`);
  };
  const ofText = (given: string): unknown => ({ true: true, false: false })[given] ?? given;
  return { about, schema: { type: "boolean" }, required: true, read, ofText };
}

export function onlyTrue(about: string): Field<true, true> {
  const of = flag(about);
  const read = (value: unknown, name: string): true => {
    if (of.read(value, name)) return true;
    throw new InvalidInputError(name, "must be true, or left out");
  };
  return { ...of, schema: { const: true }, read };
}

export function choice<Value extends string>(about: string, values: readonly Value[]): Field<Value, true> {
  const read = (value: unknown, name: string): Value => {
    const found = values.find((each) => each === value);
    if (found !== undefined) return found;
    throw new InvalidInputError(name, `must be one of ${values.map((each) => `"${each}"`).join(", ")}, not ${inShort(value)}`);
  };
  return { about, schema: { enum: values }, required: true, read, ofText: asIs };
}

export function instant(about: string): Field<Date, true> {
  const read = (value: unknown, name: string): Date => {
    const at = typeof value === "string" && /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(value) ? new Date(value) : undefined;
    if (at !== undefined && !Number.isNaN(at.getTime())) return at;
    throw new InvalidInputError(name, `must be a time with a zone, such as "2026-01-31T08:00:00Z", not ${inShort(value)}`);
  };
  return { about, schema: { type: "string", format: "date-time" }, required: true, read, ofText: asIs };
}

const textsMax = 1000;

export function texts(about: string): Field<readonly string[], true> {
  const one = text(about);
  const read = (value: unknown, name: string): readonly string[] => {
    if (!Array.isArray(value) || value.length > textsMax)
      throw new InvalidInputError(name, `must be an array of at most ${textsMax} texts`);
    return value.map((each) => one.read(each, name));
  };
  return { about, schema: { type: "array", items: { type: "string" }, maxItems: textsMax }, required: true, read, ofText: asIs };
}

/** Any JSON value. */
export function json(about: string): Field<unknown, true> {
  return { about, schema: {}, required: true, read: (value) => value, ofText: asIs };
}

export function jsonArray(about: string): Field<readonly unknown[], true> {
  const read = (value: unknown, name: string): readonly unknown[] => {
    if (Array.isArray(value)) return value;
    throw new InvalidInputError(name, `must be an array, not ${inShort(value)}`);
  };
  return { about, schema: { type: "array", items: {} }, required: true, read, ofText: asIs };
}

/** An object whose members the called function checks. */
export function members(about: string, schema: Readonly<Record<string, unknown>> = {}): Field<Readonly<Record<string, unknown>>, true> {
  const read = (value: unknown, name: string): Readonly<Record<string, unknown>> => {
    if (isPlainObject(value) && !Object.hasOwn(value as object, "__proto__")) return value as Record<string, unknown>;
    throw new InvalidInputError(name, `must be an object, not ${inShort(value)}`);
  };
  return { about, schema: { type: "object", ...schema }, required: true, read, ofText: asIs };
}

/** One of several forms: the first field that accepts the value reads it. */
export function either<A, B>(about: string, one: Field<A>, other: Field<B>, problem: string): Field<A | B, true> {
  const read = (value: unknown, name: string): A | B => {
    for (const field of [one, other])
      try {
        return field.read(value, name);
      } catch (error) {
        if (!(error instanceof InvalidInputError)) throw error;
      }
    throw new InvalidInputError(name, problem);
  };
  return { about, schema: { anyOf: [one.schema, other.schema] }, required: true, read, ofText: (given) => given };
}

/** Name and value of an attribute. In a query: as JSON. */
export function attributeField(about: string): Field<{ readonly name: string; readonly value: AttributeValue }, true> {
  const of = members(about);
  const read = (given: unknown, name: string) => {
    const found = of.read(given, name);
    knownOptions(name, found, { name: true, value: true });
    const { name: attribute, value } = found;
    if (typeof attribute !== "string") throw new InvalidInputError(name, "must have a name");
    checkAttribute(name, attribute, value);
    return { name: attribute, value };
  };
  const ofText = (given: string): unknown => {
    try {
      return JSON.parse(given) as unknown;
    } catch {
      return given;
    }
  };
  const schema = { type: "object", properties: { name: { type: "string" }, value: { type: ["string", "number", "boolean"] } } };
  return { about, schema, required: true, read, ofText };
}

/** The attributes of a run. */
export function attributesField(about: string): Field<Attributes, true> {
  const read = (value: unknown, name: string): Attributes => {
    checkAttributes(name, value);
    return value;
  };
  const schema = { type: "object", additionalProperties: { type: ["string", "number", "boolean"] } };
  return { about, schema, required: true, read, ofText: asIs };
}
