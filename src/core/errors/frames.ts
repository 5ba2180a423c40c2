/** Where this file is, as imports see it and as stack traces do: with source maps these are two places. */
const places = [import.meta.url, placeIn(new Error("here").stack?.split("\n")[1])];

/** This package's folders. None in a bundle, where our code and the user's are one file. */
const ours = places.flatMap((place) => /^(.*[/\\])core[/\\]errors[/\\]frames\.[jt]s\b/.exec(place)?.[1] ?? []);

/**
 * The lines of a stack that are the user's: neither ours nor Node's own, nor what is below the last of ours, which is
 * whoever happened to call us, and another one when a run is replayed.
 */
export function usersFrames(stack: string): readonly string[] {
  const lines = stack.split("\n").filter((line) => line.startsWith("    at "));
  const last = lines.findLastIndex(isOurs);
  return lines.slice(0, last === -1 ? lines.length : last).filter((line) => !isOurs(line) && !/\(?node:/.test(line));
}

function isOurs(line: string): boolean {
  return ours.some((folder) => line.includes(folder));
}

/** File, line and column of a line of a stack. */
export function placeIn(line = ""): string {
  return line.replace(/^\s*at (?:.*\()?/, "").replace(/\)$/, "");
}
