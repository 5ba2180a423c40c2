import { type Key, key } from "../core/ledger/key.js";
import { Refusal } from "./problem.js";

/** A String of RFC 9651: quoted, with \" and \\ escaped. Parameters may follow and are ignored. */
const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"[ \t]*(?:;[ \t]*[a-z*][a-z0-9_.*-]*(?:=[\x21-\x3a\x3c-\x7e]*)?[ \t]*)*$/;
/** A bare key, which most clients send. No commas: repeated header fields arrive joined by commas. */
const bare = /^[\x21\x23-\x2b\x2d-\x7e][\x21-\x2b\x2d-\x7e]*$/;

/** Reads the key; `"k"` and `k` are the same key. Undefined if the header is missing. Throws a Refusal if it is malformed. */
export function readKey(field: string | null | undefined, keyCharsMax: number): Key | undefined {
  if (field === null || field === undefined) return undefined;
  const text = parse(field.trim());
  if (text === undefined)
    throw new Refusal("key-malformed", 'send one key of printable ASCII: a quoted string ("…"), or bare without spaces and commas');
  if (text === "") throw new Refusal("key-malformed", "the key is empty");
  if (text.length > keyCharsMax) throw new Refusal("key-malformed", `the key has ${text.length} characters; the maximum is ${keyCharsMax}`);
  return key.of(text);
}

function parse(field: string): string | undefined {
  if (field === "" || bare.test(field)) return field;
  return quoted.exec(field)?.[1]?.replace(/\\(.)/g, "$1");
}
