import { InvalidInputError } from "../exports/index.js";
import { inputText, stdinText } from "./read-text.js";

/** Reads a payload: `{"a":1}`, `@file`, or `-` for standard input. The default is an empty object. */
export async function payloadOf(argument = "{}"): Promise<Readonly<Record<string, unknown>>> {
  const value = parsed(await textOf("payload", argument));
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Readonly<Record<string, unknown>>;
  throw new InvalidInputError("payload", 'must be a JSON object: {"orderId":"o-1"}, @file.json, or - for standard input');
}

/** Reads any JSON value, given in the same ways. */
export async function jsonArgument(field: string, argument: string): Promise<unknown> {
  const value = parsed(await textOf(field, argument));
  if (value === undefined)
    throw new InvalidInputError(field, "is not JSON; a text needs quotes: '\"sent\"'. Or use @file.json, or - for standard input");
  return value;
}

async function textOf(field: string, argument: string): Promise<string> {
  const from = argument === "-" ? await stdinText() : argument.startsWith("@") ? await inputText(argument.slice(1)) : { text: argument };
  if ("problem" in from) throw new InvalidInputError(field, from.problem);
  return from.text;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
