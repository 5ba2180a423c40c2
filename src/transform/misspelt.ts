import { closest } from "../core/errors/closest.js";

const directives = ["use step", "use workflow"] as const;
type Directive = (typeof directives)[number];

/** Directives of other tools. The option `directives` adds to them. */
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

export function isDirective(text: string): text is Directive {
  return (directives as readonly string[]).includes(text);
}

/** Lower case, with single spaces instead of hyphens, underscores and repeated spaces. */
function normalised(text: string): string {
  return text
    .toLowerCase()
    .replace(/[\s_-]+/g, " ")
    .trim()
    .replace(/^user /, "use ");
}

/**
 * The directive that a misspelt text was probably meant to be: one at most two edits away. An unreported misspelt directive
 * would leave a plain function, whose effect happens again with every replay. Undefined if the text is spelt correctly, or
 * is a directive of another tool.
 */
export function intendedDirective(text: string, known: readonly string[] = []): Directive | undefined {
  // Every text within two edits that is reported begins with "u" or "su": the quick test of whole files relies on it.
  if (isDirective(text) || others.has(text) || known.includes(text) || !/^\s*s?u/i.test(text)) return undefined;
  return closest(normalised(text), directives) as Directive | undefined;
}

/** True if the text is a directive except for spaces, hyphens, underscores and capitals. */
export function isDirectiveBadlyWritten(text: string): boolean {
  return !isDirective(text) && isDirective(normalised(text));
}
