import { RE2JS, RE2JSException } from "re2js";
import { PatternSyntax, UnsupportedPattern } from "./pattern-syntax.js";
import { cannotCheck, perValue } from "./verdict.js";

const patternCharsMax = 1000;
/** Instructions of a pattern times characters of a text: about half a second, where the engine is at its slowest. */
const workMax = 10_000_000;

/** A regular expression whose time grows with the length of the text, whatever the text is. */
export class LinearPattern {
  readonly #engine: RE2JS;
  readonly #instructions: number;

  /** Throws UnsupportedPattern, or a SyntaxError for what is no pattern of JavaScript with the flag `u`. */
  constructor(pattern: string) {
    if (pattern.length > patternCharsMax) throw new UnsupportedPattern(`is longer than ${patternCharsMax} characters`);
    // JavaScript says what is a pattern; the engine only how it is run.
    new RegExp(pattern, "u");
    this.#engine = compiled(PatternSyntax.toRe2(pattern));
    this.#instructions = this.#engine.programSize();
  }

  /** Steps that `test` may take for this text, at most. */
  workFor(text: string): number {
    return this.#instructions * text.length;
  }

  /** Whether it is found anywhere in the text, as `RegExp.prototype.test` says. */
  test(text: string): boolean {
    return this.#engine.test(text);
  }
}

/** So often the time that the patterns of one value have taken is looked at. */
const workPerLook = 2_000_000;
/** Of the processor, for all patterns of one value: a thousand times what a large packet takes. */
const cpuMsMax = 1000;

const spent = perValue(() => ({ work: 0, since: undefined as NodeJS.CpuUsage | undefined }));

/**
 * Whether the pattern is found in the text, within bounds. Most patterns take nanoseconds for a character, and nothing is
 * measured. With some that repeat many times each character takes as many steps as the pattern has instructions.
 */
export function finds(pattern: LinearPattern, text: string): boolean {
  const work = pattern.workFor(text);
  if (work > workMax) cannotCheck(`a text of ${text.length} characters is too long for its pattern; bound it with maxLength`);
  const sum = spent();
  sum.work += work;
  if (sum.work >= workPerLook) {
    sum.work = 0;
    sum.since ??= process.cpuUsage();
    const { user, system } = process.cpuUsage(sum.since);
    if ((user + system) / 1000 > cpuMsMax) cannotCheck(`its patterns take more than ${cpuMsMax} ms of processor time`);
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

/** Why a pattern cannot be used; undefined: it can. */
export function wrongPattern(pattern: string): { readonly why: string; readonly isUnsupported: boolean } | undefined {
  try {
    new LinearPattern(pattern);
    return undefined;
  } catch (error) {
    if (error instanceof UnsupportedPattern) return { why: error.message, isUnsupported: true };
    return { why: "is no regular expression", isUnsupported: false };
  }
}
