import { describe, expect, expectTypeOf, test, vi } from "vitest";
import { fc } from "../../../test/kit/properties.js";
import { InvalidInputError } from "../errors/errors.js";
import { checkName, effectKeyOf, type Key, key } from "./key.js";

describe("key.from", () => {
  test("does not depend on the order of members, at any depth", () => {
    expect(key.from({ a: 1, b: { c: [1, 2], d: "x" } })).toBe(key.from({ b: { d: "x", c: [1, 2] }, a: 1 }));
  });

  test("differs for a different payload", () => {
    const different = [{ a: 1 }, { a: "1" }, { a: [1] }, { a: null }, {}, [], "a", 1, null, { a: 1, b: null }, { b: 1 }];
    expect(new Set(different.map((payload) => key.from(payload))).size).toBe(different.length);
  });

  test("is equal for equal JSON, however it was made", () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => key.from(value) === key.from(JSON.parse(JSON.stringify(value)))),
    );
  });

  test("of some fields ignores the others, and an error names a missing field", () => {
    const first = { order: "o-1", customer: { id: 7 }, sentAt: 1 };
    expect(key.from(first, ["order", "customer.id"])).toBe(key.from({ ...first, sentAt: 2 }, ["order", "customer.id"]));
    expect(key.from(first, ["order"])).not.toBe(key.from(first, ["customer.id"]));
    expect(() => key.from(first, ["customer.name"])).toThrow(/payload\.customer\.name: is missing/);
    expect(() => key.from(first, ["constructor"])).toThrow(/is missing/);
    expect(() => key.from(first, ["__proto__.x"])).toThrow(/is missing/);
  });

  const cyclic: Record<string, unknown> = {};
  cyclic["self"] = cyclic;
  const unrepresentable: [string, unknown, RegExp][] = [
    ["NaN", { a: [Number.NaN] }, /payload\.a\[0\]: is NaN/],
    ["Infinity", Number.POSITIVE_INFINITY, /payload: is Infinity/],
    ["an undefined member", { a: { b: undefined } }, /payload\.a\.b: is undefined/],
    ["a hole in an array", [1, undefined], /payload\[1\]: is undefined/],
    ["a Map", { m: new Map([[1, 2]]) }, /payload\.m: is a Map/],
    ["a Date", { at: new Date(0) }, /payload\.at: is a Date/],
    ["a bigint", 1n, /payload: is a bigint/],
    ["a function", { f: () => 1 }, /payload\.f: is a function/],
    ["a symbol", Symbol("s"), /payload: is a symbol/],
    ["a lone surrogate", { s: "\ud800" }, /payload\.s: has a lone surrogate/],
    ["a lone surrogate in a name", { "\udc00": 1 }, /payload: has a member name/],
    ["a cycle", cyclic, /payload\.self: refers back/],
    ["its own JSON form", { toJSON: () => 1 }, /payload: is/],
  ];
  test.each(unrepresentable)("rejects %s with its path", (_, payload, message) => {
    expect(() => key.from(payload)).toThrow(message);
    expect(() => key.from(payload)).toThrow(InvalidInputError);
  });
});

describe("key.template", () => {
  test("fills in fields of the context", () => {
    expect(key.template("{{payload.orderId}}-charge")({ payload: { orderId: "o-1" } })).toBe("o-1-charge");
    expect(key.template("{{ tenant }}:{{payload.items.0.id}}:ship")({ tenant: "t", payload: { items: [{ id: 7 }] } })).toBe("t:7:ship");
  });

  const charge = key.template("{{payload.orderId}}-charge");
  test.each([
    [{}, /^payload: is missing/],
    [{ payload: {} }, /^payload\.orderId: is missing/],
    [{ payload: { orderId: "" } }, /^payload\.orderId: must be a non-empty string/],
    [{ payload: { orderId: null } }, /^payload\.orderId: must be/],
    [{ payload: { orderId: {} } }, /^payload\.orderId: must be/],
    [{ payload: { orderId: Number.NaN } }, /^payload\.orderId: must be/],
    [{ payload: Object.create({ orderId: "inherited" }) }, /^payload/],
    [{ payload: { orderId: "x".repeat(600) } }, /^key: is 607 bytes long; 512 are allowed/],
  ])("fails on %j", (context, message) => {
    expect(() => charge(context)).toThrow(message);
  });

  test.each(["", "{{}}", "{{a b}}-x", "{{a}-x", "a}}-x", "{{__proto__[0]}}-x"])("rejects the template %j", (text) => {
    expect(() => key.template(text)).toThrow(InvalidInputError);
  });

  test("warns once if a key is only an entity's id", () => {
    const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    key.template("{{payload.id}}");
    key.template("{{payload.id}}");
    key.template("{{payload.tenant}}/{{payload.id}}");
    key.template("{{payload.orderId}}-charge-payment");
    expect(warn.mock.calls.map(([message]) => message)).toEqual([
      expect.stringContaining('"{{payload.id}}" is only an entity\'s id'),
      expect.stringContaining("{{payload.tenant}}/{{payload.id}}"),
    ]);
    warn.mockRestore();
  });
});

describe("a key", () => {
  test("is a branded string: a random or time-based one needs a cast", () => {
    expectTypeOf(key.of("charge:1")).toEqualTypeOf<Key>();
    expectTypeOf<ReturnType<typeof crypto.randomUUID>>().not.toExtend<Key>();
    expectTypeOf<string>().not.toExtend<Key>();
  });

  test.each([
    ["", /key: is empty/],
    ["a\nb", /key: has control characters/],
    ["a\u0000b", /key: has control characters/],
    ["\u007f", /key: has control characters/],
    ["\ud800", /key: has a lone surrogate/],
    ["ä".repeat(257), /key: is 514 bytes long/],
    [7, /key: must be a string, not number/],
    [null, /key: must be a string, not null/],
  ])("may not be %j", (text, message) => {
    expect(() => checkName("key", text)).toThrow(message);
  });

  test("may be 512 bytes long, and any printable text", () => {
    for (const text of ["a".repeat(512), "ä".repeat(256), "payment:order_123", "Ünï côdé 🎉", " "]) expect(key.of(text)).toBe(text);
  });

  test("has a different effect key in every scope, whatever separators it contains", () => {
    const pairs = [
      ["", "a"],
      ["a", ""],
      ["a", "b:c"],
      ["a:b", "c"],
      ["a", "b"],
      ["ab", ""],
    ] as const;
    expect(new Set(pairs.map(([scope, k]) => effectKeyOf(scope, k))).size).toBe(pairs.length);
    expect(effectKeyOf("s", "k")).toMatch(/^[0-9a-f]{64}$/);
  });
});
