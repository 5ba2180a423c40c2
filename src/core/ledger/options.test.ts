import { describe, expect, test } from "vitest";
import { InvalidInputError } from "../errors/errors.js";
import { key } from "./key.js";
import { type OnceOptions, prepare } from "./options.js";

const k = key.of("k");

describe("options of once()", () => {
  test("have defaults", () => {
    expect(prepare({ key: k })).toEqual({
      begin: {
        verb: "begin",
        scope: "",
        key: "k",
        fingerprint: null,
        effect: "idempotent",
        leaseMs: 10_000,
        retentionMs: 24 * 3600 * 1000,
        horizonMs: 0,
        reconcileAfterMs: 10_000,
        over: null,
        progress: null,
      },
      onRunning: "wait",
      waitMs: 30_000,
    });
  });

  const wrong: [string, Record<string, unknown>, RegExp][] = [
    ["a misspelt effect", { efect: "atMostOnce" }, /once: efect: is not an option; did you mean "effect"\?/],
    ["a misspelt retention", { retention: 5 }, /once: retention: is not an option; did you mean "retentionMs"\?/],
    ["leaseMs", { leaseMs: Number.NaN }, /leaseMs: must be a whole number of milliseconds from 50 to 3600000, not NaN/],
    ["leaseMs", { leaseMs: -1 }, /leaseMs/],
    ["leaseMs", { leaseMs: 2 * 3600 * 1000 }, /leaseMs: must be .* to 3600000, not 7200000/],
    ["leaseMs", { leaseMs: "10s" }, /leaseMs/],
    ["retentionMs", { retentionMs: Number.POSITIVE_INFINITY }, /retentionMs/],
    ["retentionMs", { retentionMs: -5 }, /retentionMs/],
    ["horizonMs", { horizonMs: 0.5 }, /horizonMs/],
    ["waitMs", { waitMs: -1 }, /waitMs/],
    ["reconcileAfterMs", { reconcileAfterMs: 1e300 }, /reconcileAfterMs/],
    ["effect", { effect: "exactlyOnce" }, /effect: must be one of "idempotent", "keyed", "reconcile", "atMostOnce", not "exactlyOnce"/],
    ["onRunning", { onRunning: "retry" }, /onRunning: must be one of/],
    ["reconcile", { effect: "reconcile" }, /reconcile: must be a function when, and only when/],
    ["reconcile", { reconcile: () => "absent" }, /reconcile/],
    ["input", { input: { at: new Date() } }, /input\.at: is a Date/],
    ["input", { input: { amount: Number.NaN } }, /input\.amount: is NaN/],
    ["fingerprint", { fingerprint: "" }, /fingerprint: must be a non-empty string/],
    ["fingerprint", { fingerprint: 7 }, /fingerprint/],
    ["scope", { scope: "a\tb" }, /scope: has control characters/],
    ["key", { key: "" }, /key: is empty/],
    ["tx", { tx: "yes" }, /tx: must be true or a function/],
  ];
  test.each(wrong)("an error names the field if %s is wrong: %j", (_, options, message) => {
    const ask = () => prepare({ key: "k", ...options } as OnceOptions);
    expect(ask).toThrow(message);
    expect(ask).toThrow(InvalidInputError);
  });

  test("the fingerprint does not depend on the order of the input's members", () => {
    const fingerprint = (options: Partial<OnceOptions>) => prepare({ key: k, ...options }).begin.fingerprint;
    expect(fingerprint({ input: { a: 1, b: 2 } })).toBe(fingerprint({ input: { b: 2, a: 1 } }));
    expect(fingerprint({ input: { a: 1 } })).not.toBe(fingerprint({ input: { a: 2 } }));
    expect(fingerprint({ input: { a: 1 }, fingerprint: "v1" })).toBe(fingerprint({ fingerprint: "v1" }));
    expect(fingerprint({})).toBeNull();
  });

  test("30 days and 100 years are valid durations", () => {
    const dayMs = 24 * 3600 * 1000;
    expect(prepare({ key: k, retentionMs: 30 * dayMs, horizonMs: 36_500 * dayMs }).begin).toMatchObject({ retentionMs: 30 * dayMs });
    expect(prepare({ key: k, retentionMs: "forever" }).begin.retentionMs).toBeNull();
  });
});
