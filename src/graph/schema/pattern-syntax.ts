import { allBut, type CharacterSet, classText, digits, lineEnds, propertySet, spaces, wordCharacters } from "./character-set.js";

/** The pattern uses a feature that an engine without backtracking cannot support. */
export class UnsupportedPattern extends Error {}

/** The meaning of an escape: a set of characters, or an assertion about a position. */
type Escape = { readonly set: CharacterSet } | { readonly assertion: string };

const controls: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, "0": 0 };
const sets: Readonly<Record<string, CharacterSet>> = {
  d: digits,
  D: allBut(digits),
  w: wordCharacters,
  W: allBut(wordCharacters),
  s: spaces,
  S: allBut(spaces),
};

/**
 * Translates a JavaScript pattern (with the flag `u`) to RE2. The two differ in the meaning of `.`, `\s`, `\p{…}` and escapes, so
 * every character and class is written as code points. The pattern must be valid for `new RegExp(pattern, "u")`.
 */
export class PatternSyntax {
  readonly #points: readonly string[];
  #at = 0;

  private constructor(pattern: string) {
    this.#points = [...pattern];
  }

  static toRe2(pattern: string): string {
    return new PatternSyntax(pattern).#all();
  }

  #all(): string {
    let text = "";
    while (this.#at < this.#points.length) text += this.#next();
    return text;
  }

  #next(): string {
    const point = this.#take();
    switch (point) {
      case "^":
        return "\\A";
      case "$":
        return "\\z";
      case ".":
        return classText(allBut(lineEnds));
      case "(":
        return this.#group();
      case "[":
        return this.#class();
      case "\\": {
        const escaped = this.#escape();
        return "set" in escaped ? classText(escaped.set) : escaped.assertion;
      }
      case "{":
        return `{${this.#until("}")}}`;
      case ")":
      case "|":
      case "*":
      case "+":
      case "?":
        return point;
      default:
        return classText(single(point.codePointAt(0) as number));
    }
  }

  /** Captures are not needed: every group becomes non-capturing. */
  #group(): string {
    if (this.#points[this.#at] !== "?") return "(?:";
    const rest = this.#points.slice(this.#at, this.#at + 3).join("");
    if (rest.startsWith("?:")) this.#at += 2;
    else if (/^\?<[^=!]/u.test(rest)) this.#until(">");
    else if (/^\?<?[=!]/u.test(rest)) throw new UnsupportedPattern("uses lookahead or lookbehind: (?=…), (?!…), (?<=…) or (?<!…)");
    else throw new UnsupportedPattern("changes flags inside the pattern, like (?i:…)");
    return "(?:";
  }

  #class(): string {
    const isNegated = this.#points[this.#at] === "^";
    if (isNegated) this.#at += 1;
    const set: (readonly [number, number])[] = [];
    while (this.#points[this.#at] !== "]") {
      const first = this.#member();
      const isRange = this.#points[this.#at] === "-" && this.#points[this.#at + 1] !== "]";
      if (!isRange) set.push(...first);
      else {
        this.#at += 1;
        const last = this.#member();
        set.push([first[0]?.[0] as number, last[0]?.[1] as number]);
      }
    }
    this.#at += 1;
    return classText(isNegated ? allBut(set) : set);
  }

  #member(): CharacterSet {
    const point = this.#take();
    if (point !== "\\") return single(point.codePointAt(0) as number);
    // In a class \b is a backspace.
    if (this.#points[this.#at] === "b") {
      this.#at += 1;
      return single(8);
    }
    return (this.#escape() as { readonly set: CharacterSet }).set;
  }

  #escape(): Escape {
    const letter = this.#take();
    if (letter === "b" || letter === "B") return { assertion: `\\${letter}` };
    if (letter === "k" || /^[1-9]$/u.test(letter)) throw new UnsupportedPattern("uses a backreference, like \\1");
    if (letter === "p" || letter === "P") {
      this.#take();
      const property = propertySet(this.#until("}"));
      return { set: letter === "p" ? property : allBut(property) };
    }
    const set = sets[letter];
    if (set !== undefined) return { set };
    const control = controls[letter];
    if (control !== undefined) return { set: single(control) };
    if (letter === "c") return { set: single((this.#take().codePointAt(0) as number) % 32) };
    if (letter === "x") return { set: single(this.#hex(2)) };
    if (letter === "u") return { set: single(this.#unicode()) };
    return { set: single(letter.codePointAt(0) as number) };
  }

  #unicode(): number {
    if (this.#points[this.#at] === "{") {
      this.#at += 1;
      return Number.parseInt(this.#until("}"), 16);
    }
    const high = this.#hex(4);
    const isPair = high >= 0xd800 && high <= 0xdbff && /^\\u[dD][c-fC-F]/u.test(this.#points.slice(this.#at, this.#at + 4).join(""));
    if (!isPair) return high;
    this.#at += 2;
    return 0x10000 + (high - 0xd800) * 0x400 + (this.#hex(4) - 0xdc00);
  }

  #hex(length: number): number {
    const text = this.#points.slice(this.#at, this.#at + length).join("");
    this.#at += length;
    return Number.parseInt(text, 16);
  }

  #take(): string {
    const point = this.#points[this.#at] ?? "";
    this.#at += 1;
    return point;
  }

  /** Reads up to and including this character; returns the text before it. */
  #until(end: string): string {
    let text = "";
    for (let point = this.#take(); point !== end && point !== ""; point = this.#take()) text += point;
    return text;
  }
}

function single(point: number): CharacterSet {
  return [[point, point]];
}
