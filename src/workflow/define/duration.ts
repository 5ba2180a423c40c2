import { InvalidInputError } from "../../core/errors/errors.js";

const [second, minute, hour, day] = [1000, 60_000, 3_600_000, 86_400_000];

/** The units of the package `ms`, which existing code uses. A year has 365.25 days. */
const units: readonly (readonly [names: string, ms: number])[] = [
  ["ms msec msecs millisecond milliseconds", 1],
  ["s sec secs second seconds", second],
  ["m min mins minute minutes", minute],
  ["h hr hrs hour hours", hour],
  ["d day days", day],
  ["w week weeks", 7 * day],
  ["y yr yrs year years", 365.25 * day],
];
const msOf = new Map(units.flatMap(([names, ms]) => names.split(" ").map((name) => [name, ms] as const)));
const form = /^\s*(\d*\.?\d+)\s*([a-z]*)\s*$/i;
const textMax = 100;

/** The instant, in ms, of a date, or of a duration ("10s", "7 days", milliseconds) after `now`. Throws InvalidInputError. */
export function instantOf(field: string, when: unknown, now: number): number {
  if (when instanceof Date && !Number.isNaN(when.getTime())) return when.getTime();
  if (typeof when === "number" && Number.isFinite(when) && when >= 0) return now + when;
  const [, amount, unit = ""] = (typeof when === "string" && when.length <= textMax && form.exec(when)) || [];
  const unitMs = msOf.get(unit.toLowerCase() || "ms");
  if (amount !== undefined && unitMs !== undefined) return now + Number(amount) * unitMs;
  throw new InvalidInputError(
    field,
    `must be milliseconds, a duration such as "500ms", "10s", "5 minutes", "2h", "7 days", or a Date, not ${String(when)}`,
  );
}
