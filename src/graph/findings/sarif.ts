import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";
import type { Finding } from "./finding.js";
import { type FindingCode, findingCodes } from "./finding-codes.js";

/** Keeps a relative path relative: code hosts resolve it from the root of the repository. */
function uriOf(file: string): string {
  if (/^https?:\/\//i.test(file)) return file;
  if (isAbsolute(file)) return pathToFileURL(file).href;
  return Buffer.from(file).toString().split(/[\\/]/).map(encodeURIComponent).join("/");
}

/** Converts findings to SARIF 2.1.0, which code hosts show beside the lines of a file. */
export function toSarif(findings: readonly Finding[]): Readonly<Record<string, unknown>> {
  const rules = Object.entries(findingCodes).map(([id, { severity, title }]) => ({
    id,
    shortDescription: { text: title },
    defaultConfiguration: { level: severity },
  }));
  const codes = Object.keys(findingCodes) as FindingCode[];
  return {
    $schema: "https://json.schemastore.org/sarif-2.1.0.json",
    version: "2.1.0",
    runs: [
      {
        tool: { driver: { name: "onceflow", rules } },
        columnKind: "utf16CodeUnits",
        results: findings.map(({ code, severity, file, line, column, pointer, message, fix }) => ({
          ruleId: code,
          ruleIndex: codes.indexOf(code),
          level: severity,
          message: { text: `${message} (${fix})` },
          locations: [
            {
              physicalLocation: {
                artifactLocation: { uri: uriOf(file) },
                region: { startLine: line, startColumn: column },
              },
              logicalLocations: [{ fullyQualifiedName: pointer === "" ? "/" : pointer }],
            },
          ],
        })),
      },
    ],
  };
}
