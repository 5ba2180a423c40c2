import { expect, test } from "vitest";
import { backoffMs, fullJitter, jitteredMs, storeBackoff } from "./backoff.js";

const firstTen = Array.from({ length: 10 }, (_, i) => i + 1);

test("the delay doubles after each failure, up to its maximum", () => {
  expect(firstTen.map((failures) => backoffMs(storeBackoff, failures))).toEqual([20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000]);
});

test("growth can be linear, fixed, or of another factor", () => {
  const bounds = { minMs: 100, maxMs: 450 };
  expect(firstTen.map((failures) => backoffMs({ ...bounds, growth: "linear" }, failures)).slice(0, 6)).toEqual([
    100, 200, 300, 400, 450, 450,
  ]);
  expect(backoffMs({ ...bounds, growth: "fixed" }, 1000)).toBe(100);
  expect([1, 2, 3, 4].map((failures) => backoffMs({ ...bounds, factor: 1.5 }, failures))).toEqual([100, 150, 225, 337.5]);
});

test("any number of failures gives a finite delay: the maximum, or zero if the first delay is zero", () => {
  for (const failures of [60, 1025, 1_000_000, Number.MAX_SAFE_INTEGER]) {
    expect(backoffMs({ minMs: 1, maxMs: 5000 }, failures)).toBe(5000);
    expect(backoffMs({ minMs: 0, maxMs: 5000 }, failures)).toBe(0);
  }
});

test("jitter draws once, within its bounds", () => {
  let draws = 0;
  const drawing = (value: number) => () => {
    draws += 1;
    return value;
  };
  expect(jitteredMs(1000, fullJitter, drawing(0.25))).toBe(250);
  expect(jitteredMs(1000, { from: 0.5, width: 0.5 }, drawing(0))).toBe(500);
  expect(jitteredMs(1000, { from: 1, width: -0.5 }, drawing(0.5))).toBe(750);
  expect(draws).toBe(3);
});
