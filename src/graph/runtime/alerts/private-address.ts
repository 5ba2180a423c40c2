import { lookup } from "node:dns/promises";
import { BlockList, isIP } from "node:net";
import { InvalidInputError } from "../../../core/errors/errors.js";

/** Whether alerts may be sent to private addresses: to none ("refuse"), to all ("allow"), or to the hosts of this list. */
export type PrivateWebhooks = "refuse" | "allow" | readonly string[];

/** Networks that a document must not make this process connect to: this machine, its local network, the metadata service of its cloud. */
const ipv4: readonly (readonly [string, number])[] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
];
const ipv6: readonly (readonly [string, number])[] = [
  ["::", 128],
  ["::1", 128],
  ["fc00::", 7],
  ["fe80::", 10],
  ["fec0::", 10],
  ["ff00::", 8],
  // Translated to IPv4 addresses by a local translator or by Teredo.
  ["64:ff9b:1::", 48],
  ["::ffff:0:0:0", 96],
  ["2001::", 32],
];

const refused = new BlockList();
for (const [network, bits] of ipv6) refused.addSubnet(network, bits, "ipv6");
for (const [network, bits] of ipv4) {
  refused.addSubnet(network, bits, "ipv4");
  // The same IPv4 addresses embedded in IPv6: mapped, compatible, NAT64 and 6to4.
  for (const prefix of ["::ffff:", "::", "64:ff9b::"]) refused.addSubnet(`${prefix}${network}`, 96 + bits, "ipv6");
  const [a = 0, b = 0, c = 0, d = 0] = network.split(".").map(Number);
  refused.addSubnet(`2002:${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}::`, 16 + bits, "ipv6");
}

export function isPrivateAddress(address: string): boolean {
  return refused.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}

export interface Address {
  readonly address: string;
  readonly family: number;
}

/** The host of a URL, as resolvers take it. */
export function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, "");
}

function allowsPrivate(host: string, allowed: PrivateWebhooks): boolean {
  return allowed === "allow" || (allowed !== "refuse" && allowed.includes(host));
}

/** Whether the URL has a refused private address, as far as that is known without resolving its host name. */
export function isRefused(url: URL, allowed: PrivateWebhooks): boolean {
  const host = hostOf(url);
  return !allowsPrivate(host, allowed) && (host === "localhost" || (isIP(host) !== 0 && isPrivateAddress(host)));
}

/**
 * Resolves a host; undefined if one of its addresses is private and that is not allowed. The caller connects to these
 * addresses and does not resolve the name again: a second answer may be a private address that was never checked.
 */
export async function checkedAddresses(host: string, allowed: PrivateWebhooks): Promise<readonly Address[] | undefined> {
  const family = isIP(host);
  const addresses = family === 0 ? await lookup(host, { all: true }) : [{ address: host, family }];
  return allowsPrivate(host, allowed) || !addresses.some(({ address }) => isPrivateAddress(address)) ? addresses : undefined;
}

export function checkPrivateWebhooks(given: unknown, option = "privateWebhooks"): PrivateWebhooks {
  if (given === "refuse" || given === "allow") return given;
  const hosts = Array.isArray(given) ? given.map(hostNamed) : [undefined];
  if (hosts.every((host) => host !== undefined)) return hosts;
  const rule = 'must be "refuse", "allow", or a list of host names as spelled in the URLs, without scheme, port and path';
  throw new InvalidInputError(option, rule);
}

/** Normalised as by `hostOf`; undefined: not a host name or address. */
function hostNamed(given: unknown): string | undefined {
  const name = typeof given === "string" ? given.trim().replace(/^\[|\]$/g, "") : "";
  const url = `http://${isIP(name) === 6 ? `[${name}]` : name}/`;
  if (name === "" || (isIP(name) !== 6 && /[\s:/@?#\\]/.test(name)) || !URL.canParse(url)) return undefined;
  return hostOf(new URL(url));
}
