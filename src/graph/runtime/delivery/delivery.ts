import type { PacketRecord } from "../../../core/packets/packet.js";
import type { Clock } from "../../../core/work/clock.js";
import type { Route } from "../flows/route.js";
import { Attempt, leaseLost } from "./attempt.js";
import type { BatchCall } from "./batch.js";
import { decodePayload, type Payload } from "./payload.js";

/** The lease under which this worker has the packet. */
export interface DeliveryLease {
  readonly clock: Clock;
  /** Whether this worker still owns the packet. `true` at once while the lease certainly lasts; else the store is asked. */
  isOurs(packet: PacketRecord, now?: number): true | Promise<boolean>;
  /** The store's time (ms), never ahead of the store's clock. */
  readonly storeNow: number;
}

/** One attempt at a packet that this worker has claimed. */
export class Delivery extends Attempt {
  /** Unique in this process. A packet's own number is not: after a lost lease the same packet may be delivered here twice. */
  readonly no: number;
  declare readonly packet: PacketRecord;
  readonly batch: BatchCall | undefined;
  /** The nodes of the stage have returned: packets that it sends on may use its slot. */
  hasReturned = false;
  readonly #lease: DeliveryLease;
  /** The payload as this process sent it; undefined: it is decoded from the packet. */
  readonly #sentPayload: Payload | undefined;
  #startedAt = 0;

  constructor(
    lease: DeliveryLease,
    no: number,
    route: Route,
    packet: PacketRecord,
    sentPayload: Payload | undefined,
    batch: BatchCall | undefined,
  ) {
    super(route, packet);
    this.#lease = lease;
    this.no = no;
    this.#sentPayload = sentPayload;
    this.batch = batch;
  }

  get payload(): Payload {
    return this.#sentPayload ?? decodePayload(this.packet.payload);
  }

  /** Marks the delivery as started and returns the start time (store clock, ms). */
  start(): number {
    this.#startedAt = this.#lease.clock.now();
    return this.#startedAt;
  }

  get startedAt(): number {
    return this.#startedAt;
  }

  /** Time since `start`. */
  get ms(): number {
    return this.#lease.clock.now() - this.#startedAt;
  }

  override get storeNow(): number {
    return this.#lease.storeNow;
  }

  override get failures(): number {
    const { attempt, since, crashes } = this.packet;
    return attempt - since - crashes;
  }

  /** Stops a call that another worker may be making, too: this process stood still for longer than its lease. */
  override checkLease(now?: number): Promise<void> | undefined {
    if (this.isAborted) throw this.abortReason;
    const ours = this.#lease.isOurs(this.packet, now);
    return ours === true ? undefined : this.#waitForLease(ours);
  }

  async #waitForLease(ours: Promise<boolean>): Promise<void> {
    if (!(await ours)) throw leaseLost();
    // The question may have taken longer than the time limit of the delivery.
    if (this.isAborted) throw this.abortReason;
  }

  /** For a batch, which asks for each of its packets before it calls the node. */
  mayBeCalled(): true | Promise<boolean> {
    return this.isAborted ? Promise.resolve(false) : this.#lease.isOurs(this.packet);
  }
}
