import type { Command } from "commander";
import { loadRegistry } from "../../exports/graph/remote.js";
import { type Finding, type LoadedFlows, loadFlows, toSarif } from "../../exports/graph.js";
import { registryProblems } from "../../graph/remote/registry/registry-problems.js";
import { addDocumentOptions, type DocumentOptions, loadOptionsFrom, pathsFrom, settingsFor } from "../document-options.js";
import { exitFound } from "../exit-codes.js";
import { flowFiles } from "../flow-files.js";
import { counted, print, printJson, progress } from "../output.js";
import { countOf, findingLines } from "../show-findings.js";

interface Options extends DocumentOptions {
  readonly json?: boolean;
  readonly sarif?: boolean;
  readonly strict?: boolean;
  readonly registry?: string;
}

export function addValidate(program: Command): void {
  const command = program
    .command("validate")
    .description("Check flow documents and report all errors and warnings; exit code 1 if there are errors")
    .argument("[paths...]", "files, or folders with .flowdsl.yaml, .yml and .json files (default: `paths` of .flowdslrc)")
    .option("--json", "print JSON")
    .option("--sarif", "print SARIF 2.1.0, the format that code hosts read")
    .option("--strict", "exit code 1 also if there are only warnings")
    .option("--registry <file>", "registry of node servers: check it, and that it has the nodes that documents ask for in other processes");
  addDocumentOptions(command).action(validate);
}

interface Checked extends LoadedFlows {
  readonly file: string;
}

async function validate(paths: readonly string[], options: Options): Promise<void> {
  const settings = await settingsFor(options);
  const { json, sarif, registry = settings.registry, strict = settings.strict ?? false } = options;
  const files = flowFiles(pathsFrom(paths, settings));
  const load = loadOptionsFrom(options, settings);
  const bar = progress(files.length);
  const checked: Checked[] = [];
  for (const file of files) {
    checked.push({ file, ...(await loadFlows(file, load)) });
    bar.step();
  }
  bar.end();
  if (registry !== undefined)
    checked.push({
      file: registry,
      ...(await checkRegistry(
        registry,
        checked.flatMap(({ flows }) => flows),
      )),
    });
  const findings = checked.flatMap((one) => one.findings);
  if (sarif) printJson(toSarif(findings));
  else if (json) printJson(summaryOf(checked, findings));
  else printForPeople(checked, findings);
  if (checked.some(({ ok }) => !ok) || (strict && findings.length > 0)) process.exitCode = exitFound;
}

async function checkRegistry(file: string, flows: LoadedFlows["flows"]): Promise<LoadedFlows> {
  const { registry, findings } = await loadRegistry(file);
  const all = [...findings, ...registryProblems(registry, flows)];
  return { ok: !all.some(({ severity }) => severity === "error"), flows: [], findings: all };
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
