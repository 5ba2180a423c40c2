import { type Backoff, backoffMs, fullJitter, jitteredMs } from "../../../core/work/backoff.js";
import { sleep, systemClock } from "../../../core/work/clock.js";
import { codeOf } from "../errors.js";

const triesMax = 20;
const conflictBackoff: Backoff = { minMs: 2, maxMs: 50 };

/** Retries a single statement after a serialization failure or deadlock: nothing was written then. */
export async function sentAgain<T>(send: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await send();
    } catch (error) {
      if (tries === triesMax || !/^(40001|40P01)$/.test(codeOf(error))) throw error;
      // With jitter: two statements that collided would otherwise collide again.
      await sleep(systemClock, jitteredMs(backoffMs(conflictBackoff, tries), fullJitter, Math.random));
    }
  }
}
