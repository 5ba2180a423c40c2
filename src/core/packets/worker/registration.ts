import type { Store } from "../../store/store.js";
import { storeStepMs } from "../../work/clock.js";
import { numbersPerWorker } from "../packet.js";

/** A worker's number in the store, its lease, and the numbers of packets that it may give. */
export class Numbers {
  readonly #store: Store;
  readonly #leaseMs: number;
  #worker = 0;
  #count = 0;
  /**
   * Counted from when it was asked for: the store's own lease ends later than this, never earlier. It counts in whole
   * milliseconds, rounded down, so its lease may be one shorter than what was asked for.
   */
  #sureUntil = 0;
  #joining: Promise<void> | undefined;
  #renewing: Promise<boolean> | undefined;

  constructor(store: Store, leaseMs: number) {
    this.#store = store;
    this.#leaseMs = leaseMs;
  }

  get worker(): number {
    return this.#worker;
  }

  /** Nobody can have taken over what this worker has. `now`: by the store's clock in this process. */
  isSure(now: number): boolean {
    return now < this.#sureUntil;
  }

  /** A new number, under a new lease. Asked for by several at once, it is one number: what the others got would lapse. */
  join(): Promise<void> {
    this.#joining ??= this.#join().finally(() => {
      this.#joining = undefined;
    });
    return this.#joining;
  }

  async #join(): Promise<void> {
    const asked = this.#store.clock.now();
    this.#worker = await this.#store.packets.join({ leaseMs: this.#leaseMs });
    this.#count = 0;
    this.#sureUntil = asked + this.#leaseMs - storeStepMs;
  }

  /** From here on nothing is this worker's, also what the store says later. */
  async leave(): Promise<void> {
    const worker = this.#worker;
    this.#worker = 0;
    await this.#store.packets.leave(worker);
  }

  /** False: this number is not known any more. */
  renew(): Promise<boolean> {
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  async #renew(): Promise<boolean> {
    const { clock, packets } = this.#store;
    const asked = clock.now();
    const worker = this.#worker;
    const known = await packets.renew(worker, this.#leaseMs);
    if (worker !== this.#worker) return true;
    if (known) this.#sureUntil = asked + this.#leaseMs - storeStepMs;
    return known;
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
