import type { Step } from "./definition.js";

/** How long to wait after attempt number `attempt`, from 1, has failed. `random`: from 0 to 1. */
export function retryDelayMs(
  { retryDelayMs: delayMs, backoffFactor, jitter, maxRetryDelayMs }: Omit<Step["options"], "retries" | "graceMs">,
  attempt: number,
  random: () => number,
): number {
  const factor = backoffFactor === "fixed" ? 1 : backoffFactor === "linear" ? attempt : 2 ** (attempt - 1);
  // Nothing times a factor beyond all bounds is still nothing.
  const whole = delayMs === 0 ? 0 : Math.min(delayMs * factor, maxRetryDelayMs);
  return jitter ? Math.floor(random() * whole) : whole;
}
