import { isPlainObject } from "./plain-object.js";

/** Levels up to which JSON is looked for: cycles end there. */
const depthMax = 100;

/** In the place of a copy: JSON cannot hold it exactly. */
export const notJson = Symbol("not JSON");

/** Whether JSON can hold it exactly. */
export function holdsJson(value: unknown): boolean {
  return looked(value, false) !== notJson;
}

/** What JSON would make of it, there and back; or `notJson`. */
export function copyOfJson(value: unknown): unknown {
  return looked(value, true);
}

function looked(value: unknown, copies: boolean): unknown {
  try {
    return look(value, 0, copies);
  } catch {
    // A getter that throws: what it says is told by whoever goes through it next.
    return notJson;
  }
}

/** The value itself, or its copy. */
function look(value: unknown, depth: number, copies: boolean): unknown {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0) ? value : notJson;
    case "object":
      if (value === null) return null;
      if (depth > depthMax) return notJson; // devalue can tell cycles apart
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
  // Also what somebody has added to all objects: a toJSON there would be asked by JSON.
  for (const name in value) {
    // JSON.parse would keep "__proto__" as an own member, but nothing good ever needed it.
    if (name === "__proto__" || name === "toJSON") return notJson;
    const member = look(value[name], depth + 1, copies);
    if (member === notJson) return notJson;
    if (copies && Object.hasOwn(value, name)) copy[name] = member;
  }
  // JSON would drop them without a word.
  if (Object.getOwnPropertySymbols(value).length > 0) return notJson;
  return copies ? copy : value;
}
