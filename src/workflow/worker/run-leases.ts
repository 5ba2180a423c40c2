import { type ErrorFacts, LeaseLostError, OnceflowError } from "../../core/errors/errors.js";
import { isHeard, publish } from "../../core/events/channels.js";
import type { Renewed, RenewQuery } from "../../core/runs/operation.js";
import type { Store } from "../../core/store/store.js";
import { sleep } from "../../core/work/clock.js";
import { LeaseKeeper } from "../../core/work/lease-keeper.js";
import { WorkerLease } from "../../core/work/worker-lease.js";
import type { Execution } from "../execute/execution.js";
import { OverdueStops } from "./overdue-stops.js";
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
  /** Content of the worker's row in the store. */
  readonly signOfLife: NonNullable<RenewQuery["signOfLife"]>;
  /** Time of the store, or 0 while it is not known: a run that is due at 0 is due immediately. */
  knownNow(): number;
}

interface RunLeasesOptions {
  readonly live: ReadonlyMap<string, Execution>;
  /** The run is not in the store yet. */
  readonly isStarting: (id: string) => boolean;
  /** The run is here, or is being loaded again. */
  readonly has: (id: string) => boolean;
  readonly fetchMail: (execution: Execution) => Promise<void>;
  /** Resolves when the runs of the claim in progress are adopted. */
  readonly claimsOver: () => Promise<void>;
}

/**
 * Renews the leases of all runs of a worker in one write, which is also its heartbeat in the list of workers. The answer shows
 * which runs are lost and which have mail.
 */
export class RunLeases {
  readonly #holder: LeaseHolder;
  readonly #options: RunLeasesOptions;
  readonly #heartbeat: { readonly alive: () => void; readonly release: () => void };
  readonly #keeper: LeaseKeeper;
  readonly #lease: WorkerLease;
  readonly #overdue: OverdueStops;
  /** The runs that the last renewal covered. A run that was claimed after it has the lease of its claim. */
  #held: readonly Execution[] = [];
  /** There was no renewal for the length of the lease, and the event says so. */
  #isExpired = false;

  constructor(holder: LeaseHolder, options: RunLeasesOptions) {
    const { store, owner, leaseMs, signOfLife } = holder;
    this.#holder = holder;
    this.#options = options;
    this.#overdue = new OverdueStops(store);
    this.#heartbeat = store.holdRuns({ owner, leaseMs, signOfLife });
    this.#keeper = new LeaseKeeper({ clock: store.clock, background: true });
    this.#lease = new WorkerLease(leaseMs, store.clock.now(), {
      renew: () => this.#renew(),
      onFailure: (error, isExpired) => this.#onFailure(error, isExpired),
    });
    this.#keeper.keep(leaseId, this.#lease);
  }

  /** Renews immediately; if a renewal is in progress, once more after it. */
  renewNow(): void {
    this.#keeper.renewNow(leaseId);
  }

  /** Stops renewing, and removes the worker from the list of workers. */
  async release(): Promise<void> {
    this.#keeper.stop();
    this.#heartbeat.release();
    // A store that does not answer must not block the worker's stop: the row then expires with its lease.
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
    this.#isExpired = false;
    this.#report("renewed");
    this.#overdue.look();
    this.#check(new Map(renewed.map((each) => [each.id, each])), sentAt);
    void this.#giveBack(renewed.filter(({ id }) => !live.has(id)));
  }

  #check(renewed: ReadonlyMap<string, Renewed>, sentAt: number): void {
    const { live, fetchMail } = this.#options;
    for (const execution of this.#held) {
      const mine = renewed.get(execution.id);
      if (execution.gone || live.get(execution.id) !== execution) continue;
      if (mine?.epoch !== execution.epoch || mine.creator !== execution.creator) {
        execution.lose(lostError(execution));
        this.#report("lost", execution.id);
        continue;
      }
      execution.writer.confirmHeld(sentAt);
      if (mine.mail > execution.mailbox.heard) void fetchMail(execution);
    }
  }

  #report(type: "renewed" | "lost", run?: string): void {
    const { store, owner: worker } = this.#holder;
    if (isHeard("lease")) publish("lease", { type, store: store.name, of: "runs", worker, run });
  }

  /**
   * When the lease has expired, other workers may take over the runs, so bodies should stop. The runs stay here: if no other
   * worker has claimed them when the store is reachable again, the outcomes of the bodies count. The fence of the commit, the
   * number of the next entry, decides.
   */
  #onFailure(error: unknown, isExpired: boolean): void {
    this.#holder.troubled("renewing the leases of runs", this.#lease.failures, error);
    if (!isExpired) return;
    if (!this.#isExpired) this.#report("lost");
    this.#isExpired = true;
    for (const execution of this.#held) execution.calls.abort(mayBeLostError(execution));
  }

  /**
   * Releases runs that this worker owns in the store but does not execute: the reply to a claim was lost, or the worker gave up
   * the run too early. A write that was sent before could still arrive and be mistaken for one of a second execution in the
   * same epoch; so the run must be claimed again, in a new epoch.
   */
  async #giveBack(runs: readonly Renewed[]): Promise<void> {
    // A claim in progress may be about to bring them.
    if (runs.length > 0) await this.#options.claimsOver();
    for (const run of runs) {
      if (this.#options.has(run.id)) continue;
      const then = { kind: "release", wakeAt: this.#holder.knownNow(), status: "running", trouble: null } as const;
      // Rejected if this worker no longer owns the run. If the write fails, the next renewal finds the run again.
      await this.#holder.store.commit({ run: releaseWithoutEntry(run, then) }).catch(() => {});
    }
  }
}

function lostError(execution: Execution): LeaseLostError {
  const why = "another worker has taken it over. Stop: the result of this body is ignored.";
  return leaseLost(execution, `this worker lost run "${execution.id}": ${why}`);
}

function mayBeLostError(execution: Execution): LeaseLostError {
  const why = "the store could not be reached for a whole lease, and another worker may take it over.";
  const advice = "Stop: the result of this body counts only if no other worker takes over the run first.";
  return leaseLost(execution, `this worker may have lost run "${execution.id}": ${why} ${advice}`);
}

/** Does not use the constructor of LeaseLostError, because its message is about the attempt of a key. */
function leaseLost({ id, epoch }: Execution, message: string): LeaseLostError {
  const facts: ErrorFacts = { code: "LEASE_LOST", retryable: true, scope: "", key: id, attempt: epoch };
  return Reflect.construct(OnceflowError, [message, facts], LeaseLostError) as LeaseLostError;
}
