const octet = String.raw`(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`;
const ipv4 = new RegExp(String.raw`^${octet}(?:\.${octet}){3}$`);
const ipv6Group = /^[0-9a-f]{1,4}$/i;
const hostnameLabel = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i;
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
  const halves = text.split("::", 3);
  if (halves.length > 2) return false;
  const groups = halves.flatMap((half) => (half === "" ? [] : half.split(":", 9)));
  const last = groups.at(-1) ?? "";
  const endsWithIpv4 = last.includes(".") && text.endsWith(last);
  const hexGroups = endsWithIpv4 ? groups.slice(0, -1) : groups;
  const count = hexGroups.length + (endsWithIpv4 ? 2 : 0);
  const isComplete = halves.length === 2 ? count < 8 : count === 8;
  return isComplete && hexGroups.every((group) => ipv6Group.test(group)) && (!endsWithIpv4 || isIpv4(last));
}

/** RFC 1123. */
export function isHostname(text: string): boolean {
  return text.length <= hostnameCharsMax && text.split(".").every((label) => hostnameLabel.test(label));
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
