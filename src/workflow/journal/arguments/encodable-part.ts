import { encode } from "../../../core/values/codec.js";
import { isPlainObject } from "../../../core/values/plain-object.js";
import { isRequest, isResponse } from "../../../core/values/web-kinds.js";

/**
 * The value with a placeholder for each part that cannot be encoded: a function, a stream, an instance of a class that is
 * not registered. A placeholder contains only what is the same at every replay.
 */
export function encodablePart(value: unknown): unknown {
  return partOf(value, new Map());
}

/** `seen`: objects that were already visited, because a value may contain itself. */
function partOf(value: unknown, seen: Map<unknown, unknown>): unknown {
  if (isEncodable(value)) return value;
  if (seen.has(value)) return seen.get(value);
  seen.set(value, placeholder("seen before"));
  const part = apart(value, seen);
  seen.set(value, part);
  return part;
}

function apart(value: unknown, seen: Map<unknown, unknown>): unknown {
  try {
    if (Array.isArray(value)) return value.map((item) => partOf(item, seen));
    if (isPlainObject(value)) return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, partOf(member, seen)]));
    if (isRequest(value)) return placeholder(`${value.method} ${value.url}`);
    if (isResponse(value)) return placeholder(String(value.status));
  } catch {
    // A getter has thrown.
  }
  return placeholder(typeof value);
}

function isEncodable(value: unknown): boolean {
  try {
    encode(value);
    return true;
  } catch {
    return false;
  }
}

function placeholder(kind: string): object {
  return { "onceflow: not encoded": kind };
}
