import { isPlainObject } from "./plain-object.js";

/** Values nested deeper are not treated as JSON. It also ends the traversal of a cycle. */
const depthMax = 100;

/** Returned in place of a copy if JSON cannot hold the value exactly. */
export const notJson = Symbol("not JSON");

/** Whether JSON can hold the value exactly. */
export function holdsJson(value: unknown): boolean {
  return looked(value, false) !== notJson;
}

/** Returns what `JSON.parse(JSON.stringify(value))` would return, or `notJson`. */
export function copyOfJson(value: unknown): unknown {
  return looked(value, true);
}

function looked(value: unknown, copies: boolean): unknown {
  try {
    return look(value, 0, copies);
  } catch {
    // A getter threw. ValueWriter traverses the value next and reports the error.
    return notJson;
  }
}

/** Returns the value or its copy, or `notJson`. */
function look(value: unknown, depth: number, copies: boolean): unknown {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0) ? value : notJson;
    case "object":
      if (value === null) return null;
      if (depth > depthMax) return notJson; // Perhaps a cycle, which devalue can encode.
      if (Array.isArray(value)) return lookAtArray(value, depth, copies);
      return isPlainObject(value) ? lookAtObject(value, depth, copies) : notJson;
    default:
      return notJson;
  }
}

function lookAtArray(value: readonly unknown[], depth: number, copies: boolean): unknown {
  const copy: unknown[] = [];
  for (let i = 0; i < value.length; i++) {
    const item = look(value[i], depth + 1, copies);
    if (item === notJson) return notJson;
    if (copies) copy.push(item);
  }
  return copies ? copy : value;
}

function lookAtObject(value: Record<string, unknown>, depth: number, copies: boolean): unknown {
  const copy: Record<string, unknown> = {};
  // Includes inherited members: JSON would call a toJSON that was added to Object.prototype.
  for (const name in value) {
    // JSON.parse would create an own member "__proto__"; leave that to devalue, which rejects it.
    if (name === "__proto__" || name === "toJSON") return notJson;
    const member = look(value[name], depth + 1, copies);
    if (member === notJson) return notJson;
    if (copies && Object.hasOwn(value, name)) copy[name] = member;
  }
  // JSON would drop members named by symbols silently.
  if (Object.getOwnPropertySymbols(value).length > 0) return notJson;
  return copies ? copy : value;
}
