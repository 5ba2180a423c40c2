import { Lease } from "./lease-keeper.js";

interface WorkerLeasePorts {
  /** Throws when the store cannot do it now. */
  renew(): Promise<void>;
  /** `isExpired`: there was no renewal for a whole lease. */
  onFailure(error: unknown, isExpired: boolean): void;
}

const renewMsMin = 10;

/** The lease of a worker as a whole. It is renewed as long as the worker lives, also when it was lost. */
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
   * At the pace of renewals: three failures in a row are reported, and mean an outage, not one broken connection. Fewer tries than
   * an attempt's lease has are enough: when this lease expires, bodies get an aborted signal, and what they bring still counts
   * until the store has given their run or packet to another worker.
   */
  override retryMs(): number {
    return this.renewEveryMs;
  }
}
