import type { Command } from "commander";
import { type Finding, type LoadedFlows, loadFlows, toSarif } from "../../exports/graph.js";
import { exitFound } from "../exit-codes.js";
import { flowFiles } from "../flow-files.js";
import { counted, print, printJson, progress } from "../output.js";
import { countOf, findingLines } from "../show-findings.js";

interface Options {
  readonly json?: boolean;
  readonly sarif?: boolean;
  readonly allowRemote?: boolean;
}

export function addValidate(program: Command): void {
  program
    .command("validate")
    .description("Check flow documents and report all errors and warnings; exit code 1 if there are errors")
    .argument("<paths...>", "files, or folders with .flowdsl.yaml, .yml and .json files")
    .option("--json", "print JSON")
    .option("--sarif", "print SARIF 2.1.0, the format that code hosts read")
    .option("--allow-remote", "fetch AsyncAPI and OpenAPI documents from the network")
    .action(validate);
}

interface Checked extends LoadedFlows {
  readonly file: string;
}

async function validate(paths: readonly string[], { json, sarif, allowRemote = false }: Options): Promise<void> {
  const files = flowFiles(paths);
  const bar = progress(files.length);
  const checked: Checked[] = [];
  for (const file of files) {
    checked.push({ file, ...(await loadFlows(file, { allowRemote })) });
    bar.step();
  }
  bar.end();
  const findings = checked.flatMap((one) => one.findings);
  if (sarif) printJson(toSarif(findings));
  else if (json) printJson(summaryOf(checked, findings));
  else printForPeople(checked, findings);
  if (checked.some(({ ok }) => !ok)) process.exitCode = exitFound;
}

function summaryOf(checked: readonly Checked[], findings: readonly Finding[]): unknown {
  return {
    ok: checked.every(({ ok }) => ok),
    errors: countOf(findings, "error"),
    warnings: countOf(findings, "warning"),
    files: checked.map(({ file, ok, flows, findings: own }) => ({
      file,
      ok,
      flows: flows.map(({ id, nodes, edges }) => ({ id, nodes: nodes.size, edges: edges.length })),
      findings: own,
    })),
  };
}

function printForPeople(checked: readonly Checked[], findings: readonly Finding[]): void {
  if (findings.length > 0) print(`${findingLines(findings)}\n\n`);
  print(
    `${counted(checked.length, "file")}, ${counted(countOf(findings, "error"), "error")}, ${counted(countOf(findings, "warning"), "warning")}`,
  );
}
