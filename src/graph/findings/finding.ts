import { printable } from "../../core/errors/printable.js";
import type { Spot } from "../load/tree.js";
import { type FindingCode, findingCodes } from "./finding-codes.js";

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
  readonly #kept: Readonly<Record<Severity, Finding[]>> = { error: [], warning: [] };
  readonly #untold: Record<Severity, number> = { error: 0, warning: 0 };
  readonly #seen = new Set<string>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  /** A fix that takes time to find is given as a function: it is called only for findings that are kept. */
  add(code: FindingCode, where: Spot | Place, message: string, fix: string | (() => string)): void {
    const place = "tree" in where ? placeOf(where) : where;
    const severity = findingCodes[code].severity;
    // A tree that is used in many places through one alias is wrong once.
    const identity = `${code} ${place.file}:${place.line}:${place.column} ${message}`;
    if (this.#seen.has(identity)) return;
    const kept = this.#kept[severity];
    if (kept.length >= this.#max) {
      this.#untold[severity] += 1;
      return;
    }
    this.#seen.add(identity);
    kept.push({ severity, code, ...place, message: shortened(message), fix: shortened(typeof fix === "string" ? fix : fix()) });
  }

  get hasErrors(): boolean {
    return this.#kept.error.length > 0;
  }

  /** In the order of the files, and of the lines in them. Where there are too many, errors come before warnings: they have to be mended. */
  list(file: string): readonly Finding[] {
    const { error, warning } = this.#kept;
    const warned = warning.slice(0, this.#max - error.length);
    const sorted = [...error, ...warned].sort(
      (a, b) => Number(b.file === file) - Number(a.file === file) || compare(a.file, b.file) || a.line - b.line || a.column - b.column,
    );
    const more = this.#untold.error + this.#untold.warning + warning.length - warned.length;
    if (more === 0) return sorted;
    const code = this.#untold.error > 0 ? "FLOW_MORE_ERRORS" : "FLOW_MORE_WARNINGS";
    const rest: Finding = {
      severity: findingCodes[code].severity,
      code,
      ...wholeFile(file),
      message: `${more} more findings are not shown`,
      fix: "mend those that are shown, and look again",
    };
    return [...sorted, rest];
  }
}

const charsMax = 400;

/** Its middle is left out: a message quotes a name first, and says what is wrong with it behind that. */
function shortened(text: string): string {
  if (text.length <= charsMax) return text;
  const [begin, end] = [text.slice(0, charsMax / 2), text.slice(-charsMax / 4)];
  return `${begin.replace(/[\ud800-\udbff]$/, "")} … ${end.replace(/^[\udc00-\udfff]/, "")}`;
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

/** `file:line:column severity CODE /pointer message (fix)` */
export function findingText({ file, line, column, severity, code, pointer, message, fix }: Finding): string {
  return printable(`${file}:${line}:${column} ${severity} ${code} ${pointer === "" ? "/" : pointer} ${message} (${fix})`);
}
