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

test("no delay is negative, longer than the cap, or not a number", () => {
  fc.assert(
    fc.property(options, attempt, random, (given, n, r) => {
      const ms = retryDelayMs(given, n, () => r);
      expect(ms).toBeGreaterThanOrEqual(0);
      expect(ms).toBeLessThanOrEqual(given.maxRetryDelayMs);
    }),
  );
});

test("without jitter: the delay, times one, times the try, or doubled at each attempt after the first, up to the cap", () => {
  fc.assert(
    fc.property(options, fc.integer({ min: 1, max: 20 }), (given, n) => {
      const factor = { fixed: 1, linear: n, exponential: 2 ** (n - 1) }[given.backoffFactor];
      const random = () => expect.unreachable("no jitter, no dice");
      expect(retryDelayMs({ ...given, jitter: false }, n, random)).toBe(Math.min(given.retryDelayMs * factor, given.maxRetryDelayMs));
    }),
  );
});

test("without jitter no delay is shorter than the one before it", () => {
  fc.assert(
    fc.property(options, attempt, (given, n) => {
      const at = (attempt: number) => retryDelayMs({ ...given, jitter: false }, attempt, () => 0);
      expect(at(n + 1)).toBeGreaterThanOrEqual(at(n));
    }),
  );
});

test("jitter is full: from nothing to the whole delay, in proportion to the dice", () => {
  fc.assert(
    fc.property(options, attempt, random, (given, n, r) => {
      const whole = retryDelayMs({ ...given, jitter: false }, n, () => 0);
      expect(retryDelayMs({ ...given, jitter: true }, n, () => r)).toBe(Math.floor(whole * r));
      expect(retryDelayMs({ ...given, jitter: true }, n, () => 0)).toBe(0);
    }),
  );
});
