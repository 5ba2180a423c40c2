import type { Clock } from "../../../core/work/clock.js";

/** Callers that wait until the worker has nothing to do. The worker calls `check` whenever something has ended. */
export class IdleWatch {
  readonly #isIdle: () => boolean;
  #waiting: (() => void)[] = [];

  constructor(isIdle: () => boolean) {
    this.#isIdle = isIdle;
  }

  wait(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.check();
    });
  }

  /** Resolves when the worker is idle, or after `ms`. */
  waitAtMost(clock: Clock, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = clock.after(ms, resolve);
      this.#waiting.push(() => {
        cancel();
        resolve();
      });
      this.check();
    });
  }

  check(): void {
    if (this.#waiting.length === 0 || !this.#isIdle()) return;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}
