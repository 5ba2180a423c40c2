import { InvalidInputError } from "../errors/errors.js";
import { inShort } from "../errors/in-short.js";
import { knownOptions } from "../errors/known-options.js";
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

const refNames = { key: true, scope: true, attempt: true } as const;

/** A misspelt scope would name another record. A record that `list` has returned has both names, and other fields beside them. */
export function checkRef(where: string, ref: KeyRef): void {
  if (typeof ref !== "object" || ref === null) throw new InvalidInputError(where, `must have a key, not ${inShort(ref)}`);
  if (!Object.hasOwn(ref, "key") || !Object.hasOwn(ref, "scope")) knownOptions(where, ref, refNames);
}

export function whole(field: string, value: unknown, min: number, max: number): void {
  if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max)
    throw new InvalidInputError(field, `must be a whole number from ${min} to ${max}, not ${inShort(value)}`);
}
