import type { Claimed, Entry, Trial } from "../../core/runs/operation.js";
import type { Execution } from "../execute/execution.js";
import type { Host, HostedRun } from "../execute/host.js";
import { warnParked } from "../execute/parking/warn-parked.js";
import { aloneMs } from "../execute/trial.js";
import { encodeEvents } from "../journal/codec.js";
import { recordAccepted } from "../journal/ends/after-end.js";
import { History } from "../journal/history/history.js";
import { type CrashLimit, crashLimitOf } from "../steps/crash-limit.js";
import { parkedEntry } from "./park-crashed.js";
import { releaseWithoutEntry } from "./release-without-entry.js";

/** The worker that executes suspects. */
interface QuarantineHost {
  readonly host: Host;
  readonly live: ReadonlyMap<string, Execution>;
  adopt(claimed: Claimed, heldAt: number): Promise<void>;
  /** Called when the worker may claim runs again. */
  onFree(): void;
}

interface Waiting {
  readonly claimed: Claimed;
  readonly heldAt: number;
  /** It is certain that the run is not parked. */
  mayBegin: boolean;
}

/** Delay, in leases, until a suspect is due again if the worker's other runs did not leave in time. */
const retryLeases = 6;

/**
 * Executes one suspect at a time, and no other run beside it. A suspect is a run that was in memory when two consecutive owners
 * died, and that may have crashed them. If it crashes this process, too, no other run is affected, and the crash is counted for
 * the suspect.
 *
 * free: there is no suspect. draining: a suspect is claimed and waits until the other runs have left: running steps may finish,
 * then their runs are released. alone: the suspect is executed. free again: it was cleared, or has left.
 */
export class Quarantine {
  readonly #worker: QuarantineHost;
  #waiting: Waiting | undefined;
  /** The suspect that is executed alone. `execution` is undefined while the claim entry is being written. */
  #alone: { readonly id: string; execution: Execution | undefined } | undefined;
  /** Resolves when the claim entry of a suspect is written and its execution has started. */
  #beginning: Promise<void> | undefined;
  /** The worker stops: a claim entry that the store has not answered is given up. The lease expires, and another worker claims the run. */
  #stopping = false;
  #triedAt = Number.NEGATIVE_INFINITY;
  #cancelTimer: () => void = () => {};

  constructor(worker: QuarantineHost) {
    this.#worker = worker;
  }

  /** There is a suspect: the worker takes no other run. */
  get active(): boolean {
    return this.#waiting !== undefined || this.#alone !== undefined;
  }

  /** A suspect has not started yet, so the worker is not idle. */
  get busy(): boolean {
    return this.#waiting !== undefined || (this.#alone !== undefined && this.#alone.execution === undefined);
  }

  /** Whether this run is the suspect, waiting or executed. */
  holds(id: string): boolean {
    return this.#waiting?.claimed.run.id === id || this.#alone?.id === id;
  }

  /** Whether the next claim may bring a suspect: always if the worker has no run, otherwise once per lease. */
  get open(): boolean {
    const { host, live } = this.#worker;
    return !this.active && (live.size === 0 || host.store.clock.now() - this.#triedAt >= host.leaseMs);
  }

  /** Admits a suspect. `others` came with the same claim; they have not started and are released immediately. */
  async admit(claimed: Claimed, others: readonly Claimed[], heldAt: number): Promise<void> {
    const { host, live } = this.#worker;
    this.#triedAt = host.store.clock.now();
    if (this.active) return await this.#giveBack([claimed, ...others]);
    this.#waiting = { claimed, heldAt, mayBegin: false };
    await this.#giveBack(others);
    if (await this.#isParked(claimed)) return this.#free();
    // Not before: a run that leaves while the parking is being written would start the suspect, and two writers would share one epoch.
    if (this.#waiting !== undefined) this.#waiting.mayBegin = true;
    for (const execution of live.values()) execution.release.request();
    this.#after(host.leaseMs, () => void this.#giveUp());
    this.#beginWhenEmpty();
  }

  /** A run has left the worker. */
  noteLeft(execution: HostedRun): void {
    if (this.#alone?.execution === execution) this.#free();
    else this.#beginWhenEmpty();
  }

  /** The worker stops. A suspect that has not started is released here; one that is starting is released like any other run. */
  async stop(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    this.#cancelTimer();
    this.#stopping = true;
    if (waiting) await this.#giveBack([waiting.claimed]);
    await this.#beginning;
  }

  #beginWhenEmpty(): void {
    if (!this.#waiting?.mayBegin || this.#worker.live.size > 0) return;
    const { claimed, heldAt } = this.#waiting;
    this.#alone = { id: claimed.run.id, execution: undefined };
    this.#waiting = undefined;
    this.#cancelTimer();
    this.#beginning = this.#execute(claimed, heldAt).catch(() => this.#free());
  }

  /**
   * The claim entry, which says that the run is executed alone, is written before any code of the run executes. If this process
   * dies, the next claim counts the crash.
   */
  async #execute(claimed: Claimed, heldAt: number): Promise<void> {
    const { host, live } = this.#worker;
    const { run, journal } = claimed;
    const retried = claimed.mail.some(({ kind }) => kind === "wake") && run.crashes > limitOf(claimed).max;
    const trial: Trial = { deaths: run.deaths, crashes: retried ? 0 : run.crashes, alone: true };
    const seq = (journal.at(-1)?.seq ?? 0) + 1;
    const at = host.now();
    const events = encodeEvents([{ type: "claim", owner: host.owner, at, crashes: trial.crashes }]);
    const entry: Entry = { events, consumed: null, hooks: [], children: [], then: { kind: "hold" }, trial };
    const answer = await host.commit(
      { verb: "append", id: run.id, creator: run.creator, epoch: run.epoch, workflow: run.workflow, seq, entry },
      () => !this.#stopping,
    );
    if (answer?.kind !== "appended") return this.#free();
    await this.#worker.adopt(
      { ...claimed, run: { ...run, ...trial }, lapsed: false, journal: [...journal, { seq, epoch: run.epoch, at, events }] },
      heldAt,
    );
    const execution = live.get(run.id);
    if (execution === undefined || this.#alone === undefined) return this.#free();
    this.#alone.execution = execution;
    execution.trial.onCleared = () => this.#free();
    this.#clearAfter(aloneMs(host.leaseMs, trial.crashes + clearancesOf(journal)), execution);
  }

  /** Clears the run if it has been executed alone for this long without a crash. */
  #clearAfter(ms: number, execution: Execution): void {
    this.#after(ms, () => {
      if (execution.gone || execution.ending.recorded) return;
      const { host } = this.#worker;
      if (execution.state === "live") execution.record({ type: "cleared", at: host.now() });
      else this.#clearAfter(host.leaseMs, execution);
    });
  }

  /** Parks the run if it has crashed too often while it was executed alone, unless an operator has requested another try. */
  async #isParked(claimed: Claimed): Promise<boolean> {
    const { host } = this.#worker;
    const { run, journal, mail } = claimed;
    const limit = limitOf(claimed);
    if (run.crashes <= limit.max || mail.some(({ kind }) => kind === "wake")) return false;
    const seq = (journal.at(-1)?.seq ?? 0) + 1;
    const entry = parkedEntry({ claimed, limit, now: host.now(), owner: host.owner });
    const { then } = entry;
    if (then.kind === "release") warnParked(host, { id: run.id, status: "parked", trouble: then.trouble ?? "" });
    const answer = await host.commit(
      { verb: "append", id: run.id, creator: run.creator, epoch: run.epoch, workflow: run.workflow, seq, entry },
      () => !this.#stopping,
    );
    if (answer?.kind === "appended" && entry.then.kind === "end") await recordAccepted(host.store, run);
    return true;
  }

  /** Steps of other runs took longer than a lease: the suspect must not block the worker any longer. */
  async #giveUp(): Promise<void> {
    const waiting = this.#waiting;
    if (waiting === undefined) return;
    const { host } = this.#worker;
    // A run that leaves while the suspect is being released must not start it: the end of this function would free its slot.
    waiting.mayBegin = false;
    await this.#giveBack([waiting.claimed], host.now() + retryLeases * host.leaseMs);
    if (this.#waiting === waiting) this.#free();
  }

  async #giveBack(runs: readonly Claimed[], wakeAt = this.#worker.host.now()): Promise<void> {
    const { store } = this.#worker.host;
    const then = { kind: "release", wakeAt, status: "running", trouble: null } as const;
    // If a release fails, the next renewal finds and releases the run.
    await Promise.allSettled(runs.map(({ run }) => store.commit({ run: releaseWithoutEntry(run, then) })));
  }

  #free(): void {
    this.#cancelTimer();
    this.#waiting = undefined;
    this.#alone = undefined;
    this.#worker.onFree();
  }

  #after(ms: number, go: () => void): void {
    this.#cancelTimer();
    this.#cancelTimer = this.#worker.host.store.clock.after(ms, go, true);
  }
}

/** A journal that cannot be decoded here is not a reason to park the run: adopting it reports the problem. */
function limitOf({ journal }: Claimed): CrashLimit {
  try {
    return crashLimitOf(new History(journal).attempts);
  } catch {
    return { max: Number.POSITIVE_INFINITY, step: undefined };
  }
}

/** How often the run was cleared and then crashed a process again, without progress. */
function clearancesOf(journal: Claimed["journal"]): number {
  return new History(journal).clearances;
}
