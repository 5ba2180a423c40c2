import { describe, expect, test } from "vitest";
import { fc } from "../../../test/kit/properties.js";
import { LinearPattern, wrongPattern } from "./linear-pattern.js";

/** Patterns that are common in schemas. */
const common = [
  "^[a-z0-9]+(?:-[a-z0-9]+)*$",
  "^[A-Z]{2}\\d{2}[A-Z0-9]{1,30}$",
  "^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$",
  "^([a-zA-Z0-9_.-])+@(([a-zA-Z0-9-])+\\.)+([a-zA-Z0-9]{2,4})+$",
  "^[^@\\s]+@[^@\\s]+\\.[^@\\s]+$",
  "^\\+?[1-9]\\d{1,14}$",
  "^https?://[^\\s/$.?#].[^\\s]*$",
  "^#(?:[0-9a-fA-F]{3}){1,2}$",
  "^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])$",
  "^v?\\d+\\.\\d+\\.\\d+(-[\\w.]+)?$",
  "^.{1,255}$",
  "^\\S+$",
  "^\\s*$",
  "\\bfoo\\b",
  "foo|bar",
  "^(?:foo|bar)?$",
  "^$",
  "",
  "^a*?b+?c??$",
  "^[^\\n\\r]*$",
  "^[\\w-]+$",
  "^[\\]\\[\\-^\\\\]+$",
  "^\\p{L}+$",
  "^\\p{Lu}\\p{Ll}*$",
  "^[\\p{L}\\p{N} '-]+$",
  "^\\P{L}$",
  "^\\p{Script=Greek}+$",
  "^\\p{Emoji}$",
  "^[\\u00e4\\u{1F600}\\x41]$",
  "^\\uD83D\\uDE00$",
  "^[\\uD83D\\uDE00-\\u{1F610}]$",
  "^\\cJ\\0?$",
  "^(?<year>\\d{4})$",
  "^[]$",
  "^[^]$",
  "(?:)",
  "a{2}b{1,}c{0,3}",
  "^[\\b\\t]$",
  "^\\/path\\/$",
  "^[a\\-z]$",
  "^[\\s\\S]*$",
  "x$|^y",
  "\\B-\\B",
];

const texts = [
  ...[
    "",
    "a",
    "foo",
    "foobar",
    "a foo b",
    "bar",
    "abc",
    "aabbcc",
    "A",
    "Ä",
    "ß",
    "é",
    "😀",
    "😁",
    "\ud83d",
    "\ude00",
    "x\ud800",
    "\n",
    "\r",
    "a\nb",
  ],
  ...[
    "\u2028",
    "\u00a0",
    "\ufeff",
    "\v",
    "\b",
    "\t",
    " ",
    "\0",
    "\n\0",
    "Ελλάδα",
    "日本",
    "Ж1",
    "1",
    "12",
    "2024-02-29",
    "2024",
    "v1.2.3",
    "1.2.3-rc.1",
  ],
  ...[
    "john.doe@example.com",
    "a@b.c",
    "a@b",
    "+491701234567",
    "http://x.y/z",
    "https://example.com/a b",
    "#fff",
    "#ffff",
    "#abcdef",
    "DE89370400440532013000",
  ],
  ...[
    "123e4567-e89b-12d3-a456-426614174000",
    "my-slug-1",
    "my--slug",
    "-",
    "]",
    "[",
    "^",
    "\\",
    "a-z",
    "x",
    "y",
    "xy",
    "/path/",
    "O'Neil Jr-2",
  ],
];

test.each(common)("%j matches the same texts as RegExp", (pattern) => {
  const [linear, native] = [new LinearPattern(pattern), new RegExp(pattern, "u")];
  const said = (one: { test(text: string): boolean }) => texts.filter((text) => one.test(text));
  expect(said(linear)).toEqual(said(native));
});

/** Random patterns of syntax that both support, and texts made of their characters. */
const atom = fc.constantFrom(
  ...["a", "b", ".", "\\d", "\\w", "\\s", "\\S", "[ab]", "[^a]", "[a-c1]", "\\u{1F600}", "😀", "\\.", "-", "ä", "\\p{Lu}", "[\\W_]"],
);
const quantified = fc
  .tuple(atom, fc.constantFrom("", "", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?"))
  .map((parts) => parts.join(""));
const sequence = fc
  .array(fc.oneof({ weight: 8, arbitrary: quantified }, fc.constantFrom("^", "$", "\\b", "\\B")), { maxLength: 4 })
  .map((parts) => parts.join(""));
const group = fc
  .tuple(
    fc.constantFrom("(", "(?:", "(?<n>"),
    fc.array(sequence, { minLength: 1, maxLength: 3 }),
    fc.constantFrom("", "*", "+", "?", "{0,2}"),
  )
  .map(([open, branches, times]) => `${open}${branches.join("|")})${times}`);
const pattern = fc.tuple(sequence, fc.option(group, { nil: "" }), sequence).map((parts) => parts.join(""));
const text = fc.array(fc.constantFrom(..."abcd19 _-.äÄ😀Z\n\r\u2028\u00a0\ud800"), { maxLength: 12 }).map((parts) => parts.join(""));

test("random patterns match the same random texts as RegExp", () => {
  fc.assert(
    fc.property(pattern, fc.array(text, { minLength: 5, maxLength: 20 }), (given, all) => {
      const [linear, native] = [new LinearPattern(given), new RegExp(given, "u")];
      for (const one of all) expect([one, linear.test(one)]).toEqual([one, native.test(one)]);
    }),
    { numRuns: 1500 },
  );
});

describe("rejects patterns that cannot run in linear time", () => {
  test.each([
    ["^(?=a)b", /lookahead/],
    ["^(?!a)b", /lookahead/],
    ["(?<=a)b", /behind/],
    ["(?<!a)b", /behind/],
    ["^(a)\\1$", /backreference/],
    ["^(?<x>a)\\k<x>$", /backreference/],
    ["^a{1001}$", /1000 times/],
    [`^${"a".repeat(1000)}$`, /1000 characters/],
  ])("%s", (given, why) => {
    expect(wrongPattern(given)).toEqual({ isUnsupported: true, why: expect.stringMatching(why) });
  });

  test("an invalid pattern is a different error", () => {
    for (const given of ["(", "[", "a**", "\\q", "{1}"]) expect(wrongPattern(given)).toMatchObject({ isUnsupported: false });
  });
});
