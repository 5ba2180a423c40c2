import type { Finding } from "../exports/graph.js";
import { columns } from "./output.js";

const pointerCharsMax = 100;

/** One line per finding: file and position, severity, code, pointer, message and fix. */
export function findingLines(findings: readonly Finding[]): string {
  return columns(
    findings.map(({ file, line, column, severity, code, pointer, message, fix }) => [
      `${file}:${line}:${column}`,
      severity,
      code,
      pointer === "" ? "/" : pointer.length > pointerCharsMax ? `${pointer.slice(0, pointerCharsMax)}…` : pointer,
      `${message}; ${fix}`,
    ]),
  );
}

export const countOf = (findings: readonly Finding[], severity: Finding["severity"]): number =>
  findings.filter((finding) => finding.severity === severity).length;
