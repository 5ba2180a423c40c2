import { describe } from "../journal/describe.js";
import type { Delivery } from "../journal/event.js";

/**
 * Gives deliveries to what the code waits for, and keeps the code's clock: the time of the last delivery, which stands still
 * in between and is the same at every replay. Without I/O, as the replay is: where a delivery comes from does not matter here.
 */
export class Answers {
  readonly #handlers = new Map<string, (delivery: Delivery) => void>();
  #codeClock: number;
  #unreadable: string | undefined;

  constructor(startedAt: number) {
    this.#codeClock = startedAt;
  }

  /** Deliveries about this id go to this handler. */
  on(id: string, handler: (delivery: Delivery) => void): void {
    this.#handlers.set(id, handler);
  }

  /** False: nothing in the code waits for it. */
  give(delivery: Delivery): boolean {
    const handler = this.#handlers.get(delivery.id);
    if (handler === undefined) return false;
    this.#codeClock = Math.max(this.#codeClock, delivery.at);
    try {
      handler(delivery);
    } catch (error) {
      this.#unreadable = `${describe(delivery)} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    }
    return true;
  }

  get codeClock(): number {
    return this.#codeClock;
  }

  /** Why the code cannot be given its last delivery: a class or step in it is not defined in this process, say. */
  get unreadable(): string | undefined {
    return this.#unreadable;
  }
}
