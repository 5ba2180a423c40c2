import type { Store } from "../../store/store.js";
import type { WorkerRegistration } from "./registration.js";

export interface LeaseHost {
  readonly leaseMs: number;
  /** The timer does not keep the process alive. */
  readonly background?: boolean;
  /** Done along with every renewal. */
  renewing?(): Promise<void>;
  /** Nothing is with this worker: it may take another number. */
  idle(): boolean;
  /** What it had is somebody else's, or may be: the store could not be reached for a whole lease. */
  lost(): void;
  /** Again, after that. */
  joined(): void;
  trouble(error: unknown): void;
}

/**
 * Keeps what a worker has claimed: renews at a third of its lease, and joins again when that came too late. While the event
 * loop is stuck, the store's heartbeat thread renews in its place.
 */
export class PacketLease {
  readonly #store: Store;
  readonly #registration: WorkerRegistration;
  readonly #host: LeaseHost;
  #held: { readonly alive: () => void; readonly release: () => void } | undefined;
  #cancel: () => void = () => {};
  #joining: Promise<void> | undefined;
  #lost = false;
  #stopped = false;

  constructor(store: Store, registration: WorkerRegistration, host: LeaseHost) {
    this.#store = store;
    this.#registration = registration;
    this.#host = host;
  }

  /** When it has joined. */
  start(): void {
    this.#hold();
    this.#schedule();
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
    this.#held?.release();
  }

  /**
   * `worker` is unknown: it was silent for too long, and has `lost` what it had; or it has left. Who finds that out second, by
   * a claim or by a renewal, must not take the new number from under what has been claimed with it.
   */
  async rejoin(worker: number, { lost }: { readonly lost: boolean }): Promise<void> {
    if (worker !== this.#registration.worker || this.#stopped) return;
    this.#joining ??= this.#join(lost).finally(() => {
      this.#joining = undefined;
    });
    await this.#joining;
  }

  /** What runs is told before, and the store refuses what it says. */
  async #join(lost: boolean): Promise<void> {
    if (lost) this.#host.lost();
    await this.#registration.join();
    this.#hold();
    this.#host.joined();
  }

  #hold(): void {
    this.#held?.release();
    this.#held = this.#stopped ? undefined : this.#store.holdWorker(this.#registration.worker, this.#host.leaseMs);
  }

  #schedule(): void {
    const { leaseMs, background = false } = this.#host;
    this.#cancel = this.#store.clock.after(Math.max(10, leaseMs / 3), () => void this.#renew(), background);
  }

  async #renew(): Promise<void> {
    const { worker } = this.#registration;
    try {
      await this.#host.renewing?.();
      if (!(await this.#registration.renew())) await this.rejoin(worker, { lost: true });
      else if (this.#registration.isNearlyUsedUp && this.#host.idle()) {
        await this.#registration.join();
        this.#hold();
      }
      this.#held?.alive();
      this.#lost = false;
    } catch (error) {
      if (this.#store.closed) return;
      this.#host.trouble(error);
      const sure = this.#registration.isSure(this.#store.clock.now());
      if (!sure && !this.#lost) this.#host.lost();
      this.#lost = !sure;
    }
    if (!this.#stopped) this.#schedule();
  }
}
