import { describe, expect, test } from "vitest";
import { cpuMs } from "../../../../test/kit/cpu-time.js";
import { formatCheck } from "./known-formats.js";

/** Cases that the official suite does not have. */
const cases: Readonly<Record<string, readonly [valid: readonly string[], wrong: readonly string[]]>> = {
  date: [
    ["0000-02-29", "2000-02-29", "2024-02-29", "0099-12-31"],
    ["1900-02-29", "2023-02-29", "2024-00-01", "2024-13-01", "2024-04-31", "2024-01-00", "2024-1-1"],
  ],
  time: [
    ["12:00:00Z", "12:00:00z", "23:59:60Z", "01:29:60+01:30", "12:00:00.5-23:59"],
    ["12:00:00", "12:00:60Z", "24:00:00Z", "12:60:00Z", "12:00:00+24:00", "12:00:00+01:60", "12:00:00.Z"],
  ],
  "date-time": [
    ["2024-02-29T12:00:00Z", "2024-02-29t12:00:00z", "2024-02-29 12:00:00Z"],
    ["2024-02-29", "2024-02-29\n12:00:00Z", "2024-02-29T12:00:00", "2024-02-30T12:00:00Z"],
  ],
  duration: [
    ["P1Y", "P1Y2M3DT4H5M6S", "PT36H", "P3W", "P1M", "PT1M"],
    ["P", "PT", "P1", "P1YT", "P1Y2D", "PT1H2S", "P1W2D", "-P1D", "1Y", "p1y"],
  ],
  email: [
    ["a@b", "a.b+c@d.example", '"a b"@c.example', '"a@b"@c.example', "a@[127.0.0.1]", "a@[IPv6:::1]", `${"a".repeat(64)}@b.example`],
    ["", "@b", "a@", ".a@b", "a.@b", "a..b@c", "a@b@c", "a b@c", "a@[1.2.3]", "a@[IPv6:1]", "a@b..c", `${"a".repeat(65)}@b.example`],
  ],
  hostname: [
    ["a", "a-b.c1", `${"a".repeat(63)}.b`],
    ["", ".", "a.", "-a", "a-", "a_b", "a..b", `${"a".repeat(64)}.b`, `${"a.".repeat(127)}a`],
  ],
  ipv4: [
    ["0.0.0.0", "255.255.255.255", "1.20.130.249"],
    ["1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "1.2.3.4.", "1.2.3.4\n"],
  ],
  ipv6: [
    ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "1:2:3:4:5:6:1.2.3.4", "::ffff:1.2.3.4", "fe80::AbCd"],
    ["", ":", ":::", "1", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8::", "1::2::3", "12345::", "1.2.3.4::", "::1.2.3.4:5", "::1%eth0", "g::"],
  ],
  uri: [
    [
      "http://a",
      "http://u:p@a.example:80/b;c/%20?d=e/?#f/?",
      "http://[::1]:80/",
      "http://[v1.a:b]/",
      "urn:a:b",
      "mailto:a@b",
      "a:",
      "file:///b",
    ],
    [
      "",
      "a",
      "//a",
      "/a",
      "1a:b",
      ":a",
      "http://a b",
      "http://a:b",
      "http://[::1",
      "http://[1]/",
      "http://a/%2",
      'http://a/"',
      "http://a#b#c",
    ],
  ],
  "uri-reference": [
    ["", "a", "/a", "//a", "?a", "#a", "a/b:c", "./a:b", "http://a"],
    ["a b", "1:a", ":a", "^a", '"a"', "%", "//a:b", "//[a]"],
  ],
  "uri-template": [
    ["", "/a/{b}", "{+a,b:3,c*}", "{?a.b,%20}", "/ä"],
    ["{", "}", "{}", "{a", "{a b}", "{a:0}", "{a:10000}", "{.}", "{a..b}", "{{a}}", "%{a}41", "<a>"],
  ],
  url: [
    ["http://a.example", "https://u:p@a.example:8080/b", "ftp://8.8.8.8/", "http://ä.example"],
    ["a.example", "http://a", "http://10.0.0.1/", "http://192.168.1.1", "http://172.16.0.1", "http://127.0.0.1", "http://a.example/b c"],
  ],
  uuid: [
    ["123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000"],
    ["123e4567e89b12d3a456426614174000", "x"],
  ],
  regex: [
    ["^(a)(?=b)\\1$", ""],
    ["(", "\\Z", "a**"],
  ],
  "json-pointer": [
    ["", "/", "/a~0b~1c/0"],
    ["a", "/~", "/~2", "#/a"],
  ],
  "json-pointer-uri-fragment": [
    ["#", "#/", "#/a~0b/%20"],
    ["", "/a", "#a", "#/~2", "#/%2", "#/ä"],
  ],
  "relative-json-pointer": [
    ["0", "1#", "10/a~1", "0/"],
    ["", "01", "-1/a", "0##", "1a"],
  ],
};

describe.each(Object.entries(cases))("%s", (name, [valid, wrong]) => {
  const check = formatCheck(name) ?? expect.fail("it is not known");
  test.each(valid)("%j", (text) => expect(check(text)).toBe(true));
  test.each(wrong)("not %j", (text) => expect(check(text)).toBe(false));
});

/** Texts that a backtracking expression would not finish. */
const parts = ["a", "1", "a.", "1.", "a-", "/", "a:", ":", "%20", "~0", "{a}", "{a,", "a,", "\\", '"', "@", "[", "P1Y", " ", "0", "f:"];
const long = parts.flatMap((part) =>
  ["", "http://", "P", '"', "{", "/", "#/", "a@", "0"].map((start) => `${start}${part.repeat(20_000)}\n`),
);

test.each(Object.keys(cases))("%s takes time linear in the length of the text", (name) => {
  const check = formatCheck(name) ?? expect.fail("it is not known");
  const took = cpuMs(() => {
    for (const text of long) check(text);
  });
  // 189 texts of up to 60,000 characters.
  expect(took).toBeLessThan(10_000);
});
