import type { JsonSchema } from "./compiler.js";
import { duplicateIn } from "./equality.js";
import type { Compile, Keywords } from "./keywords.js";
import type { Check } from "./verdict.js";

/** Checks of keywords for arrays. */
export function listChecks({ minItems, maxItems, uniqueItems, contains, items, additionalItems }: Keywords, compile: Compile): Check[] {
  const checks: Check[] = [];
  if (minItems !== undefined) checks.push((value) => (value as unknown[]).length >= minItems);
  if (maxItems !== undefined) checks.push((value) => (value as unknown[]).length <= maxItems);
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
    let found = false;
    for (let i = 0; i < list.length; i++) found = check(list[i], depth + 1) || found;
    return found;
  };
}

const areUnique: Check = (value) => duplicateIn(value as readonly unknown[]) === undefined;
