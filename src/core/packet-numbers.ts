import { numbersPerWorker } from "./packet.js";
import type { Store } from "./store.js";

/** A worker's number in the store, and the numbers of packets that it may give. */
export class Numbers {
  readonly #store: Store;
  readonly #leaseMs: number;
  #worker = 0;
  #count = 0;

  constructor(store: Store, leaseMs: number) {
    this.#store = store;
    this.#leaseMs = leaseMs;
  }

  get worker(): number {
    return this.#worker;
  }

  /** A new number, under a new lease. */
  async join(): Promise<void> {
    this.#worker = await this.#store.packets.join({ leaseMs: this.#leaseMs });
    this.#count = 0;
  }

  next = (): number => {
    this.#count += 1;
    return this.#worker * numbersPerWorker + this.#count;
  };

  /** Nearly all numbers are given: time to join again. */
  get worn(): boolean {
    return this.#count > numbersPerWorker - 1_000_000;
  }
}
