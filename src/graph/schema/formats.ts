import { format } from "@cfworker/json-schema";
import { RE2JS } from "re2js";

/**
 * The library's expression for `url` goes back and forth: a text of 30 characters keeps it busy for seconds. This is the
 * same one for an engine that does not. Its negative look-aheads leave out private IPv4 addresses; here those that are
 * left are spelt out.
 */
const octet = String.raw`(?:1?\d{1,2}|2[0-4]\d|25[0-5])`;
const publicPair = [
  String.raw`(?:[1-9]|1[1-9]|[2-9]\d|1[01]\d|12[0-689]|1[3-5]\d|16[0-8]|17[013-9]|18\d|19[013-9]|2[01]\d|22[0-3])\.${octet}`,
  String.raw`169\.(?:1?\d{1,2}|2[0-4]\d|25[0-35])`,
  String.raw`192\.(?:\d{1,2}|1[0-57-9]\d|16[0-79]|2[0-4]\d|25[0-5])`,
  String.raw`172\.(?:0?\d|1[0-5]|3[2-9]|[4-9]\d|1\d\d|2[0-4]\d|25[0-5])`,
].join("|");
const space = String.raw`\t-\r\x20\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`;
const letter = String.raw`a-z\x{a1}-\x{ffff}`;
const label = `(?:[${letter}0-9]+-?)*[${letter}0-9]+`;
const url = RE2JS.compile(
  [
    String.raw`\A(?:https?|ftp)://(?:[^${space}]+(?::[^${space}]*)?@)?`,
    String.raw`(?:(?:${publicPair})\.${octet}\.(?:[1-9]\d?|1\d\d|2[0-4]\d|25[0-4])|${label}(?:\.${label})*\.[${letter}]{2,})`,
    String.raw`(?::\d{2,5})?(?:/[^${space}]*)?\z`,
  ].join(""),
  RE2JS.CASE_INSENSITIVE,
);

/** Longer ones are none: a browser takes no more, and each character takes as many steps as the expression has parts. */
const urlCharsMax = 100_000;

/** The library's check of that name; undefined: there is none. The others of its expressions never go back far. */
export function formatCheck(name: string): ((text: string) => boolean) | undefined {
  if (name === "url") return (text) => text.length <= urlCharsMax && url.test(text);
  return Object.hasOwn(format, name) ? format[name] : undefined;
}
