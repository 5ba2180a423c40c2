import { multipleOf } from "./decimals.js";
import { areEqual } from "./equality.js";
import { formatCheck } from "./formats/known-formats.js";
import type { Keywords } from "./keywords.js";
import { finds, LinearPattern } from "./linear-pattern.js";
import type { Check } from "./verdict.js";

/** Keywords that look at texts. */
export function textChecks({ minLength, maxLength, pattern, format: name }: Keywords): Check[] {
  const checks: Check[] = [];
  if (minLength !== undefined) checks.push((value) => hasAtLeast(value as string, minLength));
  if (maxLength !== undefined) checks.push((value) => !hasAtLeast(value as string, maxLength + 1));
  if (pattern !== undefined) checks.push(matching(pattern));
  if (name !== undefined) checks.push(...ofFormat(name));
  return checks;
}

/** Most texts need no counting: a character is one or two units of the text. */
function hasAtLeast(text: string, count: number): boolean {
  if (text.length < count) return false;
  return text.length >= count * 2 || countCharacters(text) >= count;
}

/** Characters are code points. A surrogate without its other half counts as one. */
export function countCharacters(text: string): number {
  let count = 0;
  for (let i = 0; i < text.length; i += (text.codePointAt(i) as number) > 0xffff ? 2 : 1) count += 1;
  return count;
}

function matching(pattern: string): Check {
  const expression = new LinearPattern(pattern);
  return (value) => finds(expression, value as string);
}

/** Formats that are not known are let pass: they are notes for a reader. */
function ofFormat(name: string): Check[] {
  const test = formatCheck(name);
  return test === undefined ? [] : [(value) => test(value as string)];
}

/** Keywords that look at numbers. NaN is neither less nor more than a bound, and passes. */
export function numberChecks({ minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf: divisor }: Keywords): Check[] {
  const checks: Check[] = [];
  if (minimum !== undefined) checks.push((value) => !((value as number) < minimum));
  if (maximum !== undefined) checks.push((value) => !((value as number) > maximum));
  if (exclusiveMinimum !== undefined) checks.push((value) => !((value as number) <= exclusiveMinimum));
  if (exclusiveMaximum !== undefined) checks.push((value) => !((value as number) >= exclusiveMaximum));
  if (divisor !== undefined) checks.push(multipleOf(divisor) as Check);
  return checks;
}

/** `enum`, and `const` as a list of one. */
export function oneOfValues(values: readonly unknown[]): Check {
  const isObject = (value: unknown) => typeof value === "object" && value !== null;
  // Not NaN, which equals nothing.
  const scalars = new Set(values.filter((value) => !isObject(value) && !Number.isNaN(value)));
  const objects = values.filter(isObject);
  return (value) => (isObject(value) ? objects.some((one) => areEqual(value, one)) : scalars.has(value));
}
