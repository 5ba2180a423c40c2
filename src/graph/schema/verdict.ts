/**
 * Whether a value is valid under one schema. `depth` counts schemas that are applied inside each other.
 *
 * Checks do not stop at the first mismatch: a check throws if it cannot check a value, and stopping early could hide that.
 */
export type Check = (value: unknown, depth: number) => boolean;

/** Far below the depth at which the stack overflows. */
const depthMax = 500;

/** The value cannot be checked: it is not JSON, nested too deeply, or too long for its pattern. It counts as invalid. */
class CannotCheck extends Error {}

export function cannotCheck(why: string): never {
  throw new CannotCheck(why);
}

let checked = 0;

/** Starts the check of another value: discards state of the previous one. */
export function beginValue(): void {
  checked += 1;
}

/** State that belongs to the value being checked, created on demand. */
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
    // The value cannot be checked, overflows the stack, or has a getter that throws.
    return false;
  }
}

export const alwaysValid: Check = () => true;
export const alwaysInvalid: Check = () => false;

export function mustBeJson(value: unknown): void {
  const type = typeof value;
  if (type !== "object" && type !== "string" && type !== "number" && type !== "boolean") cannotCheck(`a value of type ${type} is not JSON`);
}

export function mustBeShallow(depth: number): void {
  if (depth >= depthMax) cannotCheck(`more than ${depthMax} schemas are applied inside each other`);
}

/** Combines checks; runs all of them, even after one has failed. */
export function all(checks: readonly Check[]): Check {
  const [first = alwaysValid, second] = checks;
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
