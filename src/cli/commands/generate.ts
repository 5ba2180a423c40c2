import { existsSync } from "node:fs";
import { join } from "node:path";
import { Argument, type Command } from "commander";
import { type GeneratedFile, generateDocs, generateGo, generatePython, generateTypeScript, loadFlows } from "../../exports/graph.js";
import { addDocumentOptions, type DocumentOptions, loadOptionsFrom, settingsFor } from "../document-options.js";
import { exitFound } from "../exit-codes.js";
import { columns, note, print, printJson } from "../output.js";
import { findingLines } from "../show-findings.js";
import { writeWhole } from "../write-whole.js";

interface Options extends DocumentOptions {
  readonly output?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

/** What the command generates. The argument's choices and its help follow. */
const generators = {
  typescript: generateTypeScript,
  go: generateGo,
  python: generatePython,
  docs: generateDocs,
};
const kinds = Object.keys(generators);

export function addGenerate(program: Command): void {
  const command = program
    .command("generate")
    .description("Generate typed node stubs, or a documentation page with a diagram, from a flow document")
    .addArgument(new Argument("<what>", `${kinds.slice(0, -1).join(", ")} or ${kinds.at(-1)}`).choices(kinds))
    .argument("<file>")
    .option("-o, --output <folder>", "write to this folder instead of standard output")
    .option("--force", "overwrite existing stubs")
    .option("--json", "print JSON");
  addDocumentOptions(command).action(generate);
}

async function generate(what: keyof typeof generators, file: string, { output, force = false, json, ...options }: Options): Promise<void> {
  const { ok, flows, findings } = await loadFlows(file, loadOptionsFrom(options, await settingsFor(options)));
  const made = flows.flatMap((flow) => generators[what](flow));
  const written = output === undefined ? [] : made.map((one) => write(one, output, force));
  if (json) printJson({ ok, findings, files: output === undefined ? made : written });
  else {
    if (findings.length > 0) note(findingLines(findings));
    if (output === undefined)
      for (const { name, text } of made) print(made.length > 1 ? `${name.endsWith(".py") ? "#" : "//"} ${name}\n${text}` : text);
    else
      print(
        columns(
          written.map(({ file: path, written: is }) => [
            path,
            is ? "written" : "kept: the file exists and may contain your code (--force overwrites it)",
          ]),
        ),
      );
  }
  if (!ok) process.exitCode = exitFound;
}

function write({ name, text, yours }: GeneratedFile, folder: string, force: boolean): { readonly file: string; readonly written: boolean } {
  const file = join(folder, name);
  if (yours && !force && existsSync(file)) return { file, written: false };
  writeWhole(file, text, { makeFolder: true });
  return { file, written: true };
}
