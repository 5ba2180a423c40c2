import { InvalidInputError } from "../errors/errors.js";
import { mustBeClear } from "./cipher.js";
import { copyOfJson, holdsJson, notJson } from "./is-json.js";
import { addKind, type ValueKind } from "./kinds.js";
import { readValue } from "./reader.js";
import { classKind } from "./serializable.js";
import { webKinds } from "./web-kinds.js";
import { ValueWriter } from "./writer.js";
// For the kind that it adds: whoever encodes values can encode errors.
import "./stored-error.js";

/**
 * Values in the store. What JSON can hold exactly is stored as JSON, readable by a person; what it can't
 * (undefined, Date, Map, Set, bigint, -0, cycles, typed arrays …, and the kinds of kinds.ts) as `devalue:` and devalue's
 * text, which no JSON text can begin with. What neither can hold (functions, class instances) is refused with its path.
 */
const devaluePrefix = "devalue:";
/** Where nobody says how much may be kept. */
const bytesMaxDefault = 4 * 1024 * 1024;

for (const kind of [classKind as unknown as ValueKind, ...webKinds]) addKind(kind);

/** The text, and what `decode` would make of it. */
export function encodeCopy(value: unknown): { readonly text: string; readonly copy: unknown } {
  const copy = copyOfJson(value);
  if (copy !== notJson) return { text: JSON.stringify(copy), copy };
  const text = encode(value);
  return { text, copy: decode(text) };
}

export function encode(value: unknown): string {
  return holdsJson(value) ? JSON.stringify(value) : devaluePrefix + new ValueWriter(value, bytesMaxDefault).now();
}

/**
 * As `encode`, and waits for what has to be read first: bodies of requests and responses, files. A promise only then:
 * everything else takes no turn more. Bodies are read up to `bytesMax`.
 */
export function encodeLater(value: unknown, bytesMax = bytesMaxDefault): string | Promise<string> {
  if (holdsJson(value)) return JSON.stringify(value);
  const writer = new ValueWriter(value, bytesMax);
  try {
    return devaluePrefix + writer.now();
  } catch (error) {
    if (!writer.mustWait) throw error;
    return writer.later().then((text) => devaluePrefix + text);
  }
}

const brace = 0x7b;

export function decode(text: string): unknown {
  // Most are objects, and nothing else begins like one.
  if (text.charCodeAt(0) === brace) return JSON.parse(text);
  mustBeClear(text);
  return text.startsWith(devaluePrefix) ? readValue(text.slice(devaluePrefix.length)) : JSON.parse(text);
}

/** Refuses a text that is longer than what is kept. `what` names it in the message. */
export function withinBytes(what: string, text: string, bytesMax: number): string {
  // A character has three bytes at most: most texts need no counting.
  if (text.length * 3 <= bytesMax) return text;
  const bytes = Buffer.byteLength(text);
  if (bytes <= bytesMax) return text;
  throw new InvalidInputError(
    what,
    `is ${bytes} bytes long when encoded, and ${bytesMax} are kept (valueBytesMax); store it elsewhere, and keep a reference to it`,
  );
}

/** Says in which value the trouble is, in the place of "value". */
export function renamed(what: string, error: unknown): unknown {
  if (!(error instanceof InvalidInputError) || !error.field.startsWith("value")) return error;
  return new InvalidInputError(what + error.field.slice("value".length), error.message.slice(error.field.length + 2));
}
