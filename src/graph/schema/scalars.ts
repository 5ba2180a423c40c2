import { multipleOf } from "./decimals.js";
import { areEqual } from "./equality.js";
import { formatCheck } from "./formats/known-formats.js";
import type { Keywords } from "./keywords.js";
import { finds, LinearPattern } from "./linear-pattern.js";
import type { Check } from "./verdict.js";

/** Checks of keywords for strings. */
export function textChecks({ minLength, maxLength, pattern, format: name }: Keywords): Check[] {
  const checks: Check[] = [];
  if (minLength !== undefined) checks.push((value) => hasAtLeast(value as string, minLength));
  if (maxLength !== undefined) checks.push((value) => !hasAtLeast(value as string, maxLength + 1));
  if (pattern !== undefined) checks.push(matching(pattern));
  if (name !== undefined) checks.push(...ofFormat(name));
  return checks;
}

/** Most strings need no counting, because a character is one or two UTF-16 units. */
function hasAtLeast(text: string, count: number): boolean {
  if (text.length < count) return false;
  return text.length >= count * 2 || countCharacters(text) >= count;
}

/** Counts code points. A lone surrogate counts as one. */
export function countCharacters(text: string): number {
  let count = 0;
  for (let i = 0; i < text.length; i += (text.codePointAt(i) as number) > 0xffff ? 2 : 1) count += 1;
  return count;
}

function matching(pattern: string): Check {
  const expression = new LinearPattern(pattern);
  return (value) => finds(expression, value as string);
}

/** Unknown formats are ignored: they are annotations. */
function ofFormat(name: string): Check[] {
  const test = formatCheck(name);
  return test === undefined ? [] : [(value) => test(value as string)];
}

/** Checks of keywords for numbers. NaN is neither below nor above a limit, and passes. */
export function numberChecks({ minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf: divisor }: Keywords): Check[] {
  const checks: Check[] = [];
  if (minimum !== undefined) checks.push((value) => !((value as number) < minimum));
  if (maximum !== undefined) checks.push((value) => !((value as number) > maximum));
  if (exclusiveMinimum !== undefined) checks.push((value) => !((value as number) <= exclusiveMinimum));
  if (exclusiveMaximum !== undefined) checks.push((value) => !((value as number) >= exclusiveMaximum));
  if (divisor !== undefined) checks.push(multipleOf(divisor) as Check);
  return checks;
}

/** Check of `enum`, and of `const` as a list with one value. */
export function oneOfValues(values: readonly unknown[]): Check {
  const isObject = (value: unknown) => typeof value === "object" && value !== null;
  // Without NaN, which equals no value.
  const scalars = new Set(values.filter((value) => !isObject(value) && !Number.isNaN(value)));
  const objects = values.filter(isObject);
  return (value) => (isObject(value) ? objects.some((one) => areEqual(value, one)) : scalars.has(value));
}
