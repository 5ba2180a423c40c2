import type { Store } from "../../store/store.js";
import { storeStepMs } from "../../work/clock.js";
import { numbersPerWorker } from "../packet.js";

/**
 * A worker's registration in the store: its worker number, the lease of that number, and the range of numbers for
 * packets and executions that comes with it.
 *
 *   not registered  `worker` is 0: before the first `join`, and after `leave`
 *   sure            the lease is valid by this process's clock: no other worker can have taken over its packets
 *   unsure          the lease may have expired in the store; the next renewal answers that
 */
export class WorkerRegistration {
  readonly #store: Store;
  readonly #leaseMs: number;
  #worker = 0;
  #count = 0;
  /**
   * Counted from the time of the request, so the lease in the store ends later than this, never earlier. The store counts in whole
   * milliseconds, rounded down, so its lease may be one millisecond shorter than requested.
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

  /** Gets a new worker number with a new lease. Concurrent callers share one number: the lease of a second one would not be renewed. */
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

  /** Gives up the number first and then calls the store: an answer that arrives in between must not be attributed to this worker. */
  async leave(): Promise<void> {
    const worker = this.#worker;
    this.#worker = 0;
    await this.#store.packets.leave(worker);
  }

  /** Extends the lease. Returns false if the store no longer knows the number. */
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
