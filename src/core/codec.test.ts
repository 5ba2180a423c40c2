import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decode, encode } from "./codec.js";
import { decodeError, encodeError, isReplayed } from "./stored-error.js";

describe("values", () => {
  test("what JSON can hold is stored as JSON, readable by a person", () => {
    expect(encode({ id: "ch_1", lines: [1, null, true] })).toBe('{"id":"ch_1","lines":[1,null,true]}');
  });

  test.each([
    [undefined],
    [{ a: undefined, b: [undefined] }],
    [10n ** 30n],
    [new Date(0)],
    [new Map<unknown, unknown>([["a", new Set([1, "b"])]])],
    [/a+/gi],
    [-0],
    [Number.NaN],
    [[Number.POSITIVE_INFINITY]],
    [new Uint8Array([0, 255])],
    ["devalue:[1]"],
    ["\u0000 and \ud800"],
    [new URL("https://example.test/a?b")],
  ])("%o comes back as it was", (value) => {
    expect(decode(encode(value))).toEqual(value);
  });

  test("any JSON and any mixture of what is allowed comes back as it was", () => {
    const leaf = fc.oneof(fc.jsonValue(), fc.bigInt(), fc.date({ noInvalidDate: true }), fc.constant(undefined), fc.double());
    fc.assert(
      fc.property(
        fc.oneof(
          leaf,
          fc.array(leaf),
          fc.dictionary(
            fc.string().filter((name) => name !== "__proto__"),
            leaf,
          ),
        ),
        (value) => {
          expect(decode(encode(value))).toEqual(value);
        },
      ),
    );
  });

  test("a cycle comes back as a cycle, and __proto__ pollutes nothing", () => {
    const cyclic: { self?: unknown } = {};
    cyclic.self = cyclic;
    const copy = decode(encode(cyclic)) as { self: unknown };
    expect(copy.self).toBe(copy);
    expect(() => decode(encode(JSON.parse('{"__proto__": {"polluted": true}}')))).toThrow();
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  test.each([
    [{ order: { total: () => 1 } }, /value\.order\.total: cannot be stored/],
    [[Symbol("s")], /value\[0\]: cannot be stored/],
    [{ a: new (class Money {})() }, /value\.a: cannot be stored/],
  ])("what cannot be stored is refused with its path", (value, message) => {
    expect(() => encode(value)).toThrow(message);
  });
});

describe("errors", () => {
  test("come back with name, message, code and causes, marked as replayed", () => {
    const cause = Object.assign(new TypeError("inner"), { code: "E_INNER" });
    const error = Object.assign(new RangeError("outer", { cause }), { code: 402 });
    const copy = decodeError(encodeError(error));
    expect(copy).toMatchObject({ name: "RangeError", message: "outer", code: 402, replayed: true });
    expect(copy.cause).toMatchObject({ name: "TypeError", message: "inner", code: "E_INNER" });
    expect(isReplayed(copy)).toBe(true);
    expect(isReplayed(error)).toBe(false);
  });

  test("keep no stack: it names the inside of the process that threw", () => {
    expect(encodeError(new Error("x"))).not.toContain("codec.test");
  });

  test("anything thrown can be kept", () => {
    expect(decodeError(encodeError("a string"))).toMatchObject({ message: "a string", cause: "a string" });
    expect(decodeError(encodeError({ status: 402 })).cause).toEqual({ status: 402 });
    expect(decodeError(encodeError(undefined)).message).toBe("undefined");
    expect(decodeError(encodeError(() => 1)).message).toContain("=>");
  });

  test("are bounded", () => {
    const text = encodeError(new Error("x".repeat(100_000)));
    expect(text.length).toBeLessThan(5000);
  });
});
