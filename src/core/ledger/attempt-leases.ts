import { isHeard, publish } from "../events/channels.js";
import type { HeartbeatThread, HeldLease } from "../store/store.js";
import type { Clock } from "../work/clock.js";
import { Lease, LeaseKeeper } from "../work/lease-keeper.js";
import type { Answer, Begin, Operation, Renew } from "./operation.js";

interface AttemptLeasesOptions {
  /** Kind of store, for events. */
  readonly store: string;
  readonly clock: Clock;
  readonly submit: (operation: Renew) => Promise<Answer>;
  readonly heartbeatThread: HeartbeatThread | undefined;
}

/**
 * The leases of all attempts that this process runs on a store. They are added and removed by the store's answers to begins and
 * settles. A lease is lost if the store answers that it is stale, or if the store could not be reached for the length of the lease.
 */
export class AttemptLeases {
  readonly #heartbeatThread: HeartbeatThread | undefined;
  readonly #host: LeaseHost;
  readonly #keeper: LeaseKeeper;
  /** By owner. */
  readonly #watchers = new Map<string, (why: string) => void>();

  constructor({ store, clock, submit, heartbeatThread }: AttemptLeasesOptions) {
    this.#heartbeatThread = heartbeatThread;
    this.#host = { store, submit, lose: (owner, why) => this.#lose(owner, why) };
    this.#keeper = new LeaseKeeper({ clock, background: true, onBeat: () => heartbeatThread?.alive() });
  }

  /** Records the answers of a flush. Must be called before any handler can start and block the event loop. */
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

  /** Calls `lost` once if the lease of `owner` is lost. Returns a function that stops watching. */
  onLost(owner: string, lost: (why: string) => void): () => void {
    this.#watchers.set(owner, lost);
    return () => void this.#watchers.delete(owner);
  }

  /** Stops renewing. Returns false if no lease of `owner` is held. */
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
  readonly store: string;
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
    // The same object for every try: group commit recognizes by identity an operation that has failed alone.
    this.#renew ??= { verb: "renew", scope, key, owner, attempt, leaseMs };
    const isRenewed = (await this.#host.submit(this.#renew)).kind === "renewed";
    if (isRenewed) this.#report("renewed");
    return isRenewed;
  }

  onTaken(): void {
    this.#report("lost");
    this.#host.lose(this.owner, "it expired, and another attempt took over or the outcome was resolved by hand");
  }

  onFailure(_: unknown, isExpired: boolean): void {
    if (!isExpired) return;
    this.#report("lost");
    this.#host.lose(this.owner, "the store could not be reached until the lease expired");
  }

  #report(type: "renewed" | "lost"): void {
    const { scope, key, attempt } = this;
    if (isHeard("lease")) publish("lease", { type, store: this.#host.store, of: "key", scope, key, attempt });
  }
}
