/** Replaces terminal control characters, line breaks and text-direction marks by spaces: for printing text from an untrusted source. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters it replaces
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, " ");
}
