import { isHeard, publish } from "../../events/channels.js";
import type { Store } from "../../store/store.js";
import { LeaseKeeper } from "../../work/lease-keeper.js";
import { WorkerLease } from "../../work/worker-lease.js";
import type { WorkerRegistration } from "./registration.js";

export interface LeaseHost {
  readonly leaseMs: number;
  /** The timer does not keep the process alive. Default: false. */
  readonly background?: boolean;
  /** Called before every renewal. */
  beforeRenewal?(): Promise<void>;
  /** Whether the worker has no packets, so that it may change its number. */
  isIdle(): boolean;
  /** Called when another worker has, or may have, taken over the packets: the lease expired. */
  onLost(): void;
  /** Called when the worker has a new number after it lost the old one. */
  onRejoined(): void;
  reportTrouble(error: unknown): void;
}

const leaseId = "worker";

/**
 * The lease of a worker that claims packets. Renews it, and joins again under a new worker number if a renewal came too late.
 * While the event loop is blocked, the store's heartbeat thread renews instead.
 */
export class PacketLease {
  readonly #store: Store;
  readonly #registration: WorkerRegistration;
  readonly #host: LeaseHost;
  readonly #keeper: LeaseKeeper;
  #held: { readonly alive: () => void; readonly release: () => void } | undefined;
  #joining: Promise<void> | undefined;
  #isLost = false;
  #stopped = false;

  constructor(store: Store, registration: WorkerRegistration, host: LeaseHost) {
    this.#store = store;
    this.#registration = registration;
    this.#host = host;
    this.#keeper = new LeaseKeeper({ clock: store.clock, background: host.background ?? false });
  }

  /** Called when the worker has joined. */
  start(): void {
    this.#hold();
    const ports = { renew: () => this.#renew(), onFailure: (error: unknown) => this.#onFailure(error) };
    this.#keeper.keep(leaseId, new WorkerLease(this.#host.leaseMs, this.#store.clock.now(), ports));
  }

  stop(): void {
    this.#stopped = true;
    this.#keeper.stop();
    this.#held?.release();
  }

  /**
   * Joins again after the store answered that it does not know `worker`: its lease expired and it has `lost` its packets, or it has
   * left. A claim and a renewal may both get that answer; the second one must not replace the new number, under which packets may
   * already be claimed.
   */
  async rejoin(worker: number, { lost }: { readonly lost: boolean }): Promise<void> {
    if (worker !== this.#registration.worker || this.#stopped) return;
    this.#joining ??= this.#join(lost).finally(() => {
      this.#joining = undefined;
    });
    await this.#joining;
  }

  /** Aborts running work before the worker gets its new number: the store refuses what that work still settles. */
  async #join(lost: boolean): Promise<void> {
    if (lost) this.#lost();
    await this.#registration.join();
    this.#hold();
    this.#host.onRejoined();
  }

  #hold(): void {
    this.#held?.release();
    this.#held = this.#stopped ? undefined : this.#store.holdWorker(this.#registration.worker, this.#host.leaseMs);
  }

  async #renew(): Promise<void> {
    const { worker } = this.#registration;
    await this.#host.beforeRenewal?.();
    const isKnown = await this.#registration.renew();
    if (isKnown) this.#report("renewed");
    if (!isKnown) await this.rejoin(worker, { lost: true });
    else if (this.#registration.isNearlyUsedUp && this.#host.isIdle()) {
      await this.#registration.join();
      this.#hold();
    }
    this.#held?.alive();
    this.#isLost = false;
  }

  #lost(): void {
    this.#report("lost");
    this.#host.onLost();
  }

  #report(type: "renewed" | "lost"): void {
    const { worker } = this.#registration;
    if (isHeard("lease")) publish("lease", { type, store: this.#store.name, of: "packets", worker });
  }

  #onFailure(error: unknown): void {
    if (this.#store.closed) return void this.#keeper.stop();
    this.#host.reportTrouble(error);
    const isSure = this.#registration.isSure(this.#store.clock.now());
    if (!isSure && !this.#isLost) this.#lost();
    this.#isLost = !isSure;
  }
}
