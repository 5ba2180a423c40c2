/** Ranges of code points, both ends included, in any order. */
export type CharacterSet = readonly (readonly [from: number, to: number])[];

const codePointMax = 0x10ffff;

export const digits: CharacterSet = [[0x30, 0x39]];
export const wordCharacters: CharacterSet = [...digits, [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]];
export const lineEnds: CharacterSet = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];
export const spaces: CharacterSet = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];

export function allBut(set: CharacterSet): CharacterSet {
  const rest: [number, number][] = [];
  let next = 0;
  for (const [from, to] of [...set].sort(([a], [b]) => a - b)) {
    if (from > next) rest.push([next, from - 1]);
    next = Math.max(next, to + 1);
  }
  if (next <= codePointMax) rest.push([next, codePointMax]);
  return rest;
}

const properties = new Map<string, CharacterSet>();

/** The code points of `\p{…}` in this JavaScript engine, tested one by one and cached per property. */
export function propertySet(name: string): CharacterSet {
  const known = properties.get(name);
  if (known !== undefined) return known;
  const belongs = new RegExp(`^\\p{${name}}$`, "u");
  const set: [number, number][] = [];
  for (let point = 0; point <= codePointMax; point += 1) {
    if (!belongs.test(String.fromCodePoint(point))) continue;
    const last = set.at(-1);
    if (last?.[1] === point - 1) last[1] = point;
    else set.push([point, point]);
  }
  properties.set(name, set);
  return set;
}

/** The set as a character class of RE2. */
export function classText(set: CharacterSet): string {
  const hex = (point: number) => `\\x{${point.toString(16)}}`;
  // RE2 has no empty class; the complement of all characters is equivalent.
  if (set.length === 0) return "[^\\x{0}-\\x{10ffff}]";
  return `[${set.map(([from, to]) => (from === to ? hex(from) : `${hex(from)}-${hex(to)}`)).join("")}]`;
}
