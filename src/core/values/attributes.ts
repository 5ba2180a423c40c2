import { InvalidInputError } from "../errors/errors.js";
import { isPlainObject } from "./plain-object.js";
import { checkStorable } from "./storable-text.js";

/** A value by which runs and executions are found. */
export type AttributeValue = string | number | boolean;

/** Names and values by which a run or an execution is found: `{ customer: "c-17", priority: 2 }`. */
export type Attributes = Readonly<Record<string, AttributeValue>>;

export const attributesMax = 16;
const valueBytesMax = 256;
const namePattern = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/;

/** Throws InvalidInputError unless every store can keep these attributes. `field` is the name of the option that has them. */
export function checkAttributes(field: string, attributes: unknown): asserts attributes is Attributes {
  if (!isPlainObject(attributes)) throw new InvalidInputError(field, 'must be an object such as { customer: "c-17" }');
  const entries = Object.entries(attributes);
  if (entries.length > attributesMax) throw new InvalidInputError(field, `has ${entries.length} attributes; ${attributesMax} are allowed`);
  for (const [name, value] of entries) checkAttribute(field, name, value);
}

/** Throws InvalidInputError unless every store can keep this attribute. */
export function checkAttribute(field: string, name: string, value: unknown): asserts value is AttributeValue {
  if (!namePattern.test(name))
    throw new InvalidInputError(
      field,
      `has the name ${JSON.stringify(name)}; a name begins with a letter and has up to 64 of A-Z a-z 0-9 _ . -`,
    );
  const at = `${field}.${name}`;
  if (typeof value === "boolean" || (typeof value === "number" && Number.isFinite(value))) return;
  if (typeof value !== "string") throw new InvalidInputError(at, "must be a string, a finite number, true or false");
  checkStorable(at, value);
  if (Buffer.byteLength(value) > valueBytesMax)
    throw new InvalidInputError(at, `is longer than the ${valueBytesMax} bytes that are allowed`);
}

/** The stored form of a value. Equal values of one type have equal texts, so that a store compares texts. */
export function attributeText(value: AttributeValue): string {
  return JSON.stringify(Object.is(value, -0) ? 0 : value);
}

export function attributeOf(text: string): AttributeValue {
  return JSON.parse(text) as AttributeValue;
}

/** The stored form of the attributes of a run: JSON of the texts of their values, by name. Null: none. */
export function encodeAttributes(attributes: Attributes): string | null {
  const entries = Object.entries(attributes).map(([name, value]) => [name, attributeText(value)] as const);
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.length === 0 ? null : JSON.stringify(Object.fromEntries(entries));
}

export function decodeAttributes(stored: string | null): Attributes {
  if (stored === null) return {};
  const texts = JSON.parse(stored) as Readonly<Record<string, string>>;
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, attributeOf(text)]));
}
