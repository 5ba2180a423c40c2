import type { Delivery, Request } from "../journal/event.js";

interface Journaled {
  readonly requests: Map<string, Request>;
  readonly deliveries: readonly Delivery[];
}

/**
 * What the journal of a run answers to its code. Without I/O: it knows no timer, store or worker, so that a run, the check of a
 * run and a test of a journal are answered alike.
 *
 * Requests are found by id, each once; their order does not count. Deliveries come in the order of the journal.
 */
export class Replay {
  readonly #requests: Map<string, Request>;
  readonly #deliveries: readonly Delivery[];
  #delivered = 0;

  constructor({ requests, deliveries }: Journaled) {
    this.#requests = requests;
    this.#deliveries = deliveries;
  }

  /** The journal has this request, and the code has not asked for it again yet. */
  has(id: string): boolean {
    return this.#requests.has(id);
  }

  /** The journaled request; undefined when the journal does not have it, or it was taken before. */
  takeRequest(id: string): Request | undefined {
    const request = this.#requests.get(id);
    if (request !== undefined) this.#requests.delete(id);
    return request;
  }

  /** A request that the code has not asked for again. */
  get openRequest(): Request | undefined {
    const [open] = this.#requests.values();
    return open;
  }

  /** What the code gets next. Undefined: it has got all that the journal has. */
  get nextDelivery(): Delivery | undefined {
    return this.#deliveries[this.#delivered];
  }

  takeDelivery(): void {
    this.#delivered += 1;
  }
}
