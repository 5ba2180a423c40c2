import { InvalidInputError } from "../errors/errors.js";
import { inShort } from "../errors/in-short.js";
import { checkName, type Key } from "./key.js";
import type { RecordId } from "./record.js";

/** Names the record of a key. */
export interface KeyRef {
  readonly key: Key | string;
  /** Default "". */
  readonly scope?: string;
}

export function idOf({ key, scope = "" }: KeyRef): RecordId {
  checkName("key", key);
  checkName("scope", scope);
  return { scope, key };
}

export function whole(field: string, value: unknown, min: number, max: number): void {
  if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max)
    throw new InvalidInputError(field, `must be a whole number from ${min} to ${max}, not ${inShort(value)}`);
}
