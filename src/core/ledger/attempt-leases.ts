import type { HeartbeatThread, HeldLease } from "../store/store.js";
import type { Clock } from "../work/clock.js";
import { Lease, LeaseKeeper } from "../work/lease-keeper.js";
import type { Answer, Begin, Operation, Renew } from "./operation.js";

interface AttemptLeasesOptions {
  readonly clock: Clock;
  readonly submit: (operation: Renew) => Promise<Answer>;
  readonly heartbeatThread: HeartbeatThread | undefined;
}

/**
 * The leases of all attempts that this process runs on a store. Begins and settles are learned from the answers of the
 * store. A lease is lost when the store says so, or when the store could not be reached for a whole lease.
 */
export class AttemptLeases {
  readonly #heartbeatThread: HeartbeatThread | undefined;
  readonly #host: LeaseHost;
  readonly #keeper: LeaseKeeper;
  /** By owner. */
  readonly #watchers = new Map<string, (why: string) => void>();

  constructor({ clock, submit, heartbeatThread }: AttemptLeasesOptions) {
    this.#heartbeatThread = heartbeatThread;
    this.#host = { submit, lose: (owner, why) => this.#lose(owner, why) };
    this.#keeper = new LeaseKeeper({ clock, background: true, onBeat: () => heartbeatThread?.alive() });
  }

  /** Called with all answers of a flush, before any handler can start and block the event loop. */
  note(answered: readonly { readonly operation: Operation; readonly answer: Answer; readonly sentAt: number }[]): void {
    const begun: AttemptLease[] = [];
    const ended: string[] = [];
    for (const { operation, answer, sentAt } of answered) {
      if (operation.verb === "begin" && answer.kind === "started")
        begun.push(new AttemptLease(operation, answer.attempt, sentAt, this.#host));
      if (operation.verb === "settle" && this.#keeper.drop(operation.owner)) ended.push(operation.owner);
    }
    if (ended.length > 0) this.#heartbeatThread?.drop(ended);
    if (begun.length === 0) return;
    this.#heartbeatThread?.hold(begun);
    for (const lease of begun) this.#keeper.keep(lease.owner, lease);
  }

  catchUp(): void {
    this.#keeper.catchUp();
  }

  /** Calls `lost` once if the lease of `owner` is lost. Returns how to stop watching. */
  onLost(owner: string, lost: (why: string) => void): () => void {
    this.#watchers.set(owner, lost);
    return () => void this.#watchers.delete(owner);
  }

  /** Stops renewing. False: no lease of `owner` is held. */
  release(owner: string): boolean {
    if (!this.#keeper.drop(owner)) return false;
    this.#heartbeatThread?.drop([owner]);
    return true;
  }

  async close(): Promise<void> {
    this.#keeper.stop();
    await this.#heartbeatThread?.close();
  }

  #lose(owner: string, why: string): void {
    if (this.release(owner)) this.#watchers.get(owner)?.(why);
  }
}

interface LeaseHost {
  submit(operation: Renew): Promise<Answer>;
  lose(owner: string, why: string): void;
}

class AttemptLease extends Lease implements HeldLease {
  readonly scope: string;
  readonly key: string;
  readonly owner: string;
  readonly attempt: number;
  readonly #host: LeaseHost;
  #renew: Renew | undefined;

  constructor({ scope, key, owner, leaseMs }: Begin, attempt: number, sentAt: number, host: LeaseHost) {
    super(leaseMs, sentAt);
    this.scope = scope;
    this.key = key;
    this.owner = owner;
    this.attempt = attempt;
    this.#host = host;
  }

  async renew(): Promise<boolean> {
    const { scope, key, owner, attempt, leaseMs } = this;
    // The same object at every try: group commit knows by it what has failed alone.
    this.#renew ??= { verb: "renew", scope, key, owner, attempt, leaseMs };
    return (await this.#host.submit(this.#renew)).kind === "renewed";
  }

  onTaken(): void {
    this.#host.lose(this.owner, "it lapsed, and another attempt or a person took over");
  }

  onFailure(_: unknown, isExpired: boolean): void {
    if (isExpired) this.#host.lose(this.owner, "the store could not be reached for a whole lease");
  }
}
