import { inShort } from "../../core/errors/in-short.js";
import { decode, encode } from "../../core/values/codec.js";
import { isPlainObject } from "../../core/values/plain-object.js";

/** More differences than these do not help to find the line. */
const differencesMax = 3;

/** What differs between two lists of arguments, in words: the places, and the values there. Empty when nothing that can be shown does. */
export function inputDifference(journaled: readonly unknown[], asked: readonly unknown[]): string {
  const found: string[] = [];
  const length = Math.max(journaled.length, asked.length);
  for (let i = 0; i < length; i++) compare(`argument ${i + 1}`, journaled[i], asked[i], found);
  return found.join("; ");
}

function compare(place: string, was: unknown, is: unknown, found: string[]): void {
  if (found.length >= differencesMax || textOf(was) === textOf(is)) return;
  const names = membersOf(was, is);
  if (names === undefined) found.push(`${place} was ${inShort(was)} and is now ${inShort(is)}`);
  else for (const name of names) compare(`${place}.${name}`, memberOf(was, name), memberOf(is, name), found);
}

/** Of two objects or two arrays; undefined for everything that is shown as a whole. */
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
    // It cannot be compared, so it is not said to differ.
    return isPlainObject(value) || Array.isArray(value) ? `not encoded ${inShort(value)}` : "not encoded";
  }
}

/** The arguments that a short fingerprint is. Undefined for a hash. */
export function argumentsIn(print: string): readonly unknown[] | undefined {
  if (!print.startsWith("[")) return undefined;
  const args: unknown = decode(print);
  return Array.isArray(args) ? args : undefined;
}
