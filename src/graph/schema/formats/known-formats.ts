import { isEmail, isHostname, isIpv4, isIpv6 } from "./addresses.js";
import { isDate, isDateTime, isDuration, isTime } from "./dates.js";
import { isPointerFragment, isUri, isUriReference, isUriTemplate, isUrl } from "./uris.js";

type FormatCheck = (text: string) => boolean;

const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

/** RFC 6901. */
function isJsonPointer(text: string): boolean {
  return /^(?:\/|$)/.test(text) && !/~(?![01])/.test(text);
}

function isRelativeJsonPointer(text: string): boolean {
  const levels = /^(?:0|[1-9]\d*)/.exec(text)?.[0];
  if (levels === undefined) return false;
  const rest = text.slice(levels.length);
  return rest === "#" || isJsonPointer(rest);
}

function isRegex(text: string): boolean {
  try {
    new RegExp(text, "u");
    return true;
  } catch {
    return false;
  }
}

const formats: ReadonlyMap<string, FormatCheck> = new Map<string, FormatCheck>([
  ["date", isDate],
  ["time", isTime],
  ["date-time", isDateTime],
  ["duration", isDuration],
  ["email", isEmail],
  ["hostname", isHostname],
  ["ipv4", isIpv4],
  ["ipv6", isIpv6],
  ["uri", isUri],
  ["uri-reference", isUriReference],
  ["uri-template", isUriTemplate],
  ["url", isUrl],
  ["uuid", (text) => uuid.test(text)],
  ["regex", isRegex],
  ["json-pointer", isJsonPointer],
  ["json-pointer-uri-fragment", isPointerFragment],
  ["relative-json-pointer", isRelativeJsonPointer],
]);

/** The check of a format; undefined for an unknown format, which is only an annotation. */
export function formatCheck(name: string): FormatCheck | undefined {
  return formats.get(name);
}
