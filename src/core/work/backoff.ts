/** How the delay between attempts grows. */
export interface Backoff {
  /** The delay after the first failure. */
  readonly minMs: number;
  readonly maxMs: number;
  /** Default: exponential. */
  readonly growth?: "fixed" | "linear" | "exponential";
  /** Exponential growth multiplies the delay by this after each failure. Default: 2. */
  readonly factor?: number;
}

/**
 * Backoff of store calls that are retried until they succeed: short enough to recover quickly, long enough not to overload a
 * failing server.
 */
export const storeBackoff: Backoff = { minMs: 20, maxMs: 1000 };

/** The delay after failure number `failures`, counted from 1. */
export function backoffMs({ minMs, maxMs, growth = "exponential", factor = 2 }: Backoff, failures: number): number {
  // Zero times a factor that has overflowed to Infinity would be NaN.
  if (minMs === 0) return 0;
  const times = growth === "fixed" ? 1 : growth === "linear" ? failures : factor ** (failures - 1);
  return Math.min(minMs * times, maxMs);
}

/** Which part of a delay is random: the result lies between `delayMs * from` and `delayMs * (from + width)`. */
export interface Jitter {
  readonly from: number;
  readonly width: number;
}

/** From zero to the whole delay: spreads callers that collided as far as possible. */
export const fullJitter: Jitter = { from: 0, width: 1 };

/** Draws once from `random`, which returns numbers from 0 to 1. */
export function jitteredMs(delayMs: number, { from, width }: Jitter, random: () => number): number {
  return delayMs * (from + width * random());
}
