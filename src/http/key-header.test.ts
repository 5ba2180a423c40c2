import { describe, expect, test } from "vitest";
import { cpuMs } from "../../test/kit/cpu-time.js";
import { fc } from "../../test/kit/properties.js";
import { readKey } from "./key-header.js";

describe("the key header", () => {
  test.each([
    ["abc", "abc"],
    ['"abc"', "abc"],
    ['  "abc"  ', "abc"],
    ['"a b, c"', "a b, c"],
    ['"a\\"b\\\\c"', 'a"b\\c'],
    ['"abc";v=1;w', "abc"],
    ["8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"],
    ["order:1/charge+x=", "order:1/charge+x="],
  ])("%s is the key %s", (field, key) => expect(readKey(field, 255)).toBe(key));

  test.each(["", '""', "a b", "a, b", "a,b", '"a', 'a"b c', '"a"b', '"a\\b"', "é", '"a" "b"', '"a";A=1', "a\u0000b"])(
    "%j is malformed",
    (field) => expect(() => readKey(field, 255)).toThrow(),
  );

  test("is undefined if the header is missing", () =>
    expect([readKey(undefined, 255), readKey(null, 255)]).toEqual([undefined, undefined]));

  test("reads any quoted printable text up to the maximum length", () => {
    const text = fc.string({
      unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
      minLength: 1,
      maxLength: 255,
    });
    fc.assert(fc.property(text, (key) => readKey(`"${key.replace(/["\\]/g, "\\$&")}"`, 255) === key));
    expect(() => readKey("x".repeat(256), 255)).toThrow(/256 characters/);
  });

  test("is parsed in linear time, also if malformed", () => {
    const spentMs = cpuMs(() => {
      for (const field of [`"${";a=".repeat(5000)}`, `"a"${";a=;".repeat(3000)} ,`, `"a"${"; ".repeat(8000)}`])
        expect(() => readKey(field, 255)).toThrow();
    });
    expect(spentMs).toBeLessThan(1000);
  });
});
