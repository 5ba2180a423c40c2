import { expect, test } from "vitest";
import { checkedAddresses, checkPrivateWebhooks, hostOf, isPrivateAddress } from "./private-address.js";

const privateOnes = [
  ...[
    "127.0.0.1",
    "127.255.255.255",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.127.0.1",
  ],
  ...[
    "224.0.0.1",
    "255.255.255.255",
    "198.18.0.1",
    "::",
    "::1",
    "fc00::1",
    "fdff::1",
    "fe80::1",
    "febf::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
  ],
  ...[
    "::ffff:169.254.169.254",
    "::ffff:10.0.0.1",
    "::7f00:1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::1",
    "2002:c0a8:101::",
    "64:ff9b:1::7f00:1",
    "::ffff:0:127.0.0.1",
    "2001:0:7f00:1::",
  ],
];
const publicOnes = [
  ...[
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.0.1",
    "169.255.0.1",
  ],
  ...[
    "172.15.0.1",
    "172.32.0.1",
    "192.167.0.1",
    "192.169.0.1",
    "223.255.255.255",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:808:808::1",
  ],
];

test.each(privateOnes)("%s is private", (address) => {
  expect(isPrivateAddress(address)).toBe(true);
});

test.each(publicOnes)("%s is not", (address) => {
  expect(isPrivateAddress(address)).toBe(false);
});

test.each(["http://127.1/", "http://2130706433/", "http://0x7f.0.0.1/", "http://[::ffff:127.0.0.1]/", "http://localhost/", "http://0/"])(
  "%s, however it is written, is refused, and allowed by name",
  async (url) => {
    const host = hostOf(new URL(url));
    expect(await checkedAddresses(host, "refuse")).toBeUndefined();
    expect(await checkedAddresses(host, ["elsewhere.example"])).toBeUndefined();
    expect(await checkedAddresses(host, [host])).not.toEqual([]);
    expect(await checkedAddresses(host, "allow")).toEqual(await checkedAddresses(host, [host]));
  },
);

test("rejects invalid options", () => {
  const noHosts = ["http://alerts.internal/", "alerts.internal:9000", "user@alerts.internal", "a b"].map((host) => [host]);
  for (const given of [true, "yes", [1], [""], null, {}, ...noHosts]) expect(() => checkPrivateWebhooks(given)).toThrow(/privateWebhooks/);
});

test("compares hosts as URLs spell them", () => {
  const allowed = checkPrivateWebhooks(["Alerts.Internal", "[::1]", "0:0:0:0:0:0:0:2", " 127.1"]);
  expect(allowed).toEqual(["alerts.internal", "::1", "::2", "127.0.0.1"]);
});
