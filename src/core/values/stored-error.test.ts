import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { FatalError, RetryableError } from "../../workflow/define/errors.js";
import { InvalidInputError, NotApplied, OnceflowError } from "../errors/errors.js";
import { decode, encode } from "./codec.js";
import { serializable } from "./serializable.js";
import { decodeError, encodeError, errorFactsOf, isReplayed } from "./stored-error.js";

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

  test("do not store the stack, which reveals files of the process", () => {
    expect(encodeError(new Error("x"))).not.toContain("codec.test");
  });

  test("any thrown value can be stored", () => {
    expect(decodeError(encodeError("a string"))).toMatchObject({ message: "a string", cause: "a string" });
    expect(decodeError(encodeError({ status: 402 })).cause).toEqual({ status: 402 });
    expect(decodeError(encodeError(undefined)).message).toBe("undefined");
    expect(decodeError(encodeError(() => 1)).message).toContain("=>");
  });

  test("are limited in size", () => {
    const text = encodeError(new Error("x".repeat(100_000)));
    expect(text.length).toBeLessThan(5000);
  });

  const again = (error: unknown) => decodeError(encodeError(error));

  test("are instances of their built-in class again", () => {
    for (const of of [EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError]) {
      expect(again(new of("m"))).toBeInstanceOf(of);
      expect(again(new of("m")).name).toBe(of.name);
    }
    const all = again(new AggregateError([new RangeError("a"), "b"], "all")) as unknown as AggregateError;
    expect(all).toBeInstanceOf(AggregateError);
    expect(all.errors).toEqual([new RangeError("a"), "b"]);
    const aborted = again(new DOMException("gone", "AbortError")) as unknown as DOMException;
    expect([aborted instanceof DOMException, aborted.name, aborted.message, aborted.code]).toEqual([true, "AbortError", "gone", 20]);
    expect(again(runInNewContext('new TypeError("elsewhere")'))).toBeInstanceOf(TypeError);
    class Declined extends TypeError {}
    expect(again(new Declined("m"))).toBeInstanceOf(TypeError);
  });

  test("of this package are instances of their class again, with their code", () => {
    const retry = again(new RetryableError("later", { retryAfter: "30s" })) as unknown as RetryableError;
    expect([RetryableError.is(retry), FatalError.is(retry), OnceflowError.is(retry)]).toEqual([true, false, true]);
    expect(retry).toMatchObject({ name: "RetryableError", code: "RETRYABLE", retryable: true, retryAfter: "30s" });
    expect(Object.getPrototypeOf(retry)).toBe(RetryableError.prototype);
    expect(again(new InvalidInputError("field", "is wrong"))).toMatchObject({ field: "field", message: "field: is wrong" });
    expect(again(new NotApplied("no"))).toBeInstanceOf(NotApplied);
    const unknown = decodeError(encodeError(new FatalError("x")).replace('["FatalError"', '["NewerError"'));
    expect([unknown instanceof OnceflowError, unknown instanceof FatalError]).toEqual([true, false]);
  });

  test("keep their causes, even if those are not errors, and other members that can be stored", () => {
    const error = Object.assign(new Error("outer", { cause: { status: 402 } }), { at: new Date(0), fn: () => 1, none: undefined });
    const copy = again(error);
    expect(copy.cause).toEqual({ status: 402 });
    expect(Object.keys(copy)).toEqual(["at"]);
    expect(copy).toMatchObject({ at: new Date(0) });
    const polluting = Object.defineProperty(new Error("m"), "__proto__", { value: { polluted: true }, enumerable: true });
    expect(again(polluting)).not.toHaveProperty("polluted");
  });

  test("that contain themselves do not recurse without end", () => {
    const error: Error & { self?: unknown } = new Error("m");
    error.self = { error };
    error.cause = error;
    expect(again(error)).toMatchObject({ message: "m" });
    expect(decode(encode({ error }))).toMatchObject({ error: { message: "m" } });
    const [a, b]: Error[] = [new Error("a"), new Error("b")];
    Object.assign(a as Error, { cause: b });
    Object.assign(b as Error, { cause: a });
    expect((again(a).cause as Error).message).toBe("b");
  });

  test("keep a limited stack if requested", () => {
    const error = new TypeError("where", { cause: new Error("below") });
    const ours = new URL("../ledger/once.ts", import.meta.url).pathname;
    error.stack = `TypeError: where\n    at pay (/app/pay.ts:1:2)\n    at once (${ours}:3:4)\n    at node:internal/timers:5:6\n    at async main (file:///app/main.ts:7:8)\n    at ours (${ours}:9:1)\n    at whoever (/app/calls.ts:1:1)`;
    const copy = decodeError(encodeError(error, { stack: true }));
    expect(copy.stack).toBe("TypeError: where\n    at pay (/app/pay.ts:1:2)\n    at async main (file:///app/main.ts:7:8)");
    error.stack = `TypeError: where\n${"    at somewhere (file.ts:1:1)\n".repeat(10_000)}`;
    expect(encodeError(error, { stack: true }).length).toBeLessThan(12_000);
    expect(again(error).stack).toBe("TypeError: where");
  });

  test("of a registered class are instances of it again, and readable where the class is not registered", () => {
    class CardError extends Error {
      readonly last4: string;
      constructor(last4: string) {
        super(`card ${last4} was declined`);
        this.last4 = last4;
      }
    }
    serializable("CardError", CardError, { keep: ({ last4 }) => last4, make: (last4) => new CardError(last4) });
    const text = encodeError(new CardError("4242"));
    expect(decodeError(text)).toBeInstanceOf(CardError);
    expect(isReplayed(decodeError(text))).toBe(true);
    const elsewhere = decodeError(text.replaceAll("CardError", "CashError"));
    expect(elsewhere).toMatchObject({ message: "card 4242 was declined", last4: "4242" });
    expect(decode(encode([new CardError("1")]))).toEqual([new CardError("1")]);
  });
});

describe("facts for lists and searches", () => {
  test.each([
    ["an error", new TypeError("inner"), { name: "TypeError", code: null, message: "inner" }],
    ["an error of Onceflow's without a cause", new FatalError("no"), { name: "FatalError", code: "FATAL", message: "no" }],
    [
      "an error of Onceflow's that was made from another one",
      new FatalError("step failed", {
        cause: new OnceflowError("child failed", { code: "X", cause: Object.assign(new RangeError("in"), { code: 7 }) }),
      }),
      { name: "RangeError", code: "7", message: "step failed" },
    ],
    ["a value that is not an error", "text", { name: "Error", code: null, message: "text" }],
  ])("of %s", (_, thrown, facts) => {
    expect(errorFactsOf(encodeError(thrown))).toEqual(facts);
  });

  test("of a text that is not an error: none", () => {
    expect([errorFactsOf("{"), errorFactsOf("null"), errorFactsOf("1")]).toEqual([undefined, undefined, undefined]);
  });
});
