import { RE2JS, RE2JSException } from "re2js";
import { PatternSyntax, UnsupportedPattern } from "./pattern-syntax.js";
import { cannotCheck, perValue } from "./verdict.js";

const patternCharsMax = 1000;
/** Instructions of a pattern times characters of a text: about half a second in the engine's worst case. */
const workMax = 10_000_000;

/** A regular expression that runs in time linear in the length of the text. */
export class LinearPattern {
  readonly #engine: RE2JS;
  readonly #instructions: number;

  /** Throws UnsupportedPattern, or SyntaxError if it is not a JavaScript pattern with the flag `u`. */
  constructor(pattern: string) {
    if (pattern.length > patternCharsMax) throw new UnsupportedPattern(`is longer than ${patternCharsMax} characters`);
    // JavaScript defines the syntax; the engine only runs the pattern.
    new RegExp(pattern, "u");
    this.#engine = compiled(PatternSyntax.toRe2(pattern));
    this.#instructions = this.#engine.programSize();
  }

  /** Maximum number of steps of `test` for this text. */
  workFor(text: string): number {
    return this.#instructions * text.length;
  }

  /** Whether the pattern matches anywhere in the text, as `RegExp.prototype.test` does. */
  test(text: string): boolean {
    return this.#engine.test(text);
  }
}

/** The CPU time is checked each time this much work was done for one value. */
const workPerTimeCheck = 2_000_000;
/** CPU time for all patterns of one value: a thousand times what a large packet takes. */
const cpuMsMax = 1000;

const spent = perValue(() => ({ work: 0, since: undefined as NodeJS.CpuUsage | undefined }));

/**
 * Whether the pattern matches the text, with limits on the work. Most patterns take nanoseconds per character, and no time is
 * measured. A pattern with large repetitions may take as many steps per character as it has instructions.
 */
export function finds(pattern: LinearPattern, text: string): boolean {
  const work = pattern.workFor(text);
  if (work > workMax) cannotCheck(`a string of ${text.length} characters is too long for its pattern; limit it with maxLength`);
  const sum = spent();
  sum.work += work;
  if (sum.work >= workPerTimeCheck) {
    sum.work = 0;
    sum.since ??= process.cpuUsage();
    const { user, system } = process.cpuUsage(sum.since);
    if ((user + system) / 1000 > cpuMsMax) cannotCheck(`its patterns take more than ${cpuMsMax} ms of CPU time`);
  }
  return pattern.test(text);
}

function compiled(text: string): RE2JS {
  try {
    return RE2JS.compile(text);
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    throw new UnsupportedPattern("repeats something more than 1000 times, or is too large");
  }
}

/** Why a pattern cannot be used; undefined if it can. */
export function wrongPattern(pattern: string): { readonly why: string; readonly isUnsupported: boolean } | undefined {
  try {
    new LinearPattern(pattern);
    return undefined;
  } catch (error) {
    if (error instanceof UnsupportedPattern) return { why: error.message, isUnsupported: true };
    return { why: "is not a regular expression", isUnsupported: false };
  }
}
