import { mustBeDecrypted } from "./cipher.js";
import { copyOfJson, holdsJson, notJson } from "./is-json.js";
import { readValue } from "./reader.js";
import { ValueWriter } from "./writer.js";

/**
 * How values are encoded in the store. A value that JSON represents exactly is stored as JSON, which people can read. Other values
 * (undefined, Date, Map, Set, bigint, -0, cycles, typed arrays …, and the kinds of kinds.ts) are stored as `devalue:` and devalue's
 * text; no JSON text begins like that. A value that neither can hold (a function, a class instance) is rejected with its path.
 */
const devaluePrefix = "devalue:";
const bytesMaxDefault = 4 * 1024 * 1024;

/** Returns the encoded text and the value that `decode` would return for it. */
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
 * Like `encode`, but also encodes values that have to be read first: bodies of requests and responses, files. Returns a promise
 * only for those, so that other values cost no extra turn of the event loop. Bodies are read up to `bytesMax`.
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
  // Most values are objects, and only their JSON begins with a brace.
  if (text.charCodeAt(0) === brace) return JSON.parse(text);
  mustBeDecrypted(text);
  return text.startsWith(devaluePrefix) ? readValue(text.slice(devaluePrefix.length)) : JSON.parse(text);
}
