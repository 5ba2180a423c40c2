import { realpathSync, renameSync, statSync, writeFileSync } from "node:fs";
import type { Command } from "commander";
import { type Finding, formatFlow } from "../../graph.js";
import { exitFound } from "../exit-codes.js";
import { flowFiles } from "../flow-files.js";
import { columns, counted, print, printJson, progress } from "../output.js";
import { readTextOf } from "../read-text.js";
import { findingLines } from "../show-findings.js";

interface Options {
  readonly check?: boolean;
  readonly json?: boolean;
}

export function addFormat(program: Command): void {
  program
    .command("format")
    .description("lay out flow documents alike; comments are kept")
    .argument("<paths...>", "files, or folders with .flowdsl.yaml, .yml and .json files")
    .option("--check", "change nothing; exit code 1 if something would be changed")
    .option("--json", "machine-readable")
    .action(format);
}

interface Done {
  readonly file: string;
  readonly changed: boolean;
  readonly findings: readonly Finding[];
}

function format(paths: readonly string[], { check = false, json }: Options): void {
  const files = flowFiles(paths);
  if (files === undefined) return;
  const bar = progress(files.length);
  const done = files.map((file) => {
    const one = formatOne(file, check);
    bar.step();
    return one;
  });
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

function formatOne(file: string, check: boolean): Done {
  const text = readTextOf(file);
  if (typeof text !== "string") return { file, changed: false, findings: [text] };
  const { text: formatted, changed, findings } = formatFlow(text, { file });
  if (changed && !check) replace(file, formatted);
  return { file, changed, findings };
}

/** Beside it first: a process that dies here leaves the old file or the new one, never half of it. Links and modes stay. */
function replace(file: string, text: string): void {
  const target = realpathSync(file);
  const beside = `${target}.${process.pid}.tmp`;
  writeFileSync(beside, text, { mode: statSync(target).mode });
  renameSync(beside, target);
}
