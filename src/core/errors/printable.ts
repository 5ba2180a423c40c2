/**
 * What others wrote may hold what a terminal would obey, line breaks, or signs that turn the direction of what follows.
 * Each of them becomes a space.
 */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters it replaces
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, " ");
}
