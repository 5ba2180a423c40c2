import { isOurs, meantBy } from "./misspelt.js";

/**
 * What may be a clock, chance, a timer or the network, or a directive. One expression, without the flag `i`: that is three
 * times as fast as looking for one word after the other, and most files cost little more than this.
 */
const concern =
  /WORKFLOW_SERIALIZE|workflow-serialize|Date|random|set(?:Timeout|Interval|Immediate)|fetch|["'`]\s*[uU][sS][eE][\s_-]*(?:[wW][oO]|[sS][tT][eE])/;

/** A text that is short enough to be a directive, or to have been meant as one. */
const shortText = /["'`](\s*[sS]?[uU][^"'`\\\n]{4,18})(?=["'`])/g;

export function concerns(code: string): boolean {
  return concern.test(code) || hasDirective(code);
}

/** A directive of ours, or what was probably meant to be one; or the same as a text somewhere else. */
export function hasDirective(code: string): boolean {
  for (const [, text = ""] of code.matchAll(shortText)) if (isOurs(text) || meantBy(text) !== undefined) return true;
  return false;
}
