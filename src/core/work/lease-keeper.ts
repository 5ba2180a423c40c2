import { backoffMs, storeBackoff } from "./backoff.js";
import { type Clock, storeStepMs } from "./clock.js";

/** A lease that this process holds in the store: what to renew, and what its loss means. */
export abstract class Lease {
  readonly leaseMs: number;
  readonly renewEveryMs: number;
  /** When the next renewal is due, by this process's clock. */
  renewAt: number;
  /** From this time on, by this process's clock, the lease may have expired in the store. */
  expiresAt: number;
  /** Failed renewals in a row. */
  failures = 0;
  /** The renewal that is in progress. */
  renewal: Promise<void> | undefined;
  /** Another renewal was requested while one was in progress. */
  isRequested = false;

  /** `sentAt`: when the lease was requested. In the store it began later, never earlier. */
  constructor(leaseMs: number, sentAt: number, renewEveryMs = leaseMs / 3) {
    this.leaseMs = leaseMs;
    this.renewEveryMs = renewEveryMs;
    this.renewAt = sentAt + renewEveryMs;
    this.expiresAt = expiryOf(leaseMs, sentAt);
  }

  /** Renews the lease in the store. Returns false if another owner has it. Throws if the store cannot renew now. */
  abstract renew(): Promise<boolean>;

  /** Called when `renew` has returned false. */
  abstract onTaken(): void;

  /** Called when `renew` has thrown; it will be retried. `isExpired`: there was no renewal for the length of the lease. */
  abstract onFailure(error: unknown, isExpired: boolean): void;

  /**
   * Delay after a failed renewal. It is shorter than the regular interval, which would allow only two tries per lease:
   * an attempt whose lease expires stops, and its outcome may stay unknown. WorkerLease keeps the regular interval.
   */
  retryMs(): number {
    return backoffMs(storeBackoff, this.failures);
  }
}

interface LeaseKeeperOptions {
  readonly clock: Clock;
  /** The timer does not keep the process alive. */
  readonly background: boolean;
  /** Called at every beat of the timer: shows that the event loop runs. */
  readonly onBeat?: () => void;
}

/**
 * Renews any number of leases with one timer: each after a third of its length, and after a failure when `retryMs` of the lease says.
 *
 * While the event loop is blocked the timer does not fire, and the store's heartbeat thread renews instead.
 */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions;
  readonly #leases = new Map<string, Lease>();
  #cancelTimer: () => void = () => {};
  #beatAt = Number.POSITIVE_INFINITY;

  constructor(options: LeaseKeeperOptions) {
    this.#options = options;
  }

  keep(id: string, lease: Lease): void {
    this.#leases.set(id, lease);
    this.#beatBy(lease.renewAt);
  }

  /** Stops renewing a lease. Returns false if there was no such lease. */
  drop(id: string): boolean {
    return this.#leases.delete(id);
  }

  /** Renews at once. If a renewal is in progress, another one follows it. */
  renewNow(id: string): void {
    const lease = this.#leases.get(id);
    if (lease === undefined) return;
    if (lease.renewal === undefined) this.#start(id, lease);
    else lease.isRequested = true;
  }

  /**
   * Sends overdue renewals now. After the event loop was blocked, this must happen before any operation that could take over these
   * leases.
   */
  catchUp(): void {
    if (this.#options.clock.now() >= this.#beatAt) this.#beat();
  }

  stop(): void {
    this.#cancelTimer();
    this.#leases.clear();
  }

  #beatBy(at: number): void {
    if (at >= this.#beatAt) return;
    const { clock, background } = this.#options;
    this.#cancelTimer();
    this.#beatAt = at;
    this.#cancelTimer = clock.after(Math.max(0, at - clock.now()), () => this.#beat(), background);
  }

  #beat(): void {
    const { clock, onBeat } = this.#options;
    this.#cancelTimer();
    this.#beatAt = Number.POSITIVE_INFINITY;
    onBeat?.();
    const now = clock.now();
    let next = Number.POSITIVE_INFINITY;
    for (const [id, lease] of this.#leases) {
      if (now >= lease.renewAt) {
        if (lease.renewal === undefined) this.#start(id, lease);
        else lease.renewAt = now + lease.renewEveryMs;
      }
      next = Math.min(next, lease.renewAt);
    }
    if (next < Number.POSITIVE_INFINITY) this.#beatBy(next);
  }

  #start(id: string, lease: Lease): void {
    const sentAt = this.#options.clock.now();
    lease.renewAt = sentAt + lease.renewEveryMs;
    lease.isRequested = false;
    lease.renewal = this.#renew(id, lease, sentAt);
  }

  async #renew(id: string, lease: Lease, sentAt: number): Promise<void> {
    const { clock } = this.#options;
    // If the lease was dropped during the renewal, the answer does not mean that it was lost.
    const isKept = () => this.#leases.get(id) === lease;
    try {
      const isRenewed = await lease.renew();
      lease.failures = 0;
      if (isRenewed) lease.expiresAt = expiryOf(lease.leaseMs, sentAt);
      else if (isKept()) lease.onTaken();
      if (lease.isRequested) lease.renewAt = clock.now();
    } catch (error) {
      if (isKept()) {
        lease.failures += 1;
        lease.onFailure(error, clock.now() >= lease.expiresAt);
        lease.renewAt = Math.min(lease.renewAt, clock.now() + lease.retryMs());
      }
    } finally {
      lease.renewal = undefined;
    }
    if (isKept()) this.#beatBy(lease.renewAt);
  }
}

/** Stores count in whole milliseconds: a lease may be one millisecond shorter there. */
function expiryOf(leaseMs: number, sentAt: number): number {
  return sentAt + leaseMs - storeStepMs;
}
