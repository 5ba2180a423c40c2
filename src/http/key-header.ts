import { type Key, key } from "../core/ledger/key.js";
import { Refusal } from "./problem.js";

/** RFC 9651, a String: quoted, with \" and \\ escaped; parameters may follow, and are not looked at. */
const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"[ \t]*(?:;[ \t]*[a-z*][a-z0-9_.*-]*(?:=[\x21-\x3a\x3c-\x7e]*)?[ \t]*)*$/;
/** As nearly everybody sends it. No comma: two fields of this name arrive as one, joined by commas. */
const bare = /^[\x21\x23-\x2b\x2d-\x7e][\x21-\x2b\x2d-\x7e]*$/;

/** `"k"` and `k` are the same key. Undefined when there is no such field. */
export function readKey(field: string | null | undefined, keyCharsMax: number): Key | undefined {
  if (field === null || field === undefined) return undefined;
  const text = parse(field.trim());
  if (text === undefined)
    throw new Refusal("key-malformed", 'send one key: printable ASCII, as a quoted string ("…") or bare, without spaces and commas');
  if (text === "") throw new Refusal("key-malformed", "it is empty");
  if (text.length > keyCharsMax) throw new Refusal("key-malformed", `it has ${text.length} characters, and ${keyCharsMax} are allowed`);
  return key.of(text);
}

function parse(field: string): string | undefined {
  if (field === "" || bare.test(field)) return field;
  return quoted.exec(field)?.[1]?.replace(/\\(.)/g, "$1");
}
