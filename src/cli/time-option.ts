import { InvalidArgumentError } from "commander";
import { instantOf } from "../workflow/define/duration.js";

/** An option parser for Commander: a duration such as `15m`, in ms. */
export function durationMs(text: string): number {
  try {
    return instantOf("duration", text, 0);
  } catch {
    throw new InvalidArgumentError('Expected a duration, such as 30s, 15m, 2h or "7 days".');
  }
}

const instant = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/;

/** An option parser for Commander: a time such as `2026-11-19T08:00Z`, in the zone of this process if it names none; or how long ago: `2h`. */
export function timeOption(text: string): Date {
  const at = instant.test(text) ? new Date(text.length === 10 ? `${text}T00:00` : text.replace(" ", "T")) : ago(text);
  if (at !== undefined && !Number.isNaN(at.getTime())) return at;
  throw new InvalidArgumentError("Expected a time, such as 2026-11-19 or 2026-11-19T08:00Z, or how long ago, such as 2h or 7d.");
}

function ago(text: string): Date | undefined {
  if (/^[\d.]+$/.test(text)) return undefined;
  try {
    return new Date(Date.now() - instantOf("time", text, 0));
  } catch {
    return undefined;
  }
}
