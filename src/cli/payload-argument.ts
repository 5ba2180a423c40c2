import { InvalidInputError } from "../exports/index.js";
import { inputText, stdinText } from "./read-text.js";

/** Reads a payload: `{"a":1}`, `@file`, or `-` for standard input. The default is an empty object. */
export async function payloadOf(argument = "{}"): Promise<Readonly<Record<string, unknown>>> {
  const from = argument === "-" ? await stdinText() : argument.startsWith("@") ? await inputText(argument.slice(1)) : { text: argument };
  if ("problem" in from) throw new InvalidInputError("payload", from.problem);
  const value = parsed(from.text);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Readonly<Record<string, unknown>>;
  throw new InvalidInputError("payload", 'must be a JSON object: {"orderId":"o-1"}, @file.json, or - for standard input');
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
