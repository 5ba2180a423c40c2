const octet = String.raw`(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`;
const ipv4 = new RegExp(String.raw`^${octet}(?:\.${octet}){3}$`);
const ipv6Group = /^[0-9a-f]{1,4}$/i;
const label = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const hostname = new RegExp(String.raw`^${label}(?:\.${label})*$`, "i");
/** RFC 5321: a dot-string, or a quoted one. */
const atoms = /^[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/i;
const quoted = /^"(?:[ !#-[\]-~]|\\[ -~])*"$/;

const hostnameCharsMax = 253;
const localPartCharsMax = 64;

/** RFC 2673: four decimal numbers without leading zeros, which other programs read as octal. */
export function isIpv4(text: string): boolean {
  return ipv4.test(text);
}

/** RFC 4291: eight groups; `::` stands for one or more of them; the last two may be an IPv4 address. */
export function isIpv6(text: string): boolean {
  // An address has at most nine parts; more need not be checked.
  const parts = text.split(":", 10);
  const last = parts.length - 1;
  // A colon at either end must be half of a `::`, which makes two empty parts: one of them is skipped.
  const [begin, end] = [parts[0] === "" ? 1 : 0, parts[last] === "" ? last - 1 : last];
  if ((begin === 1 && parts[1] !== "") || (end < last && parts[end] !== "")) return false;
  let groups = 0;
  let gaps = 0;
  for (let i = begin; i <= end; i += 1) {
    const part = parts[i] as string;
    if (part === "") gaps += 1;
    else if (ipv6Group.test(part)) groups += 1;
    else if (i === last && isIpv4(part)) groups += 2;
    else return false;
  }
  return gaps === 0 ? groups === 8 : gaps === 1 && groups < 8;
}

/** RFC 1123. */
export function isHostname(text: string): boolean {
  return text.length <= hostnameCharsMax && hostname.test(text);
}

/** RFC 5321: a local part, and a host name or an address in brackets. */
export function isEmail(text: string): boolean {
  const at = text.lastIndexOf("@");
  if (at < 1 || at > localPartCharsMax) return false;
  const [local, host] = [text.slice(0, at), text.slice(at + 1)];
  if (!atoms.test(local) && !quoted.test(local)) return false;
  if (!host.startsWith("[") || !host.endsWith("]")) return isHostname(host);
  const address = host.slice(1, -1);
  return /^ipv6:/i.test(address) ? isIpv6(address.slice(5)) : isIpv4(address);
}
