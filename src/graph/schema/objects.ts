import type { Compile, Keywords } from "./keywords.js";
import { finds, LinearPattern } from "./linear-pattern.js";
import { all, alwaysValid, type Check } from "./verdict.js";

type Members = Readonly<Record<string, unknown>>;

/**
 * Checks of keywords for objects. `properties` and `required` look at own members only. Patterns and additional properties also
 * cover inherited names, so that everything a node can read from a packet has been checked.
 */
export function objectChecks(schema: Keywords, compile: Compile): Check[] {
  const { properties, required, minProperties, maxProperties, propertyNames, dependencies } = schema;
  const { patternProperties, additionalProperties = true } = schema;
  const checks: Check[] = [];
  if (properties !== undefined || required !== undefined) checks.push(named(properties ?? {}, required ?? [], compile));
  if (patternProperties !== undefined || additionalProperties !== true) checks.push(others(schema, compile));
  if (minProperties !== undefined) checks.push((value) => Object.keys(value as Members).length >= minProperties);
  if (maxProperties !== undefined) checks.push((value) => Object.keys(value as Members).length <= maxProperties);
  if (propertyNames !== undefined) checks.push(names(compile(propertyNames)));
  for (const [name, then] of Object.entries(dependencies ?? {})) checks.push(dependent(name, then, compile));
  return checks;
}

function named(properties: NonNullable<Keywords["properties"]>, required: readonly string[], compile: Compile): Check {
  const found = Object.keys(properties);
  const members = [...new Set([...found, ...required])].map((name) => ({
    name,
    isRequired: required.includes(name),
    check: Object.hasOwn(properties, name) ? compile(properties[name] as boolean) : alwaysValid,
  }));
  return (value, depth) => {
    let ok = true;
    for (let i = 0; i < members.length; i++) {
      const { name, isRequired, check } = members[i] as (typeof members)[number];
      if (Object.hasOwn(value as Members, name)) ok = check((value as Members)[name], depth + 1) && ok;
      else if (isRequired) ok = false;
    }
    return ok;
  };
}

/** Checks members that `properties` does not name: by pattern, or as additional ones. */
function others({ properties = {}, patternProperties = {}, additionalProperties = true }: Keywords, compile: Compile): Check {
  const known = new Set(Object.keys(properties));
  const patterns = Object.entries(patternProperties).map(([text, schema]) => ({
    pattern: new LinearPattern(text),
    check: compile(schema),
  }));
  const additional = compile(additionalProperties);
  return (value, depth) => {
    let ok = true;
    for (const name in value as Members) {
      let isKnown = known.has(name) && Object.hasOwn(value as Members, name);
      for (let i = 0; i < patterns.length; i++) {
        const { pattern, check } = patterns[i] as (typeof patterns)[number];
        if (!finds(pattern, name)) continue;
        isKnown = true;
        ok = check((value as Members)[name], depth + 1) && ok;
      }
      if (!isKnown) ok = additional((value as Members)[name], depth + 1) && ok;
    }
    return ok;
  };
}

function names(check: Check): Check {
  return (value, depth) => {
    let ok = true;
    for (const name in value as Members) ok = check(name, depth + 1) && ok;
    return ok;
  };
}

function dependent(name: string, then: readonly string[] | boolean | Keywords, compile: Compile): Check {
  const check = Array.isArray(then)
    ? all(
        (then as readonly string[]).map(
          (other): Check =>
            (value) =>
              Object.hasOwn(value as Members, other),
        ),
      )
    : compile(then as boolean);
  return (value, depth) => !Object.hasOwn(value as Members, name) || check(value, depth + 1);
}
