import type { Numbers } from "./packet-numbers.js";
import type { Store } from "./store.js";

export interface LeaseHost {
  readonly leaseMs: number;
  /** Nothing is with this worker: it may take another number. */
  idle(): boolean;
  /** What it had is somebody else's, or may be: the store could not be reached for a whole lease. */
  lost(): void;
  /** Again, after that. */
  joined(): void;
  trouble(error: unknown): void;
}

/** Keeps what a worker has claimed: renews at a third of its lease, and joins again when that came too late. */
export class PacketLease {
  readonly #store: Store;
  readonly #numbers: Numbers;
  readonly #host: LeaseHost;
  #cancel: () => void = () => {};
  #joining: Promise<void> | undefined;
  #renewedAt = 0;
  #stopped = false;

  constructor(store: Store, numbers: Numbers, host: LeaseHost) {
    this.#store = store;
    this.#numbers = numbers;
    this.#host = host;
  }

  /** When it has joined. */
  start(): void {
    this.#renewedAt = this.#store.clock.now();
    this.#schedule();
  }

  #schedule(): void {
    this.#cancel = this.#store.clock.after(Math.max(10, this.#host.leaseMs / 3), () => void this.#renew());
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  /**
   * `worker` is unknown: it was silent for too long, and has `lost` what it had; or it has left. Who finds that out second, by
   * a claim or by a renewal, must not take the new number from under what has been claimed with it.
   */
  async rejoin(worker: number, { lost }: { readonly lost: boolean }): Promise<void> {
    if (worker !== this.#numbers.worker) return;
    this.#joining ??= this.#join(lost).finally(() => {
      this.#joining = undefined;
    });
    await this.#joining;
  }

  /** What runs is told before, and the store refuses what it says. */
  async #join(lost: boolean): Promise<void> {
    if (lost) this.#host.lost();
    await this.#numbers.join();
    this.#host.joined();
  }

  async #renew(): Promise<void> {
    const { worker } = this.#numbers;
    const asked = this.#store.clock.now();
    try {
      if (!(await this.#store.packets.renew(worker, this.#host.leaseMs))) await this.rejoin(worker, { lost: true });
      else if (this.#numbers.worn && this.#host.idle()) await this.#numbers.join();
      this.#renewedAt = asked;
    } catch (error) {
      if (this.#store.closed) return;
      this.#host.trouble(error);
      if (asked - this.#renewedAt > this.#host.leaseMs) this.#host.lost();
    }
    if (!this.#stopped) this.#schedule();
  }
}
