import { describe, expect, test } from "vitest";
import { InvalidInputError, MismatchError, OnceflowError, RunningError } from "./errors.js";

describe("errors", () => {
  const error = new RunningError({ scope: "t", key: "k", attempt: 2, retryAfterMs: 40 });

  test("have a message that says what to do, a code and facts", () => {
    expect(error).toMatchObject({
      name: "RunningError",
      code: "RUNNING",
      retryable: true,
      scope: "t",
      key: "k",
      attempt: 2,
      retryAfterMs: 40,
    });
    expect(error.message).toBe('key "k" in scope "t" is running as attempt 2; try again in 40 ms.');
  });

  test("instanceof works across two loaded copies of the package", async () => {
    const copyUrl = new URL("../../../dist/core/errors/errors.js", import.meta.url).href;
    const copy = (await import(copyUrl)) as typeof import("./errors.js");
    expect(copy.RunningError).not.toBe(RunningError);
    expect(error).toBeInstanceOf(copy.RunningError);
    expect(error).toBeInstanceOf(copy.OnceflowError);
    expect(error).not.toBeInstanceOf(copy.MismatchError);
    expect(new copy.MismatchError({ scope: "", key: "k" })).toBeInstanceOf(MismatchError);
  });

  test("is() is the same as instanceof, for every class and across two copies", async () => {
    const copy = (await import(new URL("../../../dist/core/errors/errors.js", import.meta.url).href)) as typeof import("./errors.js");
    expect([RunningError.is(error), OnceflowError.is(error), MismatchError.is(error), RunningError.is(new Error("x"))]).toEqual([
      true,
      true,
      false,
      false,
    ]);
    expect([copy.RunningError.is(error), copy.MismatchError.is(error)]).toEqual([true, false]);
    const unknown: unknown = error;
    if (RunningError.is(unknown)) expect(unknown.retryAfterMs).toBe(40);
  });

  test("instanceof is false for other errors and for unrelated subclasses of a user", () => {
    class Mine extends InvalidInputError {}
    expect(new Mine("field", "problem")).toBeInstanceOf(Mine);
    expect(new Mine("field", "problem")).toBeInstanceOf(InvalidInputError);
    expect(new InvalidInputError("field", "problem")).not.toBeInstanceOf(Mine);
    for (const other of [null, undefined, 1, {}, new Error("x")]) expect(other).not.toBeInstanceOf(OnceflowError);
  });
});
