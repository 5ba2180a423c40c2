/**
 * Whether a value is valid under one schema. `depth` counts schemas that are applied inside each other.
 *
 * Nothing ends early: a check throws at what it can't check, and a branch of `anyOf` that gave up before would hide that.
 */
export type Check = (value: unknown, depth: number) => boolean;

/** Far below what the stack holds. */
const depthMax = 500;

/** A value that no schema can judge: not JSON, nested too deep, or too long for its pattern. It is not valid. */
class CannotCheck extends Error {}

export function cannotCheck(why: string): never {
  throw new CannotCheck(why);
}

let checked = 0;

/** Says that another value is checked: what is remembered about the one before is of no use. */
export function beginValue(): void {
  checked += 1;
}

/** State that belongs to the value that is checked now, made when it is asked for. */
export function perValue<T>(make: () => T): () => T {
  let of = -1;
  let state: T;
  return () => {
    if (of !== checked) {
      of = checked;
      state = make();
    }
    return state;
  };
}

export function isValid(check: Check, value: unknown): boolean {
  beginValue();
  try {
    return check(value, 0);
  } catch {
    // It cannot be checked, is nested deeper than the stack, or has a getter that throws.
    return false;
  }
}

export const yes: Check = () => true;
export const no: Check = () => false;

export function mustBeJson(value: unknown): void {
  const type = typeof value;
  if (type !== "object" && type !== "string" && type !== "number" && type !== "boolean") cannotCheck(`a value of type ${type} is not JSON`);
}

export function mustBeShallow(depth: number): void {
  if (depth >= depthMax) cannotCheck(`more than ${depthMax} schemas are applied inside each other`);
}

/** All of them, each asked whatever the others say. */
export function all(checks: readonly Check[]): Check {
  const [first = yes, second] = checks;
  if (second === undefined) return first;
  if (checks.length === 2)
    return (value, depth) => {
      const ok = first(value, depth);
      return second(value, depth) && ok;
    };
  return (value, depth) => {
    let ok = true;
    for (let i = 0; i < checks.length; i++) ok = (checks[i] as Check)(value, depth) && ok;
    return ok;
  };
}
