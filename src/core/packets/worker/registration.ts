import type { Store } from "../../store/store.js";
import { storeStepMs } from "../../work/clock.js";
import { numbersPerWorker } from "../packet.js";

/**
 * A worker's registration in the store: its worker number, the lease of that number, and the range of numbers for
 * packets and executions that comes with it.
 *
 *   not registered  `worker` is 0: before the first `join`, and after `leave`
 *   sure            the lease is valid by this process's clock: no other worker can have taken over its packets
 *   unsure          the lease may have expired in the store; the next renewal tells
 */
export class WorkerRegistration {
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

  /** Whether no other worker can have taken over its packets. `now`: `clock.now()` of the store. */
  isSure(now: number): boolean {
    return now < this.#sureUntil;
  }

  /** Gets a new worker number under a new lease. Concurrent callers share one number: the lease of any other would lapse. */
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

  /** Gives the number up first, then tells the store: an answer that arrives in between is not taken for this worker's. */
  async leave(): Promise<void> {
    const worker = this.#worker;
    this.#worker = 0;
    await this.#store.packets.leave(worker);
  }

  /** Extends the lease. False: the store no longer knows the number. */
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

  /** The next number of this worker, for a packet or an execution. */
  readonly next = (): number => {
    this.#count += 1;
    return this.#worker * numbersPerWorker + this.#count;
  };

  /** Nearly all numbers of this worker are used: the worker should join again. */
  get isNearlyUsedUp(): boolean {
    return this.#count > numbersPerWorker - 1_000_000;
  }
}
