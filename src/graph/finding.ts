import { type FindingCode, findingCodes } from "./finding-codes.js";
import type { Spot } from "./tree.js";

export interface Place {
  readonly file: string;
  /** JSON pointer; empty for the whole document. */
  readonly pointer: string;
  /** From 1. */
  readonly line: number;
  readonly column: number;
}

export type Severity = "error" | "warning";

/** Something that is wrong, or odd, in a document. */
export interface Finding extends Place {
  readonly severity: Severity;
  readonly code: FindingCode;
  readonly message: string;
  /** What to do about it. */
  readonly fix: string;
}

export function placeOf({ tree, pointer }: Spot, offset: number = tree.offset): Place {
  const { line, col } = tree.source.lines.linePos(offset);
  return { file: tree.source.file, pointer, line: Math.max(line, 1), column: Math.max(col, 1) };
}

export const wholeFile = (file: string): Place => ({ file, pointer: "", line: 1, column: 1 });

/** Collects what is found, up to a bound: a generated document can be wrong in ten thousand places. */
export class Findings {
  readonly #all: Finding[] = [];
  readonly #seen = new Set<string>();
  readonly #max: number;
  #errors = 0;
  #dropped = 0;

  constructor(max: number) {
    this.#max = max;
  }

  add(code: FindingCode, where: Spot | Place, message: string, fix: string): void {
    const place = "tree" in where ? placeOf(where) : where;
    const severity = findingCodes[code].severity;
    if (severity === "error") this.#errors += 1;
    // A tree that is used in many places through one alias is wrong once.
    const identity = `${code} ${place.file}:${place.line}:${place.column} ${message}`;
    if (this.#seen.has(identity)) return;
    if (this.#all.length >= this.#max) {
      this.#dropped += 1;
      return;
    }
    this.#seen.add(identity);
    this.#all.push({ severity, code, ...place, message, fix });
  }

  get hasErrors(): boolean {
    return this.#errors > 0;
  }

  /** In the order of the files, and of the lines in them. */
  list(file: string): readonly Finding[] {
    const sorted = this.#all.toSorted(
      (a, b) => Number(b.file === file) - Number(a.file === file) || compare(a.file, b.file) || a.line - b.line || a.column - b.column,
    );
    if (this.#dropped === 0) return sorted;
    const code = this.#errors > 0 ? "FLOW_MORE_ERRORS" : "FLOW_MORE_WARNINGS";
    const more: Finding = {
      severity: findingCodes[code].severity,
      code,
      ...wholeFile(file),
      message: `${this.#dropped} more findings are not shown`,
      fix: "mend those that are shown, and look again",
    };
    return [...sorted, more];
  }
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

/** `file:line:column severity CODE /pointer message (fix)` */
export function findingText({ file, line, column, severity, code, pointer, message, fix }: Finding): string {
  return `${file}:${line}:${column} ${severity} ${code} ${pointer === "" ? "/" : pointer} ${message} (${fix})`;
}
