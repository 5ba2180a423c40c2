import { backoffMs, fullJitter, jitteredMs } from "../core/work/backoff.js";
import type { Step } from "./definition.js";

/** How long to wait after attempt number `attempt`, from 1, has failed. `random`: from 0 to 1. */
export function retryDelayMs(
  { retryDelayMs: minMs, backoffFactor: growth, jitter, maxRetryDelayMs: maxMs }: Omit<Step["options"], "retries" | "graceMs">,
  attempt: number,
  random: () => number,
): number {
  const delayMs = backoffMs({ minMs, maxMs, growth }, attempt);
  // The published dialect draws from zero to the whole delay, and rounds down.
  return jitter ? Math.floor(jitteredMs(delayMs, fullJitter, random)) : delayMs;
}
