import { mustBeClear } from "./cipher.js";
import { copyOfJson, holdsJson, notJson } from "./is-json.js";
import { readValue } from "./reader.js";
import { ValueWriter } from "./writer.js";

/**
 * Values in the store. What JSON can hold exactly is stored as JSON, readable by a person; what it can't
 * (undefined, Date, Map, Set, bigint, -0, cycles, typed arrays …, and the kinds of kinds.ts) as `devalue:` and devalue's
 * text, which no JSON text can begin with. What neither can hold (functions, class instances) is refused with its path.
 */
const devaluePrefix = "devalue:";
/** Where nobody says how much may be kept. */
const bytesMaxDefault = 4 * 1024 * 1024;

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
