import type { Clock } from "../../../core/work/clock.js";

/** Collects items until there are `size` of them, `waitMs` have passed since the first one, or `flush` is called. */
export class Gather<T> {
  readonly #clock: Clock;
  readonly #size: number;
  readonly #waitMs: number;
  readonly #go: (all: readonly T[]) => void;
  #all: T[] = [];
  #cancel: () => void = () => {};

  constructor(clock: Clock, size: number, waitMs: number, go: (all: readonly T[]) => void) {
    this.#clock = clock;
    this.#size = size;
    this.#waitMs = waitMs;
    this.#go = go;
  }

  get waiting(): number {
    return this.#all.length;
  }

  add(one: T): void {
    this.#all.push(one);
    if (this.#all.length >= this.#size) this.flush();
    else if (this.#all.length === 1) this.#cancel = this.#clock.after(this.#waitMs, () => this.flush());
  }

  flush(): void {
    this.#cancel();
    const all = this.#all;
    this.#all = [];
    if (all.length > 0) this.#go(all);
  }
}
