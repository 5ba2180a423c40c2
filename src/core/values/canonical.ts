import { hash } from "node:crypto";
import canonicalize from "canonicalize";
import { InvalidInputError } from "../errors/errors.js";
import { isPlainObject } from "./plain-object.js";

/**
 * One text for one meaning: RFC 8785 (sorted members, one form of every number), by a library. The library
 * drops `undefined`, flattens Map to {} and asks toJSON, so that two different payloads would get one hash:
 * all it cannot represent is refused here first, with its path.
 */
export function canonicalJson(value: unknown, field: string): string {
  refuseUnrepresentable(value, field, []);
  const text = canonicalize(value);
  if (text === undefined) throw new InvalidInputError(field, "cannot be represented as JSON");
  return text;
}

export function sha256(text: string | Uint8Array): string {
  return hash("sha256", text, "hex");
}

const depthMax = 200;

function refuseUnrepresentable(value: unknown, path: string, above: readonly object[]): void {
  switch (typeof value) {
    case "boolean":
      return;
    case "string":
      if (!value.isWellFormed()) throw new InvalidInputError(path, "has a lone surrogate, which no UTF-8 text can hold");
      return;
    case "number":
      if (!Number.isFinite(value)) throw new InvalidInputError(path, `is ${value}, which JSON cannot hold`);
      return;
    case "object":
      if (value !== null) refuseInside(value, path, above);
      return;
    default:
      throw new InvalidInputError(path, `is ${article(typeof value)}, which JSON cannot hold; leave it out or turn it into a string`);
  }
}

function refuseInside(value: object, path: string, above: readonly object[]): void {
  if (above.includes(value)) throw new InvalidInputError(path, "refers back to a value that contains it");
  if (above.length > depthMax) throw new InvalidInputError(path, `is nested deeper than ${depthMax} levels`);
  const inside = [...above, value];
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) refuseUnrepresentable(value[i], `${path}[${i}]`, inside);
    return;
  }
  if (!isPlainObject(value) || typeof value["toJSON"] === "function") {
    const name = value.constructor?.name ?? "an object with its own JSON form";
    throw new InvalidInputError(path, `is ${article(name)}, which JSON cannot hold exactly; turn it into plain values first`);
  }
  for (const [name, member] of Object.entries(value)) {
    if (!name.isWellFormed()) throw new InvalidInputError(path, "has a member name with a lone surrogate");
    refuseUnrepresentable(member, `${path}.${name}`, inside);
  }
}

function article(name: string): string {
  return name === "undefined" || name.startsWith("an ") ? name : `${/^[aeiou]/i.test(name) ? "an" : "a"} ${name}`;
}
