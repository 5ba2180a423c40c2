import { OnceflowError } from "../core/errors/errors.js";

/** Something in a file that cannot be what it says. */
export interface Finding {
  /** From 1. */
  readonly line: number;
  /** From 1. */
  readonly column: number;
  /** What is wrong, and what to do. */
  readonly message: string;
}

/** A directive is where it cannot work. The first finding has its place in the fields; the message says all of them. */
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

/** Lines and columns of places in a text, both from 1. */
export function placeIn(code: string, at: number): { readonly line: number; readonly column: number } {
  const before = code.slice(0, at);
  const lineStart = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: at - lineStart + 1 };
}
