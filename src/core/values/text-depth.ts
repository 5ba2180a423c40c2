/** Maximum nesting of a stored value. Decoding is recursive too: a deeper value might be written and then not be readable. */
export const nestingMax = 1000;

/** The shortest level in devalue's text is `[1],`. */
const levelCharsMin = 4;

/** Types of which only the first member refers to another entry. In all other types every number is a reference. */
const referFirst = /Array$|^DataView$/;

/** Whether a devalue text is nested deeper than `nestingMax`. The text is a list of entries that refer to each other by index. */
export function isTooDeep(text: string): boolean {
  if (text.length < nestingMax * levelCharsMin) return false;
  const entries = JSON.parse(text) as unknown;
  if (!Array.isArray(entries)) return false;
  const seen = new Set<number>();
  // In the order of decoding, so that each entry is visited at the depth at which it will be decoded.
  const left: [entry: number, depth: number][] = [[0, 1]];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const [at, depth] = next;
    if (seen.has(at)) continue;
    seen.add(at);
    if (depth > nestingMax) return true;
    for (const to of referred(entries[at]).reverse()) if (to >= 0) left.push([to, depth + 1]);
  }
  return false;
}

function referred(entry: unknown): number[] {
  if (typeof entry !== "object" || entry === null) return [];
  const members: unknown[] = Object.values(entry);
  const [type] = members;
  if (typeof type === "string" && Array.isArray(entry) && referFirst.test(type)) members.length = 2;
  return members.filter((member) => typeof member === "number");
}
