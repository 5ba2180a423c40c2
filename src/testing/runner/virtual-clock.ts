import { setImmediate } from "node:timers";
import type { Clock } from "../../core/work/clock.js";
import { inContext } from "../simulator/world.js";

interface Timer {
  readonly at: number;
  readonly fn: () => void;
  /** Length of the chain of timers, each set by the one before, that led to this one since the store last changed. */
  generation: number;
}

/**
 * Poll loops that find nothing do not hold up time: three days have a quarter of a million polls. The first timers of a
 * chain fire exactly all the same, because a timeout followed by its grace period is such a chain, too.
 */
const exactMax = 16;

/** A clock that moves only by `moveTo`. Timers fire in order; everything that one timer causes happens before the next one fires. */
export class VirtualClock implements Clock {
  /** Called when a timer was set and when a turn has run. */
  onActivity: () => void = () => {};
  readonly #timers = new Set<Timer>();
  #nowMs = 0;
  #generation = 0;
  /** Number of `soon` callbacks that have not run yet. */
  #turns = 0;

  now(): number {
    return this.#nowMs;
  }

  soon(fn: () => void): void {
    this.#turns += 1;
    setImmediate(() => {
      this.#turns -= 1;
      fn();
      this.onActivity();
    });
  }

  after(ms: number, fn: () => void): () => void {
    const at = this.#nowMs + Math.max(0, Math.ceil(ms));
    const timer = { at, fn: inContext(fn), generation: this.#generation };
    this.#timers.add(timer);
    this.onActivity();
    return () => void this.#timers.delete(timer);
  }

  /** Waits until every promise that is ready has run, and every `soon` callback. */
  async quiet(): Promise<void> {
    do await new Promise<void>((go) => void setImmediate(go));
    while (this.#turns > 0);
  }

  /** When the next timer is due, without the timers of idle poll loops. */
  nextAt(): number | undefined {
    let next: number | undefined;
    for (const { at, generation } of this.#timers) if (generation <= exactMax && (next === undefined || at < next)) next = at;
    return next;
  }

  /** Fires the timers that exist now and are due by then. To fire all timers in order, move from one `nextAt` to the next. */
  async moveTo(time: number): Promise<void> {
    this.#nowMs = Math.max(this.#nowMs, time);
    const due = [...this.#timers].filter(({ at }) => at <= this.#nowMs);
    for (const timer of due) {
      // A timer that fired before may have cancelled this one.
      if (!this.#timers.delete(timer)) continue;
      this.#generation = timer.generation + 1;
      timer.fn();
      await this.quiet();
    }
    this.#generation = 0;
  }

  /** The store has changed: every poll may find the change, so no chain counts as idle. */
  refresh(): void {
    for (const timer of this.#timers) timer.generation = 0;
  }

  clear(): void {
    this.#timers.clear();
    this.onActivity = () => {};
  }
}
