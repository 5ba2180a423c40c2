import { inShort } from "../../../core/errors/in-short.js";
import { decode, encode } from "../../../core/values/codec.js";
import { isPlainObject } from "../../../core/values/plain-object.js";

/** Maximum number of differences in a message. */
const differencesMax = 3;

/** Describes the differences between two lists of arguments: paths and values. Empty if no difference can be shown. */
export function inputDifference(journaled: readonly unknown[], asked: readonly unknown[]): string {
  const found: string[] = [];
  const length = Math.max(journaled.length, asked.length);
  for (let i = 0; i < length; i++) compare(`argument ${i + 1}`, journaled[i], asked[i], found);
  return found.join("; ");
}

function compare(path: string, was: unknown, is: unknown, found: string[]): void {
  if (found.length >= differencesMax || textOf(was) === textOf(is)) return;
  const names = membersOf(was, is);
  if (names === undefined) found.push(`${path} was ${inShort(was)} and is now ${inShort(is)}`);
  else for (const name of names) compare(`${path}.${name}`, memberOf(was, name), memberOf(is, name), found);
}

/** Names of the members of two objects or two arrays; undefined for values that are shown as a whole. */
function membersOf(was: unknown, is: unknown): readonly string[] | undefined {
  const both = (isPlainObject(was) && isPlainObject(is)) || (Array.isArray(was) && Array.isArray(is));
  return both ? [...new Set([...Object.keys(was as object), ...Object.keys(is as object)])] : undefined;
}

function memberOf(of: unknown, name: string): unknown {
  return (of as Readonly<Record<string, unknown>>)[name];
}

function textOf(value: unknown): string {
  try {
    return encode(value);
  } catch {
    // The value cannot be compared, so it is not reported as different.
    return isPlainObject(value) || Array.isArray(value) ? `not encoded ${inShort(value)}` : "not encoded";
  }
}

/** The arguments in a short fingerprint, which contains them. Undefined for a hash. */
export function argumentsIn(print: string): readonly unknown[] | undefined {
  if (!print.startsWith("[")) return undefined;
  const args: unknown = decode(print);
  return Array.isArray(args) ? args : undefined;
}
