/** Levels of a value that are kept. Reading goes down as far as writing did: what is deeper might not come back. */
export const nestingMax = 1000;

/** The shortest level in devalue's text is `[1],`. */
const levelCharsMin = 4;

/** Types whose first member alone refers to another entry; of all others that refer, every number does. */
const referFirst = /Array$|^DataView$/;

/** Whether a text of devalue's is nested deeper than that: a list of entries that refer to each other by their place. */
export function isTooDeep(text: string): boolean {
  if (text.length < nestingMax * levelCharsMin) return false;
  const entries = JSON.parse(text) as unknown;
  if (!Array.isArray(entries)) return false;
  const seen = new Set<number>();
  // In the order in which it is read, so that an entry is met as deep as it will be then.
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
