import type { Compile, Keywords } from "./keywords.js";
import { all, type Check } from "./verdict.js";

/** Checks of keywords that apply other schemas to the same value. */
export function choiceChecks(schema: Keywords, compile: Compile): Check[] {
  const { not, allOf, anyOf, oneOf, if: condition } = schema;
  const checks: Check[] = [];
  if (not !== undefined) checks.push(opposite(compile(not)));
  if (allOf !== undefined) checks.push(deeper(all(allOf.map(compile))));
  if (anyOf !== undefined) checks.push(counted(anyOf.map(compile), (matches) => matches > 0));
  if (oneOf !== undefined) checks.push(counted(oneOf.map(compile), (matches) => matches === 1));
  if (condition !== undefined) checks.push(either(compile(condition), compile(schema.then ?? true), compile(schema.else ?? true)));
  return checks;
}

function deeper(check: Check): Check {
  return (value, depth) => check(value, depth + 1);
}

function opposite(check: Check): Check {
  return (value, depth) => !check(value, depth + 1);
}

function counted(checks: readonly Check[], isRight: (matches: number) => boolean): Check {
  return (value, depth) => {
    let matches = 0;
    for (const check of checks) if (check(value, depth + 1)) matches += 1;
    return isRight(matches);
  };
}

function either(condition: Check, then: Check, otherwise: Check): Check {
  return (value, depth) => (condition(value, depth + 1) ? then(value, depth + 1) : otherwise(value, depth + 1));
}
