import { closest } from "../core/errors/closest.js";

const ours = ["use step", "use workflow"] as const;
type Ours = (typeof ours)[number];

/** Directives of others. The option `directives` adds to them. */
const others: ReadonlySet<string> = new Set([
  "use strict",
  "use asm",
  "use client",
  "use server",
  "use cache",
  "use cache: remote",
  "use cache: private",
  "use memo",
  "use no memo",
  "use forget",
  "use no forget",
  "use gpu",
]);

export function isOurs(text: string): text is Ours {
  return (ours as readonly string[]).includes(text);
}

/** As it would be without needless spaces, hyphens and capitals. */
function normalised(text: string): string {
  return text
    .toLowerCase()
    .replace(/[\s_-]+/g, " ")
    .trim()
    .replace(/^user /, "use ");
}

/**
 * The directive of ours that a text was probably meant to be: at most two mistakes away from it. A misspelt one would
 * leave a plain function, whose effect happens again with every replay. Undefined when the text is ours, or another's.
 */
export function meantBy(text: string, known: readonly string[] = []): Ours | undefined {
  // All that is as near as this begins with "u" or "su": the quick look at a whole file relies on it.
  if (isOurs(text) || others.has(text) || known.includes(text) || !/^\s*s?u/i.test(text)) return undefined;
  return closest(normalised(text), ours) as Ours | undefined;
}

/** As `meantBy`, but only where nothing is wrong beside spaces, hyphens and capitals. */
export function isOursBadlyWritten(text: string): boolean {
  return !isOurs(text) && isOurs(normalised(text));
}
