import type { Finding } from "./finding.js";
import { type FindingCode, findingCodes } from "./finding-codes.js";

/** Findings as SARIF 2.1.0, which code hosts show beside the lines. */
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
                artifactLocation: { uri: encodeURI(file.replaceAll("\\", "/")) },
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
