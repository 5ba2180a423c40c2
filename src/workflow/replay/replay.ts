import type { Delivery, Request } from "../journal/event.js";

interface Journaled {
  readonly requests: Map<string, Request>;
  readonly deliveries: readonly Delivery[];
  readonly pausedFrom: number | undefined;
  readonly looseFrom: number | undefined;
  readonly renewals: ReadonlyMap<string, number>;
  readonly retries: number;
}

/**
 * The journal of a run, as answers to its code. Does no I/O and needs no timer, store or worker, so that a run, the replay
 * check and a test of a journal use the same code.
 *
 * Requests are found by id, each once; their order does not matter. Deliveries come in the order of the journal.
 */
export class Replay {
  readonly #requests: Map<string, Request>;
  readonly #deliveries: readonly Delivery[];
  readonly #looseFrom: number;
  /** How often requests were renewed by retries: see `renewedId`. */
  readonly renewals: ReadonlyMap<string, number>;
  /** How often the run was retried. */
  readonly retries: number;
  #pausedFrom: number;
  #delivered = 0;

  constructor({ requests, deliveries, pausedFrom, looseFrom, renewals, retries }: Journaled) {
    this.#pausedFrom = pausedFrom ?? Number.POSITIVE_INFINITY;
    this.#requests = requests;
    this.#deliveries = deliveries;
    this.#looseFrom = looseFrom ?? Number.POSITIVE_INFINITY;
    this.renewals = renewals;
    this.retries = retries;
  }

  /** The journal has this request, and the code has not made it again yet. */
  has(id: string): boolean {
    return this.#requests.has(id);
  }

  /** Returns the journaled request once; undefined if the journal does not have it, or it was already taken. */
  takeRequest(id: string): Request | undefined {
    const request = this.#requests.get(id);
    if (request !== undefined) this.#requests.delete(id);
    return request;
  }

  /** A journaled request that the code has not made again. */
  get openRequest(): Request | undefined {
    const [open] = this.#requests.values();
    return open;
  }

  /** Number of deliveries that the code has received. */
  get delivered(): number {
    return this.#delivered;
  }

  /** The next journaled delivery; undefined if the code has received all of them, or the run is paused before the next one. */
  get nextDelivery(): Delivery | undefined {
    return this.#delivered < this.#pausedFrom ? this.#deliveries[this.#delivered] : undefined;
  }

  /** The journaled delivery before which the code must not make a new request; undefined if it may. */
  get requiredDelivery(): Delivery | undefined {
    return this.#delivered < this.#looseFrom ? this.nextDelivery : undefined;
  }

  /** The run is resumed: the code gets what was recorded in the meantime. */
  resume(): void {
    this.#pausedFrom = Number.POSITIVE_INFINITY;
  }

  takeDelivery(): void {
    this.#delivered += 1;
  }
}
