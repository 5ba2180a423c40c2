import { expect, test } from "vitest";
import { InvalidInputError } from "../../core/errors/errors.js";
import { instantOf } from "./duration.js";

const day = 86_400_000;

test.each([
  ["7 days", 7 * day],
  ["1.5h", 5_400_000],
  ["2 weeks", 14 * day],
  ["1 Day", day],
  ["3 mins", 180_000],
  ["1 min", 60_000],
  ["10 hrs", 36_000_000],
  ["1 hr", 3_600_000],
  ["30 secs", 30_000],
  ["1 sec", 1000],
  ["100 msecs", 100],
  ["53 milliseconds", 53],
  ["17 msec", 17],
  ["1y", 365.25 * day],
  ["2 yrs", 730.5 * day],
  ["1 year", 365.25 * day],
  ["1w", 7 * day],
  [".5h", 1_800_000],
  ["100", 100],
  ["1S", 1000],
  ["  5m ", 300_000],
])("%s", (text, ms) => {
  expect(instantOf("sleep", text, 1000)).toBe(1000 + ms);
});

test.each(["", " ", "soon", "-1s", "1.", "1 parsec", "10 20", "1d 2h", `${"1".repeat(100)}s`, "__proto__", "1 constructor"])(
  'refuses "%s"',
  (text) => {
    expect(() => instantOf("sleep", text, 0)).toThrow(InvalidInputError);
  },
);
