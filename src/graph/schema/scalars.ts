import { deepCompareStrict, ucs2length, validate } from "@cfworker/json-schema";
import { formatCheck } from "./formats.js";
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

/** Characters are code points: one or two units each. Most texts need no counting. */
function hasAtLeast(text: string, count: number): boolean {
  if (text.length < count) return false;
  return text.length >= count * 2 || ucs2length(text) >= count;
}

function matching(pattern: string): Check {
  const expression = new LinearPattern(pattern);
  return (value) => finds(expression, value as string);
}

/** Names that are no format are let pass. */
function ofFormat(name: string): Check[] {
  const test = formatCheck(name);
  return test === undefined ? [] : [(value) => test(value as string)];
}

/** Keywords that look at numbers. NaN is neither less nor more than a bound, and passes. */
export function numberChecks({ minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf }: Keywords): Check[] {
  const checks: Check[] = [];
  if (minimum !== undefined) checks.push((value) => !((value as number) < minimum));
  if (maximum !== undefined) checks.push((value) => !((value as number) > maximum));
  if (exclusiveMinimum !== undefined) checks.push((value) => !((value as number) <= exclusiveMinimum));
  if (exclusiveMaximum !== undefined) checks.push((value) => !((value as number) >= exclusiveMaximum));
  if (multipleOf !== undefined) checks.push((value) => isMultiple(value as number, multipleOf));
  return checks;
}

/** The remainder is exact for integers that are; the library calculates the others in decimals. */
function isMultiple(value: number, of: number): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(of)) return value % of === 0;
  return validate(value, { multipleOf: of }, "7", {}, false).valid;
}

/** `enum`, and `const` as a list of one. */
export function oneOfValues(values: readonly unknown[]): Check {
  const isObject = (value: unknown) => typeof value === "object" && value !== null;
  // Not NaN, which equals nothing.
  const scalars = new Set(values.filter((value) => !isObject(value) && !Number.isNaN(value)));
  const objects = values.filter(isObject);
  return (value) => (isObject(value) ? objects.some((one) => deepCompareStrict(value, one)) : scalars.has(value));
}
