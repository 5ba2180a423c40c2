import type { JsonSchema } from "../schema-compiler.js";
import type { Compile, Keywords } from "./keywords.js";
import { askLibrary, type Check, no, nosSoFar, without } from "./verdict.js";

/** Keywords that look at arrays. */
export function listChecks({ minItems, maxItems, uniqueItems, contains, items, additionalItems }: Keywords, compile: Compile): Check[] {
  const checks: Check[] = [];
  if (minItems !== undefined) checks.push((value) => (value as unknown[]).length >= minItems || no());
  if (maxItems !== undefined) checks.push((value) => (value as unknown[]).length <= maxItems || no());
  if (isList(items)) checks.push(eachInPlace(items.map(compile), compile(additionalItems ?? true)));
  else if (items !== undefined) checks.push(each(compile(items)));
  if (contains !== undefined) checks.push(some(compile(contains)));
  if (uniqueItems === true) checks.push(areUnique);
  return checks;
}

function isList(items: Keywords["items"]): items is readonly JsonSchema[] {
  return Array.isArray(items);
}

function each(check: Check): Check {
  return (value, depth) => {
    const list = value as readonly unknown[];
    let ok = true;
    for (let i = 0; i < list.length; i++) ok = check(list[i], depth + 1) && ok;
    return ok;
  };
}

function eachInPlace(checks: readonly Check[], rest: Check): Check {
  return (value, depth) => {
    const list = value as readonly unknown[];
    let ok = true;
    for (let i = 0; i < list.length; i++) ok = (checks[i] ?? rest)(list[i], depth + 1) && ok;
    return ok;
  };
}

function some(check: Check): Check {
  return (value, depth) => {
    const list = value as readonly unknown[];
    const before = nosSoFar();
    let found = false;
    for (let i = 0; i < list.length; i++) {
      found = check(list[i], depth + 1) || found;
      without(before);
    }
    return found || no();
  };
}

/** Only of scalars: objects are compared with each other by the library. NaN equals nothing. */
const areUnique: Check = (value) => {
  const seen = new Set<unknown>();
  for (const item of value as readonly unknown[]) {
    if (typeof item === "object" && item !== null) return askLibrary();
    if (seen.has(item)) return no();
    if (!Number.isNaN(item)) seen.add(item);
  }
  return true;
};
