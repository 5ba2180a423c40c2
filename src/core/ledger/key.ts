import { InvalidInputError } from "../errors/errors.js";
import { canonicalJson, sha256 } from "../values/canonical.js";
import { isPlainObject } from "../values/plain-object.js";
import { compileTemplate } from "../values/template.js";

declare const brand: unique symbol;

/**
 * Names one logical operation. Branded, so that a random or time-based string (`crypto.randomUUID()`, `String(Date.now())`), which
 * would differ at every retry, does not compile. Make one with {@link key}.
 */
export type Key = string & { readonly [brand]: "Key" };

const keyBytesMax = 512;

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters it refuses
const control = /[\u0000-\u001f\u007f]/;

/** Matches nearly every key, so that one test is enough. */
const plain = /^[\x20-\x7e]{1,512}$/;

/** Throws unless `text` can be a key (or a scope, which may be empty) in every store. */
export function checkName(field: "key" | "scope" | "actionId", text: unknown): asserts text is string {
  if (typeof text === "string" && plain.test(text)) return;
  if (typeof text !== "string") throw new InvalidInputError(field, `must be a string, not ${text === null ? "null" : typeof text}`);
  if (text === "" && field !== "scope")
    throw new InvalidInputError(field, field === "key" ? "is empty; it must name one logical operation" : "is empty");
  if (control.test(text)) throw new InvalidInputError(field, "has control characters; use printable text");
  if (!text.isWellFormed()) throw new InvalidInputError(field, "has a lone surrogate, which no UTF-8 text can hold");
  const bytes = Buffer.byteLength(text);
  if (bytes > keyBytesMax)
    throw new InvalidInputError(field, `is ${bytes} bytes long; ${keyBytesMax} are allowed. Hash long parts with key.from(…)`);
}

/** The idempotency key to pass to providers: fixed length, safe in a header, different in every scope. */
export function effectKeyOf(scope: string, key: string): string {
  return sha256(`${scope}\0${key}`);
}

/**
 * Uses a string as a key. It must be the same at every retry of one operation.
 *
 * @throws InvalidInputError if it is empty, longer than 512 bytes, or has control characters.
 */
function of(text: string): Key {
  checkName("key", text);
  return text as Key;
}

/**
 * Makes a key from the request: the hash of the canonical payload, or of some of its fields (`"customer.id"`).
 *
 * @throws InvalidInputError if a field is missing, or if the payload has a value that JSON cannot hold exactly.
 * @example
 * key.from({ order: "o-1", amount: 10 }) === key.from({ amount: 10, order: "o-1" });
 */
function from(payload: unknown, fields?: readonly string[]): Key {
  const picked = fields === undefined ? payload : fields.map((field) => [field, pick(payload, field)]);
  return `sha256:${sha256(canonicalJson(picked, "payload"))}` as Key;
}

function pick(payload: unknown, field: string): unknown {
  let value = payload;
  for (const name of field.split(".")) {
    const inside = Array.isArray(value) || isPlainObject(value) ? (value as object) : undefined;
    if (inside === undefined || !Object.hasOwn(inside, name))
      throw new InvalidInputError(`payload.${field}`, "is missing, but the key is made from it");
    value = (inside as Record<string, unknown>)[name];
  }
  return value;
}

/**
 * Compiles a template into a function that makes keys. Filling it throws InvalidInputError if a field is missing: a key without
 * that field would name many operations.
 *
 * @example
 * key.template("{{payload.orderId}}-charge")({ payload: { orderId: "o-1" } }) === "o-1-charge";
 */
function template(text: string): (context: Readonly<Record<string, unknown>>) => Key {
  const fill = compileTemplate(text);
  return (context) => of(fill(context));
}

/**
 * Makes keys: `key.of` from a stable string, `key.from` from the hash of a payload, `key.template` from a template.
 *
 * @example
 * key.of("charge:order-1");
 * key.from(order, ["customer.id", "amount"]);
 * key.template("{{payload.orderId}}-charge");
 */
export const key = { of, from, template } as const;
