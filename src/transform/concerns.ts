/** As a directive, and as what was probably meant to be one. */
const directive = /["'`]\s*use[\s_-]*(?:workflow|step)/i;

/** What may be a clock, chance, a timer or the network; "random" stands for two of them. */
const words = ["Date", "random", "setTimeout", "setInterval", "setImmediate", "fetch"];

/** Nothing in a text without these is of interest: most files cost these searches, and no more. */
export function concerns(code: string): boolean {
  return words.some((word) => code.includes(word)) || hasDirective(code);
}

export function hasDirective(code: string): boolean {
  return directive.test(code);
}
