/** The location of this file in imports and in stack traces: with source maps the two differ. */
const locations = [import.meta.url, locationIn(new Error("here").stack?.split("\n")[1])];

/** This package's folders. Empty in a bundle, where this package and the user's code are one file. */
const ours = locations.flatMap((location) => /^(.*[/\\])core[/\\]errors[/\\]frames\.[jt]s\b/.exec(location)?.[1] ?? []);

/**
 * The stack lines of the user's own code. Lines of this package and of Node are left out, and so is everything below the last
 * line of this package: that is whichever code called us, which differs when a run is replayed.
 */
export function usersFrames(stack: string): readonly string[] {
  const lines = stack.split("\n").filter((line) => line.startsWith("    at "));
  const last = lines.findLastIndex(isOurs);
  return lines.slice(0, last === -1 ? lines.length : last).filter((line) => !isOurs(line) && !/\(?node:/.test(line));
}

function isOurs(line: string): boolean {
  return ours.some((folder) => line.includes(folder));
}

/** File, line and column of a stack line. */
export function locationIn(line = ""): string {
  return line.replace(/^\s*at (?:.*\()?/, "").replace(/\)$/, "");
}
