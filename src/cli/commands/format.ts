import type { Command } from "commander";
import { type Finding, formatFlow } from "../../exports/graph.js";
import { addSettingsOptions, type DocumentOptions, pathsFrom, settingsFor } from "../document-options.js";
import { exitFound } from "../exit-codes.js";
import { flowFiles } from "../flow-files.js";
import { columns, counted, print, printJson, progress } from "../output.js";
import { documentText } from "../read-text.js";
import { findingLines } from "../show-findings.js";
import { writeWhole } from "../write-whole.js";

interface Options extends Pick<DocumentOptions, "config" | "verbose"> {
  readonly check?: boolean;
  readonly json?: boolean;
}

export function addFormat(program: Command): void {
  const command = program
    .command("format")
    .description("Format flow documents; comments are kept")
    .argument("[paths...]", "files, or folders with .flowdsl.yaml, .yml and .json files (default: `paths` of .flowdslrc)")
    .option("--check", "change nothing; exit code 1 if a file is not formatted")
    .option("--json", "print JSON");
  addSettingsOptions(command).action(format);
}

interface Done {
  readonly file: string;
  readonly changed: boolean;
  readonly findings: readonly Finding[];
}

async function format(paths: readonly string[], { check = false, json, ...options }: Options): Promise<void> {
  const files = flowFiles(pathsFrom(paths, await settingsFor(options)));
  const bar = progress(files.length);
  const done: Done[] = [];
  for (const file of files) {
    done.push(await formatOne(file, check));
    bar.step();
  }
  bar.end();
  const changed = done.filter((one) => one.changed);
  const findings = done.flatMap((one) => one.findings);
  const failed = findings.some(({ severity }) => severity === "error");
  const verb = check ? "would be changed" : "changed";
  if (json) printJson({ ok: !failed && !(check && changed.length > 0), check, files: done });
  else {
    if (findings.length > 0) print(`${findingLines(findings)}\n\n`);
    print(columns(changed.map(({ file }) => [file, verb])));
    print(`${counted(done.length, "file")}, ${changed.length} ${verb}`);
  }
  if (failed || (check && changed.length > 0)) process.exitCode = exitFound;
}

async function formatOne(file: string, check: boolean): Promise<Done> {
  const text = await documentText(file);
  if (typeof text !== "string") return { file, changed: false, findings: [text] };
  const { text: formatted, changed, findings } = formatFlow(text, { file });
  if (changed && !check) writeWhole(file, formatted);
  return { file, changed, findings };
}
