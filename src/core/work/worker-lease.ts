import { Lease } from "./lease-keeper.js";

interface WorkerLeasePorts {
  /** Throws if the store cannot renew now. */
  renew(): Promise<void>;
  /** `isExpired`: there was no renewal for the length of the lease. */
  onFailure(error: unknown, isExpired: boolean): void;
}

const renewMsMin = 10;

/** The one lease of a worker. It is renewed as long as the worker runs, even after it was lost. */
export class WorkerLease extends Lease {
  readonly #ports: WorkerLeasePorts;

  constructor(leaseMs: number, sentAt: number, ports: WorkerLeasePorts) {
    super(leaseMs, sentAt, Math.max(renewMsMin, leaseMs / 3));
    this.#ports = ports;
  }

  async renew(): Promise<boolean> {
    await this.#ports.renew();
    return true;
  }

  onTaken(): void {}

  onFailure(error: unknown, isExpired: boolean): void {
    this.#ports.onFailure(error, isExpired);
  }

  /**
   * Retries at the regular pace, so that the three failures in a row after which a warning is emitted mean an outage, not one broken
   * connection. Fewer tries than for an attempt's lease are enough: when this lease expires, step bodies get an aborted signal, but their
   * results still count until the store has given their run or packet to another worker.
   */
  override retryMs(): number {
    return this.renewEveryMs;
  }
}
