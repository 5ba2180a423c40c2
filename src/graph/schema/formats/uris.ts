import { RE2JS } from "re2js";
import { isIpv6 } from "./addresses.js";

/**
 * URIs (RFC 3986) and URI templates (RFC 6570). No part can contain the characters that end it, so that the expressions do not
 * backtrack over a part, and time is linear in the length of the text. Escapes are checked separately.
 */

const name = String.raw`a-z0-9\-._~!$&'()*+,;=%`;
const authority = String.raw`(?:[${name}:]*@)?(?:\[([^\]]*)\]|[${name}]*)(?::\d*)?`;
const hierarchy = String.raw`(?:\/\/${authority}(?:\/[${name}:@/]*)?|(?!\/\/)[${name}:@/]*)`;
/** Captures the scheme, and the address in brackets that replaces a host name. */
const reference = new RegExp(String.raw`^([a-z][a-z0-9+.-]*:)?${hierarchy}(?:\?[${name}:@/?]*)?(?:#[${name}:@/?]*)?$`, "i");
const wrongEscape = /%(?![0-9a-f]{2})/i;
const futureAddress = /^v[0-9a-f]+\.[a-z0-9\-._~!$&'()*+,;=:]+$/i;
const notInPointer = /[^a-z0-9\-._~!$&'()*+,;=:@/%]|~(?![01])/i;

export function isUri(text: string): boolean {
  const parts = reference.exec(text);
  return parts?.[1] !== undefined && areParts(text, parts);
}

export function isUriReference(text: string): boolean {
  const parts = reference.exec(text);
  if (parts === null || !areParts(text, parts)) return false;
  // A colon in the first segment of a relative path would be read as the end of a scheme.
  return parts[1] !== undefined || !/^[^/?#]*:/.test(text);
}

function areParts(text: string, [, , address]: RegExpExecArray): boolean {
  return !wrongEscape.test(text) && (address === undefined || isIpv6(address) || futureAddress.test(address));
}

/** A JSON pointer as the fragment of a URI: RFC 6901, section 6. */
export function isPointerFragment(text: string): boolean {
  return /^#(?:\/|$)/.test(text) && !notInPointer.test(text.slice(1)) && !wrongEscape.test(text);
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the grammar names them
const notInTemplate = /[\x00-\x20\x7f"<>\\^`{|}]/;
const variableCharacter = "(?:[a-z0-9_]|%[0-9a-f]{2})";
const variable = new RegExp(String.raw`^${variableCharacter}+(?:\.${variableCharacter}+)*(?::[1-9]\d{0,3}|\*)?$`, "i");

export function isUriTemplate(text: string): boolean {
  // Replaces a valid expression by a valid character, and an invalid one by a brace, which is invalid.
  const literals = text.replace(/\{([^{}]*)\}/g, (_, expression: string) => (isExpression(expression) ? "-" : "{"));
  return !notInTemplate.test(literals) && !wrongEscape.test(literals);
}

function isExpression(text: string): boolean {
  return text
    .replace(/^[+#./;?&=,!@|]/, "")
    .split(",")
    .every((one) => variable.test(one));
}

/**
 * A web address with a host name of two or more labels, or a public IPv4 address. Public addresses are listed explicitly:
 * JavaScript expressions with lookaheads for private addresses took seconds for a text of 30 characters.
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
let url: RE2JS | undefined;

/** Compiled at the first use: compiling it took a tenth of the time in which `onceflow/graph` is loaded. */
function compiledUrl(): RE2JS {
  url ??= RE2JS.compile(
    [
      String.raw`\A(?:https?|ftp)://(?:[^${space}]+(?::[^${space}]*)?@)?`,
      String.raw`(?:(?:${publicPair})\.${octet}\.(?:[1-9]\d?|1\d\d|2[0-4]\d|25[0-4])|${label}(?:\.${label})*\.[${letter}]{2,})`,
      String.raw`(?::\d{2,5})?(?:/[^${space}]*)?\z`,
    ].join(""),
    RE2JS.CASE_INSENSITIVE,
  );
  return url;
}

/** Longer URLs are invalid: browsers reject them too, and each character costs as many steps as the expression has parts. */
const urlCharsMax = 100_000;

export function isUrl(text: string): boolean {
  return text.length <= urlCharsMax && compiledUrl().test(text);
}
