import { type ErrorFacts, LeaseLostError, OnceflowError } from "../../core/errors/errors.js";
import type { Renewed, RenewQuery } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import { sleep } from "../../core/work/clock.js";
import { LeaseKeeper } from "../../core/work/lease-keeper.js";
import { WorkerLease } from "../../core/work/worker-lease.js";
import type { Execution } from "../execute/execution.js";
import { releaseWithoutEntry } from "./release-without-entry.js";

/** How long a worker that stops waits for the store to remove its row. */
const leaveMsMax = 1000;
const leaseId = "runs";

interface LeaseHolder {
  readonly store: Store;
  readonly owner: string;
  readonly leaseMs: number;
  readonly stopped: boolean;
  troubled(what: string, times: number, error: unknown): void;
  /** What the worker's row in the store says. */
  readonly signOfLife: NonNullable<RenewQuery["signOfLife"]>;
  /** The store's time, and 0 while no answer of the store has told it: a run that is due at 0 is due at once. */
  knownNow(): number;
}

interface RunLeasesOptions {
  readonly live: ReadonlyMap<string, Execution>;
  /** Not in the store yet. */
  readonly isStarting: (id: string) => boolean;
  /** Here, or on its way back here. */
  readonly has: (id: string) => boolean;
  readonly fetchMail: (execution: Execution) => Promise<void>;
  /** Resolves when what was claimed is here. */
  readonly claimsOver: () => Promise<void>;
}

/**
 * Renews all runs of a worker in one write, which is also its sign of life in the list of workers, and learns from the answer which
 * runs are lost and which have mail.
 */
export class RunLeases {
  readonly #holder: LeaseHolder;
  readonly #options: RunLeasesOptions;
  readonly #heartbeat: { readonly alive: () => void; readonly release: () => void };
  readonly #keeper: LeaseKeeper;
  readonly #lease: WorkerLease;
  /** The runs that the last renewal was sent for. A run that was claimed after it has a lease of its own. */
  #held: readonly Execution[] = [];

  constructor(holder: LeaseHolder, options: RunLeasesOptions) {
    const { store, owner, leaseMs, signOfLife } = holder;
    this.#holder = holder;
    this.#options = options;
    this.#heartbeat = store.holdRuns({ owner, leaseMs, signOfLife });
    this.#keeper = new LeaseKeeper({ clock: store.clock, background: true });
    this.#lease = new WorkerLease(leaseMs, store.clock.now(), {
      renew: () => this.#renew(),
      onFailure: (error, isExpired) => this.#onFailure(error, isExpired),
    });
    this.#keeper.keep(leaseId, this.#lease);
  }

  /** Renews at once; if a renewal is under way, once more after it. */
  renewNow(): void {
    this.#keeper.renewNow(leaseId);
  }

  /** Stops renewing, and removes the worker from the list of workers. */
  async release(): Promise<void> {
    this.#keeper.stop();
    this.#heartbeat.release();
    // A store that does not answer must not keep the worker from its end: for a lease, the row says that the worker lives.
    await Promise.race([this.#leave(), sleep(this.#holder.store.clock, leaveMsMax)]);
  }

  async #leave(): Promise<void> {
    const { store, owner } = this.#holder;
    // A renewal that arrives after the row was removed would write the row again.
    await this.#lease.renewal;
    await store.runs.leave(owner).catch(() => {});
  }

  async #renew(): Promise<void> {
    const { store, owner, leaseMs, signOfLife, stopped } = this.#holder;
    const { live, isStarting } = this.#options;
    if (stopped && live.size === 0) return;
    this.#heartbeat.alive();
    const sentAt = store.clock.now();
    this.#held = [...live.values()].filter((execution) => !isStarting(execution.id));
    const renewed = await store.runs.renew({ owner, leaseMs, signOfLife });
    this.#check(new Map(renewed.map((each) => [each.id, each])), sentAt);
    void this.#giveBack(renewed.filter(({ id }) => !live.has(id)));
  }

  #check(renewed: ReadonlyMap<string, Renewed>, sentAt: number): void {
    const { live, fetchMail } = this.#options;
    for (const execution of this.#held) {
      const mine = renewed.get(execution.id);
      if (execution.gone || live.get(execution.id) !== execution) continue;
      if (mine?.epoch !== execution.epoch) {
        execution.lose(lostError(execution));
        continue;
      }
      execution.writer.confirmHeld(sentAt);
      if (mine.mail > execution.mailbox.heard) void fetchMail(execution);
    }
  }

  /**
   * When the lease has expired, other workers may take the runs over, so bodies should stop. The runs stay here: if no other
   * worker was faster when the store is back, the outcomes of the bodies count. A commit finds its place in the journal
   * taken, or it does not.
   */
  #onFailure(error: unknown, isExpired: boolean): void {
    this.#holder.troubled("renewing the leases of runs", this.#lease.failures, error);
    if (!isExpired) return;
    for (const execution of this.#held) execution.calls.abort(mayBeLostError(execution));
  }

  /**
   * Ours in the store and not here: the reply to a claim was lost, or we gave it up too early. What we may have sent for
   * it could still arrive, and be taken for what a second execution in the same epoch sends; so it is claimed anew.
   */
  async #giveBack(runs: readonly Renewed[]): Promise<void> {
    // Those may just be on their way to us.
    if (runs.length > 0) await this.#options.claimsOver();
    for (const { id, epoch } of runs) {
      if (this.#options.has(id)) continue;
      const then = { kind: "release", wakeAt: this.#holder.knownNow(), status: "running", trouble: null } as const;
      // Refused when it is ours no longer; when it fails, the next renewal finds it again.
      await this.#holder.store.commit({ run: releaseWithoutEntry(id, epoch, then) }).catch(() => {});
    }
  }
}

function lostError(execution: Execution): LeaseLostError {
  const why = "another worker has taken it over. Stop; what this body returns does not count.";
  return leaseLost(execution, `this worker lost run "${execution.id}": ${why}`);
}

function mayBeLostError(execution: Execution): LeaseLostError {
  const why = "the store could not be reached for a whole lease, and another worker may take it over.";
  const advice = "Stop; what this body returns counts only if no other worker is faster.";
  return leaseLost(execution, `this worker may have lost run "${execution.id}": ${why} ${advice}`);
}

/** Not by the constructor of its class, whose sentence is about the attempt of a key, and advises to call with that key again. */
function leaseLost({ id, epoch }: Execution, message: string): LeaseLostError {
  const facts: ErrorFacts = { code: "LEASE_LOST", retryable: true, scope: "", key: id, attempt: epoch };
  return Reflect.construct(OnceflowError, [message, facts], LeaseLostError) as LeaseLostError;
}
