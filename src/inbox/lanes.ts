import type { Clock } from "../core/work/clock.js";
import type { Handled } from "./handled.js";

/** A message in a lane. */
export interface Passing {
  /** The same for all its copies. */
  readonly id: string;
  readonly handle: () => Promise<Handled>;
  /** Whether it was handled before: its order does not matter any more. */
  readonly isOver: () => Promise<boolean>;
}

interface Head {
  readonly id: string;
  readonly until: number;
}

const headsMax = 10_000;

/**
 * Messages with the same order key go through one lane: one after the other, as they came. One that has to come again
 * holds those behind it back, until it has come, or for as long as it can be expected: who waits for ever for a message
 * that another process got would wait in vain.
 */
export class Lanes {
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #tails = new Map<string, Promise<unknown>>();
  readonly #heads = new Map<string, Head>();

  constructor(clock: Clock, leaseMs: number) {
    this.#clock = clock;
    this.#leaseMs = leaseMs;
  }

  async run(lane: string, passing: Passing): Promise<Handled> {
    const before = this.#tails.get(lane);
    const turn = (async () => {
      await before?.catch(() => {});
      return await this.#next(lane, passing);
    })();
    this.#tails.set(lane, turn);
    try {
      return await turn;
    } finally {
      if (this.#tails.get(lane) === turn) this.#tails.delete(lane);
    }
  }

  async #next(lane: string, { id, handle, isOver }: Passing): Promise<Handled> {
    const head = this.#heads.get(lane);
    const forMs = head === undefined || head.id === id ? 0 : head.until - this.#clock.now();
    // A copy of one that went before the head: whoever redelivers in order would deliver nothing else until it has passed.
    if (forMs > 0) return (await isOver()) ? await handle() : { status: "held", forMs: Math.ceil(forMs) };
    const handled = await handle().catch((error: unknown) => {
      // Whoever asked will not acknowledge it: it comes again.
      this.#expect(lane, id, 0);
      throw error;
    });
    if (handled.status === "retry") this.#expect(lane, id, handled.afterMs);
    else if (handled.status === "held") this.#expect(lane, id, handled.forMs);
    else this.#heads.delete(lane);
    return handled;
  }

  #expect(lane: string, id: string, inMs: number): void {
    // The newest last: beyond the bound the one that has waited longest is forgotten, and holds nobody back any more.
    this.#heads.delete(lane);
    this.#heads.set(lane, { id, until: this.#clock.now() + inMs + this.#leaseMs });
    const [oldest] = this.#heads.keys();
    if (this.#heads.size > headsMax && oldest !== undefined) this.#heads.delete(oldest);
  }
}
