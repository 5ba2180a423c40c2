import { readFileSync } from "node:fs";
import { InvalidInputError } from "../index.js";
import { readTextOf } from "./read-text.js";

const stdin = 0;

/** `{"a":1}`, `@file`, or `-` for standard input. Nothing: an object without members. */
export function payloadOf(argument = "{}"): Readonly<Record<string, unknown>> {
  const text = argument === "-" ? readFileSync(stdin, "utf8") : argument.startsWith("@") ? fileText(argument.slice(1)) : argument;
  const value = parsed(text);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Readonly<Record<string, unknown>>;
  throw new InvalidInputError("payload", 'must be a JSON object: {"orderId":"o-1"}, @file.json, or - for standard input');
}

function fileText(file: string): string {
  const text = readTextOf(file);
  if (typeof text === "string") return text;
  throw new InvalidInputError("payload", `${file} ${text.message}`);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
