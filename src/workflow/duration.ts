import { InvalidInputError } from "../core/errors.js";

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const form = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*$/;

/** When a duration ("10s", milliseconds) from `now`, or a date, is. */
export function instantOf(field: string, when: unknown, now: number): number {
  if (when instanceof Date && !Number.isNaN(when.getTime())) return when.getTime();
  if (typeof when === "number" && Number.isFinite(when) && when >= 0) return now + when;
  const [, amount, unit] = (typeof when === "string" && form.exec(when)) || [];
  if (amount !== undefined && unit !== undefined) return now + Number(amount) * (units[unit] ?? 0);
  throw new InvalidInputError(
    field,
    `must be milliseconds, a duration such as "500ms", "10s", "5m", "2h", "1d", or a Date, not ${String(when)}`,
  );
}
