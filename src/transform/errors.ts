import { OnceflowError } from "../core/errors/errors.js";

/** A problem in a file, for example a directive in a position where it has no effect. */
export interface Finding {
  /** From 1. */
  readonly line: number;
  /** From 1. */
  readonly column: number;
  /** What is wrong and how to fix it. */
  readonly message: string;
}

/**
 * Thrown by `transform` and the loaders if a directive cannot work where it is. `line` and `column` are those of the first
 * finding; the message lists all findings.
 */
export class TransformError extends OnceflowError {
  static override readonly kind: string = "TransformError";
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly findings: readonly Finding[];
  constructor(file: string, findings: readonly Finding[]) {
    const lines = findings.map(({ line, column, message }) => `${file}:${line}:${column}: ${message}`);
    super(lines.join("\n"), { code: "DIRECTIVE" });
    this.file = file;
    this.findings = findings;
    this.line = findings[0]?.line ?? 1;
    this.column = findings[0]?.column ?? 1;
  }
}

/** Line and column of an offset in a text, both from 1. */
export function positionIn(code: string, at: number): { readonly line: number; readonly column: number } {
  const before = code.slice(0, at);
  const lineStart = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: at - lineStart + 1 };
}
