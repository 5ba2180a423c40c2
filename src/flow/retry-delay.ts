import { backoffMs, fullJitter, jitteredMs } from "../core/work/backoff.js";
import type { Step } from "./definition.js";

/** Delay after the failed attempt number `attempt` (from 1). `random` returns a number from 0 to 1. */
export function retryDelayMs(
  { retryDelayMs: minMs, backoffFactor: growth, jitter, maxRetryDelayMs: maxMs }: Omit<Step["options"], "retries" | "graceMs">,
  attempt: number,
  random: () => number,
): number {
  const delayMs = backoffMs({ minMs, maxMs, growth }, attempt);
  // Documented behaviour: a random time from zero to the whole delay, rounded down.
  return jitter ? Math.floor(jitteredMs(delayMs, fullJitter, random)) : delayMs;
}
