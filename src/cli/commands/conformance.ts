import { type Command, InvalidArgumentError } from "commander";
import { isPlainObject } from "../../core/values/plain-object.js";
import { type ConformanceOptions, conformance } from "../../exports/http.js";
import { InvalidInputError } from "../../exports/index.js";
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
  readonly effectsUrl?: string;
  readonly body?: unknown;
  readonly otherBody?: unknown;
  readonly keepsFailures?: boolean;
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
    .option("--body <json>", 'what is sent (default: {"conformance":1})', jsonText)
    .option(
      "--other-body <json>",
      "another body, for the cases in which a key is used again (default: the body and one member more)",
      jsonText,
    )
    .option("--effects-url <url>", "a URL with {key} in it; GET answers with how often the operation with this key took effect")
    .option("--keeps-failures", "the server keeps failures (5xx), too, and replays them")
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

function optionsOf({ header, otherCaller, keyHeader, keyOptional, body, otherBody, json, ...others }: Options): ConformanceOptions {
  if (otherBody !== undefined && body === undefined) throw new InvalidInputError("--other-body", "goes with --body");
  return {
    ...others,
    ...(body === undefined ? {} : { body: (n: number) => (n === 1 ? body : (otherBody ?? anotherThan(body))) }),
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

/** As Commander parses an argument. */
function jsonText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidArgumentError("Write it as JSON.");
  }
}

function anotherThan(body: unknown): unknown {
  return isPlainObject(body) ? { ...body, conformance: "another body" } : [body, "another body"];
}
