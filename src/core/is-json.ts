import { isPlainObject } from "./plain-object.js";

/** Levels up to which JSON is looked for: cycles end there. */
const depthMax = 100;

/** Whether JSON can hold it exactly. */
export function holdsJson(value: unknown): boolean {
  try {
    return isJson(value, 0);
  } catch {
    // A getter that throws: what it says is told by whoever goes through it next.
    return false;
  }
}

function isJson(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0);
    case "object":
      if (value === null) return true;
      if (depth > depthMax) return false; // devalue can tell cycles apart
      if (Array.isArray(value)) return isJsonArray(value, depth);
      return isPlainObject(value) && isJsonObject(value, depth);
    default:
      return false;
  }
}

function isJsonArray(value: readonly unknown[], depth: number): boolean {
  for (let i = 0; i < value.length; i++) if (!isJson(value[i], depth + 1)) return false;
  return true;
}

function isJsonObject(value: Record<string, unknown>, depth: number): boolean {
  // Also what somebody has added to all objects: a toJSON there would be asked by JSON.
  for (const name in value) {
    // JSON.parse would keep "__proto__" as an own member, but nothing good ever needed it.
    if (name === "__proto__" || name === "toJSON" || !isJson(value[name], depth + 1)) return false;
  }
  // JSON would drop them without a word.
  return Object.getOwnPropertySymbols(value).length === 0;
}
