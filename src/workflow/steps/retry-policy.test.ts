import { describe, expect, test } from "vitest";
import { ConfigurationError, NotApplied } from "../../core/errors/errors.js";
import { FatalError, RetryableError } from "../define/errors.js";
import { resolveOptions } from "../define/step-options.js";
import { judgeFailure } from "./retry-policy.js";
import { encodeWithStack } from "./verdicts.js";

const now = 1000;
const quick = { backoff: { minMs: 10, jitter: 0 } };
const asks = { ...quick, effect: "reconcile", reconcile: () => undefined };

/** The verdict on an attempt that threw `error`; the provider's answer is reliable from 5000 on. */
function judged(error: unknown, options: object, failures = 1) {
  const attempt = { name: "charge", failures, failure: encodeWithStack(error), options: resolveOptions("charge", options), answerAt: 5000 };
  return judgeFailure(error, attempt, now, () => 0);
}

describe("a step that throws", () => {
  test.each(["idempotent", "keyed"])("%s: is retried until its retries are exhausted", (effect) => {
    expect(judged(new Error("away"), { ...quick, effect })).toEqual({ kind: "retry", at: 1010 });
    expect(judged(new Error("away"), { ...quick, effect }, 3)).toEqual({ kind: "retry", at: 1040 });
    expect(judged(new Error("away"), { ...quick, effect }, 4)).toMatchObject({
      kind: "final",
      error: { message: 'step "charge" failed after 4 attempts: away' },
    });
  });

  test("is retried at the time in its error; an invalid time is ignored", () => {
    expect(judged(new RetryableError("busy", { retryAfter: 700 }), quick)).toEqual({ kind: "retry", at: 1700 });
    expect(judged(new RetryableError("busy", { retryAfter: Number.NaN }), quick)).toEqual({ kind: "retry", at: 1010 });
  });

  test("fails for good after a FatalError or a ConfigurationError", () => {
    const fatal = new FatalError("no");
    expect(judged(fatal, quick)).toEqual({ kind: "final", error: fatal });
    expect(judged(new ConfigurationError("no transactions"), quick)).toMatchObject({ kind: "final", error: { name: "FatalError" } });
  });

  test("atMostOnce: its outcome is unknown, unless the error says that nothing happened", () => {
    const options = { ...quick, effect: "atMostOnce" };
    expect(judged(new Error("away"), options)).toEqual({ kind: "doubt" });
    expect(judged(new FatalError("no"), options)).toEqual({ kind: "doubt" });
    expect(judged(new NotApplied("refused"), options)).toEqual({ kind: "retry", at: 1010 });
  });

  test("reconcile: is called before a retry, and also after the last attempt", () => {
    expect(judged(new Error("away"), asks)).toEqual({ kind: "ask", at: 5000 });
    expect(judged(new RetryableError("busy", { retryAfter: 9000 }), asks)).toEqual({ kind: "ask", at: 10_000 });
    expect(judged(new Error("away"), asks, 4)).toEqual({ kind: "ask", at: 5000 });
    expect(judged(new ConfigurationError("no transactions"), asks)).toEqual({ kind: "ask", at: 5000 });
  });

  test("reconcile: is not called if the error says what happened", () => {
    const fatal = new FatalError("no");
    expect(judged(fatal, asks)).toEqual({ kind: "final", error: fatal });
    expect(judged(new NotApplied("refused"), asks)).toEqual({ kind: "retry", at: 1010 });
    expect(judged(new NotApplied("refused"), asks, 4)).toMatchObject({ kind: "final" });
  });
});
