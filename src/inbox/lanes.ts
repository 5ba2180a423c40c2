import type { Clock } from "../core/work/clock.js";
import type { Handled } from "./handled.js";

/** A message in a lane. */
export interface Passing {
  /** Equal for all copies of the message. */
  readonly id: string;
  readonly handle: () => Promise<Handled>;
  /** Whether the message was handled before, so that its order no longer matters. */
  readonly isOver: () => Promise<boolean>;
}

interface Head {
  readonly id: string;
  readonly until: number;
}

const headsMax = 10_000;

/**
 * Messages with the same order key share a lane and are handled one after the other, in order of arrival. A message to retry
 * holds later messages back until it is redelivered, or until its redelivery is overdue: another process may have received it.
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
    // A copy of a message that was handled before the head is let through: a broker that redelivers in order sends nothing else until then.
    if (forMs > 0) return (await isOver()) ? await handle() : { status: "held", forMs: Math.ceil(forMs) };
    const handled = await handle().catch((error: unknown) => {
      // The caller does not acknowledge the message, so the broker delivers it again.
      this.#expect(lane, id, 0);
      throw error;
    });
    if (handled.status === "retry") this.#expect(lane, id, handled.afterMs);
    else if (handled.status === "held") this.#expect(lane, id, handled.forMs);
    else this.#heads.delete(lane);
    return handled;
  }

  #expect(lane: string, id: string, inMs: number): void {
    // Newest last: beyond `headsMax` the oldest head is dropped and no longer holds messages back.
    this.#heads.delete(lane);
    this.#heads.set(lane, { id, until: this.#clock.now() + inMs + this.#leaseMs });
    const [oldest] = this.#heads.keys();
    if (this.#heads.size > headsMax && oldest !== undefined) this.#heads.delete(oldest);
  }
}
