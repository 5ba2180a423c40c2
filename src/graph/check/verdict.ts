/**
 * Whether a value is valid under one schema. The answer is the library's, in less time; where that is not certain, the
 * check throws, and the library is asked. `depth` counts schemas that are applied inside each other.
 *
 * Nothing ends early: the library goes through all of a value, also where it has said no already, and throws at what it
 * can't check. A branch of `anyOf` that gave up before would hide that.
 */
export type Check = (value: unknown, depth: number) => boolean;

/** The library's stack holds about five times as many, and throws beyond that. */
const depthMax = 100;
/** The library keeps a list of everything that is wrong, and breaks where that gets long. */
const nosMax = 100;

const unsure = new Error("the library is asked");

/** How often it was said in this packet, but for those that turned out not to matter. */
let nos = 0;

export function isSurelyValid(check: Check, value: unknown): boolean {
  nos = 0;
  try {
    return check(value, 0);
  } catch {
    // Unsure, nested too deep, or a getter that throws.
    return false;
  }
}

export const yes: Check = () => true;

export function no(): false {
  nos += 1;
  return nos > nosMax ? askLibrary() : false;
}

/** What one side of a choice found wrong is forgotten when the choice is made. */
export function without(nosBefore: number): void {
  nos = nosBefore;
}

export function nosSoFar(): number {
  return nos;
}

export function askLibrary(): never {
  throw unsure;
}

/** The library throws at what is not JSON, wherever it meets it. */
export function mustBeJson(value: unknown): void {
  const type = typeof value;
  if (type !== "object" && type !== "string" && type !== "number" && type !== "boolean") askLibrary();
}

export function mustBeShallow(depth: number): void {
  if (depth >= depthMax) askLibrary();
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
