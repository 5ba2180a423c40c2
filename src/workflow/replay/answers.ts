import { describe } from "../journal/describe.js";
import type { Delivery } from "../journal/event.js";

/**
 * Passes deliveries to the handlers of the requests that wait for them, and keeps the clock of the code: the time of the last
 * delivery, which stands still in between and is the same at every replay. Does no I/O; deliveries may come from the journal
 * or be live.
 */
export class Answers {
  readonly #handlers = new Map<string, (delivery: Delivery) => void>();
  #codeClock: number;
  #unreadable: string | undefined;

  constructor(startedAt: number) {
    this.#codeClock = startedAt;
  }

  /** Registers the handler for deliveries with this id. */
  on(id: string, handler: (delivery: Delivery) => void): void {
    this.#handlers.set(id, handler);
  }

  /** False if the code has not requested this delivery. */
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

  /** Why the last delivery could not be decoded: for example, it contains a class or step that is not defined in this process. */
  get unreadable(): string | undefined {
    return this.#unreadable;
  }
}
