import { numbersPerWorker } from "../../core/packet.js";
import type { Store } from "../../core/store.js";

/**
 * A worker's number in the store, and the numbers of packets that it may give.
 *
 * A reply that is lost may hide packets that this process has and does not know of: nobody would deliver them as long as
 * its lease is renewed. So its number is retired: a new one is taken, and the old one is left, with all that it still has,
 * when the deliveries that are under way by it have ended.
 */
export class Numbers {
  readonly #store: Store;
  readonly #leaseMs: number;
  /** How many packets are with this process by each number, or may be on their way. */
  readonly #having = new Map<number, number>();
  readonly #retired = new Set<number>();
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

  began(worker: number): void {
    this.#having.set(worker, (this.#having.get(worker) ?? 0) + 1);
  }

  ended(worker: number): void {
    const left = (this.#having.get(worker) ?? 0) - 1;
    if (left > 0) this.#having.set(worker, left);
    else this.#having.delete(worker);
    // What fails is done by the next renewal.
    if (left <= 0 && this.#retired.has(worker)) void this.#leave(worker).catch(() => {});
  }

  async retire(): Promise<void> {
    const worker = this.#worker;
    await this.join();
    this.#retired.add(worker);
    if (!this.#having.has(worker)) await this.#leave(worker);
  }

  /** False: somebody has taken over what the present number had. */
  async renew(): Promise<boolean> {
    for (const worker of this.#retired) {
      if (!this.#having.has(worker)) await this.#leave(worker);
      else if (!(await this.#store.packets.renew(worker, this.#leaseMs))) this.#retired.delete(worker);
    }
    return await this.#store.packets.renew(this.#worker, this.#leaseMs);
  }

  /** Hands back what was not begun. */
  async leave(): Promise<void> {
    for (const worker of [...this.#retired, this.#worker]) if (!this.#having.has(worker)) await this.#leave(worker);
  }

  async #leave(worker: number): Promise<void> {
    await this.#store.packets.leave(worker);
    this.#retired.delete(worker);
  }
}
