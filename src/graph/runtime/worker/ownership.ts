import type { PacketRecord } from "../../../core/packets/packet.js";
import type { PacketLease } from "../../../core/packets/worker/packet-lease.js";
import type { WorkerRegistration } from "../../../core/packets/worker/registration.js";
import type { Store } from "../../../core/store/store.js";
import type { Clock } from "../../../core/work/clock.js";
import { afterEffect } from "../../../core/work/until-answered.js";
import type { DeliveryLease } from "../delivery/delivery.js";

/**
 * Answers, before a node is called, whether this worker still owns a packet. It stops this double effect: the process stands
 * still for longer than its lease, another worker claims the packet and calls the node, and this process wakes up and calls
 * it, too. A process that stands still between the answer and the call cannot be stopped: the key of the effect has to.
 */
export class Ownership implements DeliveryLease {
  readonly clock: Clock;
  readonly #store: Store;
  readonly #registration: WorkerRegistration;
  readonly #lease: Pick<PacketLease, "rejoin">;
  #storeTime = { now: 0, at: 0 };

  constructor(store: Store, registration: WorkerRegistration, lease: Pick<PacketLease, "rejoin">) {
    this.clock = store.clock;
    this.#store = store;
    this.#registration = registration;
    this.#lease = lease;
  }

  /**
   * An answer of the store has arrived: its time was `now` when it was sent, so the estimate is never ahead of the store's clock. All
   * answers of a flush have the same time, and the first of them gives the best estimate.
   */
  noteStoreTime(now: number): void {
    if (now === this.#storeTime.now) return;
    this.#storeTime = { now, at: this.clock.now() };
  }

  get storeNow(): number {
    const { now, at } = this.#storeTime;
    return now + Math.max(0, this.clock.now() - at);
  }

  isOurs({ owner }: PacketRecord, now = this.clock.now()): true | Promise<boolean> {
    return (owner === this.#registration.worker && this.#registration.isSure(now)) || this.#ask(owner);
  }

  async #ask(owner: number | null): Promise<boolean> {
    while (owner === this.#registration.worker && !this.#registration.isSure(this.clock.now())) {
      const known = await afterEffect(this.#store, () => this.#registration.renew(), { what: "the lease of this worker's packets" });
      if (known) continue;
      await this.#lease.rejoin(owner, { lost: true });
      return false;
    }
    return owner === this.#registration.worker;
  }
}
