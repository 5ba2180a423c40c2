import { expect, test } from "vitest";
import { fc } from "../../test/kit/properties.js";
import { retryDelayMs } from "./retry-delay.js";

const durationMs = fc.integer({ min: 0, max: 1_000_000 });
const options = fc.record({
  retryDelayMs: durationMs,
  backoffFactor: fc.constantFrom("fixed" as const, "linear" as const, "exponential" as const),
  jitter: fc.boolean(),
  maxRetryDelayMs: durationMs,
});
const attempt = fc.integer({ min: 1, max: 10_000 });
const random = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });

test("every delay is a number from 0 to the maximum", () => {
  fc.assert(
    fc.property(options, attempt, random, (given, n, r) => {
      const ms = retryDelayMs(given, n, () => r);
      expect(ms).toBeGreaterThanOrEqual(0);
      expect(ms).toBeLessThanOrEqual(given.maxRetryDelayMs);
    }),
  );
});

test("without jitter: fixed stays, linear multiplies by the attempt, exponential doubles after each attempt, up to the maximum", () => {
  fc.assert(
    fc.property(options, fc.integer({ min: 1, max: 20 }), (given, n) => {
      const factor = { fixed: 1, linear: n, exponential: 2 ** (n - 1) }[given.backoffFactor];
      const random = () => expect.unreachable("no jitter, no dice");
      expect(retryDelayMs({ ...given, jitter: false }, n, random)).toBe(Math.min(given.retryDelayMs * factor, given.maxRetryDelayMs));
    }),
  );
});

test("without jitter delays never get shorter", () => {
  fc.assert(
    fc.property(options, attempt, (given, n) => {
      const at = (attempt: number) => retryDelayMs({ ...given, jitter: false }, attempt, () => 0);
      expect(at(n + 1)).toBeGreaterThanOrEqual(at(n));
    }),
  );
});

test("jitter scales the whole delay by the random number: from zero to the full delay", () => {
  fc.assert(
    fc.property(options, attempt, random, (given, n, r) => {
      const whole = retryDelayMs({ ...given, jitter: false }, n, () => 0);
      expect(retryDelayMs({ ...given, jitter: true }, n, () => r)).toBe(Math.floor(whole * r));
      expect(retryDelayMs({ ...given, jitter: true }, n, () => 0)).toBe(0);
    }),
  );
});
