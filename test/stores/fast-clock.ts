import type { Clock } from "../../src/core/work/clock.js";

/** A clock that runs `times` as fast as the real one: a wait of a minute takes a second, while servers keep their own time. */
export function fastClock(times: number): Clock {
  return {
    now: () => performance.now() * times,
    soon: (fn) => void setImmediate(fn),
    after(ms, fn, background = false) {
      const timer = setTimeout(fn, Math.min(ms / times, 2 ** 31 - 1));
      if (background) timer.unref();
      return () => clearTimeout(timer);
    },
  };
}
