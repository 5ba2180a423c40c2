import type { Clock } from "../../core/work/clock.js";

interface Timer {
  readonly at: number;
  readonly fn: () => void;
}

/** Turns of the event loop after which everything that a timer caused has ended, in a store without I/O. */
const turnsToRest = 6;

/** A clock that moves only by `pass`. Timers fire in order, and each gets a few turns of the event loop before the next one fires. */
export class ManualClock implements Clock {
  #nowMs = 0;
  #timers: Timer[] = [];

  now(): number {
    return this.#nowMs;
  }

  soon(fn: () => void): void {
    setImmediate(fn);
  }

  after(ms: number, fn: () => void): () => void {
    const timer = { at: this.#nowMs + Math.max(0, ms), fn };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  async pass(ms: number): Promise<void> {
    const until = this.#nowMs + ms;
    for (let due = this.#nextUntil(until); due !== undefined; due = this.#nextUntil(until)) {
      this.#timers = this.#timers.filter((other) => other !== due);
      this.#nowMs = Math.max(this.#nowMs, due.at);
      due.fn();
      await rest();
    }
    this.#nowMs = Math.max(this.#nowMs, until);
    await rest();
  }

  #nextUntil(until: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) if (timer.at <= until && (next === undefined || timer.at < next.at)) next = timer;
    return next;
  }
}

async function rest(): Promise<void> {
  for (let turn = 0; turn < turnsToRest; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}
