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
    .description("Test how a server, written in any language, handles idempotency keys; exit code 1 if it does not conform")
    .argument("<suite>", "http")
    .argument("<url>", "a POST route whose response is different each time it executes")
    .option("--header <line>", 'header to send with every request ("authorization: Bearer …"); may be repeated', headerLine)
    .option("--other-caller <line>", "header that identifies a second caller, with separate keys; may be repeated", headerLine)
    .option("--key-header <name>", "header that carries the key (default: Idempotency-Key)")
    .option("--key-optional", "the server executes requests without a key")
    .option("--body <json>", 'request body (default: {"conformance":1})', jsonText)
    .option(
      "--other-body <json>",
      "different body, sent to reuse a key with another request (default: the body with one more member)",
      jsonText,
    )
    .option("--effects-url <url>", "URL containing {key}; GET returns how many times the operation with that key took effect")
    .option("--keeps-failures", "the server stores and replays failures (5xx), too")
    .option("--slow-url <url>", "a route that takes a second or more")
    .option("--failing-url <url>", "a route that always fails with 5xx")
    .option("--binary-url <url>", "a route that responds with bytes that are not UTF-8")
    .option("--cookie-url <url>", "a route that sets two cookies")
    .option("--other-url <url>", "a second route, with separate keys")
    .option("--json", "print JSON")
    .action(run);
}

async function run(suite: string, url: string, options: Options): Promise<void> {
  if (suite !== "http") throw new InvalidInputError("suite", `unknown suite "${suite}"; available: http`);
  if (!URL.canParse(url)) throw new InvalidInputError("url", `"${url}" is not a URL`);
  const report = await conformance(url, optionsOf(options));
  if (options.json) printJson(report);
  if (!report.passed) process.exitCode = exitFound;
}

function optionsOf({ header, otherCaller, keyHeader, keyOptional, body, otherBody, json, ...others }: Options): ConformanceOptions {
  if (otherBody !== undefined && body === undefined) throw new InvalidInputError("--other-body", "requires --body");
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
  if (name === "") throw new InvalidArgumentError('Expected "name: value".');
  return { ...before, [name]: value };
}

function jsonText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidArgumentError("Expected JSON.");
  }
}

function anotherThan(body: unknown): unknown {
  return isPlainObject(body) ? { ...body, conformance: "another body" } : [body, "another body"];
}
