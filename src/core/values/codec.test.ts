import { describe, expect, test } from "vitest";
import { fc } from "../../../test/kit/properties.js";
import { decode, encode, encodeCopy, encodeLater } from "./codec.js";
import { serializable, serializeSymbol } from "./serializable.js";

/** Any name; `__proto__` more often than by chance. */
const memberName = fc.oneof({ arbitrary: fc.string(), weight: 30 }, { arbitrary: fc.constant("__proto__"), weight: 1 });

function namesProto(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return Object.hasOwn(value, "__proto__") || Object.values(value).some(namesProto);
}

describe("values", () => {
  test("a value that JSON can hold is stored as readable JSON", () => {
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

  test("any JSON and any mixture of allowed values comes back unchanged", () => {
    const leaf = fc.oneof(fc.jsonValue(), fc.bigInt(), fc.date({ noInvalidDate: true }), fc.constant(undefined), fc.double());
    fc.assert(
      fc.property(fc.oneof(leaf, fc.array(leaf), fc.dictionary(memberName, leaf)), (value) => {
        if (namesProto(value)) expect(() => encode(value)).toThrow(/"__proto__"/);
        else expect(decode(encode(value))).toEqual(value);
      }),
    );
  });

  test("a cycle comes back as a cycle, and __proto__ does not change a prototype", () => {
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
    [{ a: halfSerde() }, /^value\.a: cannot be stored: class Half: has no static \[WORKFLOW_DESERIALIZE\]/],
  ])("what cannot be stored is refused with its path", (value, message) => {
    expect(() => encode(value)).toThrow(message);
  });
});

describe("copies", () => {
  const leaf = fc.oneof(fc.jsonValue(), fc.date({ noInvalidDate: true }), fc.constant(undefined), fc.double());
  const anything = fc.oneof(leaf, fc.array(leaf), fc.dictionary(memberName, leaf), fc.object({ withDate: true, withNullPrototype: true }));

  test("equal the decoded text, and the text is the same as without a copy", () => {
    fc.assert(
      fc.property(anything, (value) => {
        if (namesProto(value)) {
          expect(() => encodeCopy(value)).toThrow(/"__proto__"/);
          return;
        }
        const { text, copy } = encodeCopy(value);
        expect(text).toBe(encode(value));
        expect(copy).toStrictEqual(decode(text));
      }),
    );
  });

  test("share no objects with the original", () => {
    const value = { list: [{ a: 1 }], member: { b: 2 } };
    const copy = encodeCopy(value).copy as typeof value;
    value.list.push({ a: 2 });
    Object.assign(value.list[0] as object, { a: 3 });
    value.member.b = 4;
    expect(copy).toEqual({ list: [{ a: 1 }], member: { b: 2 } });
  });

  test("do not contain members added to Object.prototype", () => {
    const everybody = Object.prototype as Record<string, unknown>;
    everybody["added"] = 1;
    try {
      const { text, copy } = encodeCopy({ own: 1 });
      expect(text).toBe('{"own":1}');
      expect(Object.keys(copy as object)).toEqual(["own"]);
    } finally {
      delete everybody["added"];
    }
  });
});

describe("values that cannot be stored", () => {
  const nested = (levels: number, wrap: (inner: unknown) => unknown) => {
    let value: unknown = 1;
    for (let level = 0; level < levels; level++) value = wrap(value);
    return value;
  };

  test.each([
    ["arrays", (inner: unknown) => [inner]],
    ["objects", (inner: unknown) => ({ inner })],
    ["maps", (inner: unknown) => new Map([["inner", inner]])],
  ])("%s come back up to a depth, and are refused beyond it, however deep", (_, wrap) => {
    for (const levels of [101, 990]) expect(encode(decode(encode(nested(levels, wrap))))).toBe(encode(nested(levels, wrap)));
    for (const levels of [1200, 9000, 200_000])
      expect(() => encode(nested(levels, wrap))).toThrow(/^value: .*nested deeper than 1000 levels/);
  });

  test("a graph that decodes deeper than it looks is rejected too", () => {
    const nodes = Array.from({ length: 2000 }, (): { extra: undefined; next?: unknown } => ({ extra: undefined }));
    for (const [i, node] of nodes.entries()) node.next = nodes[i + 1];
    expect(() => encode(nodes)).toThrow(/nested deeper than 1000 levels/);
    expect(decode(encode([...nodes].reverse()))).toHaveLength(2000);
  });

  test.each([
    [{ a: Promise.resolve(1) }, /^value\.a: cannot be stored: it is a promise; await it first/],
    [{ a: { [Symbol("s")]: 1 } }, /^value\.a: cannot be stored: it has members named by symbols/],
    [{ "a b": [new Map([["k", () => 1]])] }, /^value\["a b"\]\[0\]\.get\("k"\): cannot be stored: it is a function/],
    [JSON.parse('{"a": {"__proto__": 1}}'), /^value\.a: cannot be stored: it has a member named "__proto__"/],
  ])("is refused with its path and what to do: %o", (value, message) => {
    expect(() => encode(value)).toThrow(message);
    expect(() => encodeLater(value)).toThrow(message);
  });

  test("a value whose traversal throws is rejected too", () => {
    const hostile = {
      get entry() {
        throw new Error("no entry");
      },
    };
    expect(() => encode(hostile)).toThrow(/^value: cannot be stored: no entry/);
  });

  test("a promise is rejected even beside a value that has to be read", async () => {
    await expect(encodeLater({ read: new Blob(["x"]), not: Promise.resolve(1) })).rejects.toThrow(/^value\.not: .*it is a promise/);
  });

  test("a class defines how its instances are stored; an instance that it cannot restore is rejected before it is stored", () => {
    class Node {
      next: unknown;
    }
    class Picky {}
    serializable("Node", Node, { keep: ({ next }) => next, make: (next) => Object.assign(new Node(), { next }) });
    serializable("Picky", Picky, {
      keep: () => ({ deep: [() => 1] }),
      make: () => new Picky(),
    });
    expect(decode(encode([Object.assign(new Node(), { next: undefined })]))).toEqual([Object.assign(new Node(), { next: undefined })]);
    const self = new Node();
    self.next = { self };
    expect(() => encode(self)).toThrow(/^value: cannot be stored: it cannot be decoded again: /);
    expect(() => encode({ of: new Picky() })).toThrow(/^value\.of\.kept\[1\]\.deep\[0\]: cannot be stored: it is a function/);
    class Sub extends Node {}
    expect(() => encode({ sub: new Sub() })).toThrow(/^value\.sub: .*it is an instance of Sub, which is not registered/);
    expect(() => serializable("Node", Picky, { keep: () => 1, make: () => new Picky() })).toThrow(/two classes are registered as "Node"/);
  });
});

describe("memory", () => {
  test("only the bytes of a view are stored, not the rest of its buffer", () => {
    const around = new TextEncoder().encode("SECRET-part-SECRET");
    const hidden = Buffer.from("SECRET").toString("base64").slice(0, 6);
    const parts = [around.subarray(7, 11), Buffer.from(around.buffer, 7, 4), new DataView(around.buffer, 7, 4)];
    for (const part of parts) {
      expect(encode(part)).not.toContain(hidden);
      expect(new TextDecoder().decode(decode(encode(part)) as Uint8Array)).toBe("part");
    }
    const shared = new Uint8Array(new SharedArrayBuffer(2));
    shared.set([1, 2]);
    expect(decode(encode(shared))).toEqual(new Uint8Array([1, 2]));
  });

  test("huge arrays, dense and sparse", () => {
    const dense = Array.from({ length: 200_000 }, (_, i) => i);
    expect(decode(encode(dense))).toEqual(dense);
    const sparse: unknown[] = [];
    sparse[1_000_000] = 1n;
    expect(encode(sparse).length).toBeLessThan(100);
    expect((decode(encode(sparse)) as unknown[]).length).toBe(1_000_001);
  });
});

describe("bodies", () => {
  test("are read up to a limit, and the original can still be read", async () => {
    const response = new Response("x".repeat(100), { headers: { a: "b" } });
    await expect(encodeLater({ response }, 99)).rejects.toThrow(
      /^value\.response: cannot be stored: it has more than 99 bytes, but the limit is 99; store it elsewhere/,
    );
    expect(await encodeLater({ response }, 100)).toContain("xxx");
    await expect(encodeLater([new Blob(["x".repeat(100)])], 99)).rejects.toThrow(/^value\[0\]: cannot be stored: it has 100 bytes/);
    expect(await response.text()).toHaveLength(100);
    await expect(encodeLater({ response })).rejects.toThrow(/^value\.response: cannot be stored: its body was already read/);
  });

  test("keep the URL of a response, and network errors", async () => {
    const answered = Object.defineProperty(new Response("a"), "url", { value: "https://example.test/a" });
    expect((decode(await encodeLater(answered)) as Response).url).toBe("https://example.test/a");
    expect((decode(encode(Response.error())) as Response).type).toBe("error");
  });

  test("that are text are stored as readable text", async () => {
    expect(await encodeLater(new Response("grüße"))).toContain('"grüße"');
  });
});

function halfSerde(): object {
  class Half {
    readonly part = 1;
    static [serializeSymbol]() {
      return null;
    }
  }
  serializable("Half", Half);
  return new Half();
}
