/** Maximum nesting of a JSON value from outside: the code that handles payloads is recursive. */
export const jsonDepthMax = 100;

/** Whether a value is nested deeper than `jsonDepthMax`. Checks level by level; recursion could overflow the stack on hostile input. */
export function isDeepJson(value: object): boolean {
  let level: object[] = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth === jsonDepthMax) return true;
    level = level.flatMap((each) => Object.values(each).filter((member) => typeof member === "object" && member !== null));
  }
  return false;
}
