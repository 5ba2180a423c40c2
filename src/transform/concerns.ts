import { intendedDirective, isDirective } from "./misspelt.js";

/**
 * Matches code that may use a clock, random numbers, timers, `fetch` or a directive. One expression without the flag `i` is
 * three times as fast as searching for each word, and for most files this test is nearly the whole cost.
 */
const concern =
  /WORKFLOW_SERIALIZE|workflow-serialize|Date|random|set(?:Timeout|Interval|Immediate)|fetch|["'`]\s*[uU][sS][eE][\s_-]*(?:[wW][oO]|[sS][tT][eE])/;

/** A string literal that is short enough to be a directive or a misspelt one. */
const shortText = /["'`](\s*[sS]?[uU][^"'`\\\n]{4,18})(?=["'`])/g;

/** Quick test: false if the transform certainly has nothing to do. */
export function mayNeedTransform(code: string): boolean {
  return concern.test(code) || hasDirective(code);
}

/** Quick test: true if the code has a string that is a directive or a misspelt one, even if it is not in a directive's position. */
export function hasDirective(code: string): boolean {
  for (const [, text = ""] of code.matchAll(shortText)) if (isDirective(text) || intendedDirective(text) !== undefined) return true;
  return false;
}
