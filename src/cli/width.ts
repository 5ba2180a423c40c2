/** East Asian wide and fullwidth characters, and emoji: a terminal shows each in two columns. */
const wide =
  /\p{Emoji_Presentation}|\ufe0f|[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/u;
const characters = new Intl.Segmenter();

/** How many terminal columns a text takes. A combining character takes none. */
export function widthOf(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let width = 0;
  for (const { segment } of characters.segment(text)) width += wide.test(segment) ? 2 : 1;
  return width;
}

export const padded = (text: string, width: number): string => text + " ".repeat(Math.max(0, width - widthOf(text)));
