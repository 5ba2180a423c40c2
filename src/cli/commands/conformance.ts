import { type Command, InvalidArgumentError } from "commander";
import { type ConformanceOptions, conformance } from "../../http.js";
import { InvalidInputError } from "../../index.js";
import { exitFound } from "../exit-codes.js";
import { print, printJson } from "../output.js";

interface Options {
  readonly header?: Readonly<Record<string, string>>;
  readonly otherCaller?: Readonly<Record<string, string>>;
  readonly keyHeader?: string;
  readonly keyOptional?: boolean;
  readonly slowUrl?: string;
  readonly failingUrl?: string;
  readonly binaryUrl?: string;
  readonly cookieUrl?: string;
  readonly otherUrl?: string;
  readonly json?: boolean;
}

export function addConformance(program: Command): void {
  program
    .command("conformance")
    .description(
      "ask a server, in whatever language it is written, for all that idempotency keys promise; exit code 1 if it does not conform",
    )
    .argument("<what>", "http")
    .argument("<url>", "a route that takes POST, and answers with something new at every execution")
    .option("--header <line>", 'sent with every request: "authorization: Bearer …"; may be repeated', headerLine)
    .option("--other-caller <line>", "a header of somebody else, whose keys are their own; may be repeated", headerLine)
    .option("--key-header <name>", "where the server looks for the key (default: Idempotency-Key)")
    .option("--key-optional", "a request without a key is executed")
    .option("--slow-url <url>", "as the URL, and takes a second or more")
    .option("--failing-url <url>", "as the URL, and fails with 5xx every time")
    .option("--binary-url <url>", "as the URL, and answers with bytes that are no UTF-8")
    .option("--cookie-url <url>", "as the URL, and sets two cookies")
    .option("--other-url <url>", "another route, whose keys are its own")
    .option("--json", "machine-readable")
    .action(run);
}

async function run(what: string, url: string, options: Options): Promise<void> {
  if (what !== "http") throw new InvalidInputError("what", `there is no suite for "${what}"; there is one for http`);
  if (!URL.canParse(url)) throw new InvalidInputError("url", `"${url}" is not a URL`);
  const report = await conformance(url, optionsOf(options));
  if (options.json) printJson(report);
  if (!report.passed) process.exitCode = exitFound;
}

function optionsOf({ header, otherCaller, keyHeader, keyOptional, json, ...urls }: Options): ConformanceOptions {
  return {
    ...urls,
    ...(header === undefined ? {} : { headers: header }),
    ...(otherCaller === undefined ? {} : { otherCaller }),
    ...(keyHeader === undefined ? {} : { header: keyHeader }),
    keyRequired: keyOptional !== true,
    print: json ? () => {} : print,
  };
}

function headerLine(line: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const [, name = "", value = ""] = /^([^:\s]+):\s*(.*)$/.exec(line) ?? [];
  if (name === "") throw new InvalidArgumentError('Write it as "name: value".');
  return { ...before, [name]: value };
}
