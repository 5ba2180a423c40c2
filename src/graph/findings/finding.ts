import { printable } from "../../core/errors/printable.js";
import type { Spot } from "../load/tree.js";
import { type FindingCode, findingCodes } from "./finding-codes.js";

/** A position in a document. */
export interface Place {
  readonly file: string;
  /** JSON pointer; empty for the whole document. */
  readonly pointer: string;
  /** Line and column count from 1. */
  readonly line: number;
  readonly column: number;
}

/** Errors prevent a flow from running; warnings do not. */
export type Severity = "error" | "warning";

/** An error or a warning about a document. */
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

/** Collects findings up to a limit: a generated document can have thousands. */
export class Findings {
  readonly #kept: Readonly<Record<Severity, Finding[]>> = { error: [], warning: [] };
  readonly #omitted: Record<Severity, number> = { error: 0, warning: 0 };
  readonly #seen = new Set<string>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  /** A `fix` that is expensive to compute is passed as a function, called only if the finding is kept. */
  add(code: FindingCode, where: Spot | Place, message: string, fix: string | (() => string)): void {
    const place = "tree" in where ? placeOf(where) : where;
    const severity = findingCodes[code].severity;
    // A tree that many aliases share is reported once.
    const identity = `${code} ${place.file}:${place.line}:${place.column} ${message}`;
    if (this.#seen.has(identity)) return;
    const kept = this.#kept[severity];
    if (kept.length >= this.#max) {
      this.#omitted[severity] += 1;
      return;
    }
    this.#seen.add(identity);
    kept.push({ severity, code, ...place, message: shortened(message), fix: shortened(typeof fix === "string" ? fix : fix()) });
  }

  get hasErrors(): boolean {
    return this.#kept.error.length > 0;
  }

  /** Sorted by file, with `file` first, then by position. Above the limit, errors are kept before warnings. */
  list(file: string): readonly Finding[] {
    const { error, warning } = this.#kept;
    const warned = warning.slice(0, this.#max - error.length);
    const sorted = [...error, ...warned].sort(
      (a, b) => Number(b.file === file) - Number(a.file === file) || compare(a.file, b.file) || a.line - b.line || a.column - b.column,
    );
    const more = this.#omitted.error + this.#omitted.warning + warning.length - warned.length;
    if (more === 0) return sorted;
    const code = this.#omitted.error > 0 ? "FLOW_MORE_ERRORS" : "FLOW_MORE_WARNINGS";
    const rest: Finding = {
      severity: findingCodes[code].severity,
      code,
      ...wholeFile(file),
      message: `${more} more findings are not shown`,
      fix: "fix the findings shown and run again",
    };
    return [...sorted, rest];
  }
}

const charsMax = 400;

/** Cuts the middle out of a long text: messages start with a quoted name and end with what is wrong with it. */
function shortened(text: string): string {
  if (text.length <= charsMax) return text;
  const [begin, end] = [text.slice(0, charsMax / 2), text.slice(-charsMax / 4)];
  return `${begin.replace(/[\ud800-\udbff]$/, "")} … ${end.replace(/^[\udc00-\udfff]/, "")}`;
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

/** Formats a finding as one line: `file:line:column severity CODE /pointer message (fix)`. */
export function findingText({ file, line, column, severity, code, pointer, message, fix }: Finding): string {
  return printable(`${file}:${line}:${column} ${severity} ${code} ${pointer === "" ? "/" : pointer} ${message} (${fix})`);
}
