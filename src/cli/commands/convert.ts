import { type Command, Option } from "commander";
import { convertFlow } from "../../exports/graph.js";
import { InvalidInputError } from "../../exports/index.js";
import { exitFound } from "../exit-codes.js";
import { note, print, printJson } from "../output.js";
import { documentText } from "../read-text.js";
import { findingLines } from "../show-findings.js";
import { writeWhole } from "../write-whole.js";

interface Options {
  readonly to?: "yaml" | "json";
  readonly format?: "yaml" | "json";
  readonly output?: string;
  readonly json?: boolean;
}

export function addConvert(program: Command): void {
  program
    .command("convert")
    .description("Convert a flow document from YAML to JSON or from JSON to YAML (JSON keeps no comments)")
    .argument("<file>")
    .addOption(
      new Option("--to <format>", "target format (default: by the name of --output, else the other format)").choices(["yaml", "json"]),
    )
    .addOption(new Option("--format <format>", "the same as --to").choices(["yaml", "json"]))
    .option("-o, --output <file>", "write to this file instead of standard output")
    .option("--json", "print the report as JSON; requires --output")
    .action(convert);
}

async function convert(file: string, { to: wanted, format, output, json }: Options): Promise<void> {
  const to = wanted ?? format;
  if (wanted !== undefined && format !== undefined && wanted !== format)
    throw new InvalidInputError("format", `--to ${wanted} and --format ${format} name different formats; use one of them`);
  if (json && output === undefined) throw new InvalidInputError("json", "requires --output: without it the converted document is printed");
  const target = to ?? formatOf(output) ?? (formatOf(file) === "json" ? "yaml" : "json");
  const text = await documentText(file);
  const { text: converted, findings } = typeof text === "string" ? convertFlow(text, { to: target, file }) : { text: "", findings: [text] };
  const failed = findings.some(({ severity }) => severity === "error");
  if (!failed && output !== undefined) writeWhole(output, converted);
  if (json) printJson({ ok: !failed, file, output, to: target, findings });
  else if (findings.length > 0) note(findingLines(findings));
  if (!failed && output === undefined) print(converted);
  if (failed) process.exitCode = exitFound;
}

const formatOf = (file: string | undefined): "yaml" | "json" | undefined =>
  file === undefined ? undefined : /\.json$/i.test(file) ? "json" : /\.ya?ml$/i.test(file) ? "yaml" : undefined;
