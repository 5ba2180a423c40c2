import { NodeError } from "../../node/node-error.js";

/** The JSON text of a value. Throws NodeError VALIDATION for values that JSON cannot have, such as a bigint. */
export function jsonOf(field: string, value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    throw new NodeError("VALIDATION", `${field}: the value cannot be written as JSON`);
  }
}
