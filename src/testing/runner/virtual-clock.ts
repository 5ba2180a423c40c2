import { setImmediate } from "node:timers";
import type { Clock } from "../../core/work/clock.js";
import { inContext } from "../simulator/world.js";

interface Timer {
  readonly at: number;
  readonly fn: () => void;
  /** How many timers, each set by the one before, led to this one since something last happened in the store. */
  generation: number;
}

/**
 * Who looks again and again without anything happening is passed over: three days have a quarter of a million looks.
 * The first looks are exact all the same, since a time-out and its grace, say, are such a chain too.
 */
const exactMax = 16;

/** Time that stands still until it is moved. Timers fire in their order, each together with all that follows from it. */
export class VirtualClock implements Clock {
  /** Something was asked for, or has happened. */
  onActivity: () => void = () => {};
  readonly #timers = new Set<Timer>();
  #nowMs = 0;
  #generation = 0;
  /** Turns that were asked for and have not come. */
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

  /** Until every promise that is ready has run, and every turn that was asked for has come. */
  async quiet(): Promise<void> {
    do await new Promise<void>((go) => void setImmediate(go));
    while (this.#turns > 0);
  }

  /** When the next timer is due that is not one look of many. */
  nextAt(): number | undefined {
    let next: number | undefined;
    for (const { at, generation } of this.#timers) if (generation <= exactMax && (next === undefined || at < next)) next = at;
    return next;
  }

  /** Fires what is due by then, of what there is now. Who moves from one `nextAt` to the next fires all in their order. */
  async moveTo(time: number): Promise<void> {
    this.#nowMs = Math.max(this.#nowMs, time);
    const due = [...this.#timers].filter(({ at }) => at <= this.#nowMs);
    for (const timer of due) {
      // One that fired before it may have cancelled it.
      if (!this.#timers.delete(timer)) continue;
      this.#generation = timer.generation + 1;
      timer.fn();
      await this.quiet();
    }
    this.#generation = 0;
  }

  /** Something has happened: every look may find it. */
  refresh(): void {
    for (const timer of this.#timers) timer.generation = 0;
  }

  clear(): void {
    this.#timers.clear();
    this.onActivity = () => {};
  }
}
