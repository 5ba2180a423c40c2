import { sha256 } from "../../../core/values/canonical.js";

/** The longest key that common providers accept. */
const charsMax = 255;

/** The key as a header can carry it: as it is, or its hash if it is long or has other characters than printable ASCII. */
export function headerKey(key: string): string {
  return key.length <= charsMax && /^[!-~](?:[ -~]*[!-~])?$/.test(key) ? key : `sha256-${sha256(key)}`;
}
