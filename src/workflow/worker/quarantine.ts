import type { Claimed, Entry, Trial } from "../../core/runs/operation.js";
import type { Execution } from "../execute/execution.js";
import type { Host, HostedRun } from "../execute/host.js";
import { aloneMs } from "../execute/trial.js";
import { warnParked } from "../execute/warn-parked.js";
import { recordAccepted } from "../journal/after-end.js";
import { encodeEvents } from "../journal/codec.js";
import { History } from "../journal/history.js";
import { type CrashLimit, crashLimitOf } from "../steps/crash-limit.js";
import { parkedEntry } from "./park-crashed.js";
import { releaseWithoutEntry } from "./release-without-entry.js";

interface Ward {
  readonly host: Host;
  readonly live: ReadonlyMap<string, Execution>;
  adopt(claimed: Claimed, heldAt: number): Promise<void>;
  /** The worker may claim again. */
  look(): void;
}

interface Waiting {
  readonly claimed: Claimed;
  readonly heldAt: number;
  /** It is known not to be parked. */
  mayBegin: boolean;
}

/** How many leases a suspect waits for its next turn when the worker's other runs did not leave in time. */
const retryLeases = 6;

/**
 * Executes one suspect at a time, and nothing beside it: a run that was in memory when two owners in a row died, and may
 * be what killed them. If it kills this process too, no other run dies with it, and the death counts against it.
 *
 * free: no suspect is here. draining: one is claimed, and waits until the other runs have left: steps that run may finish,
 * then their runs go back to the store. alone: it is executed. free again: it was cleared, or has left.
 */
export class Quarantine {
  readonly #ward: Ward;
  #waiting: Waiting | undefined;
  /** Executed alone; undefined while its claim is being written. */
  #alone: { readonly id: string; execution: Execution | undefined } | undefined;
  /** Resolves when the claim of a suspect is written, and its execution has begun. */
  #beginning: Promise<void> | undefined;
  /** A claim whose write the store does not answer is given up. The run lapses then, and another worker claims it. */
  #stopping = false;
  #triedAt = Number.NEGATIVE_INFINITY;
  #cancelTimer: () => void = () => {};

  constructor(ward: Ward) {
    this.#ward = ward;
  }

  /** A suspect is here: the worker takes no other run. */
  get active(): boolean {
    return this.#waiting !== undefined || this.#alone !== undefined;
  }

  /** Something is still to be done here before the worker is at rest. */
  get busy(): boolean {
    return this.#waiting !== undefined || (this.#alone !== undefined && this.#alone.execution === undefined);
  }

  /** Claimed, and not executed yet. */
  holds(id: string): boolean {
    return this.#waiting?.claimed.run.id === id || this.#alone?.id === id;
  }

  /** Whether the next claim may bring a suspect: at once when the worker has no run, else once in a lease. */
  get open(): boolean {
    const { host, live } = this.#ward;
    return !this.active && (live.size === 0 || host.store.clock.now() - this.#triedAt >= host.leaseMs);
  }

  /** `others` came with the same claim. They have not begun, and go back at once. */
  async admit(claimed: Claimed, others: readonly Claimed[], heldAt: number): Promise<void> {
    const { host, live } = this.#ward;
    this.#triedAt = host.store.clock.now();
    if (this.active) return await this.#giveBack([claimed, ...others]);
    this.#waiting = { claimed, heldAt, mayBegin: false };
    await this.#giveBack(others);
    if (await this.#isParked(claimed)) return this.#free();
    // Only now: a run that left while the parking was written would else begin it, and two writers would share one epoch.
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

  /** The worker stops. A suspect that has not begun goes back; one that is about to begin is handed back as any other run is. */
  async stop(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    this.#cancelTimer();
    this.#stopping = true;
    if (waiting) await this.#giveBack([waiting.claimed]);
    await this.#beginning;
  }

  #beginWhenEmpty(): void {
    if (!this.#waiting?.mayBegin || this.#ward.live.size > 0) return;
    const { claimed, heldAt } = this.#waiting;
    this.#alone = { id: claimed.run.id, execution: undefined };
    this.#waiting = undefined;
    this.#cancelTimer();
    this.#beginning = this.#execute(claimed, heldAt).catch(() => this.#free());
  }

  /**
   * The claim is written before any code of the run executes, and says that the run is alone. If this process dies, the
   * next claim counts it.
   */
  async #execute(claimed: Claimed, heldAt: number): Promise<void> {
    const { host, live } = this.#ward;
    const { run, journal } = claimed;
    const retried = claimed.mail.some(({ kind }) => kind === "wake") && run.crashes > limitOf(claimed).max;
    const trial: Trial = { deaths: run.deaths, crashes: retried ? 0 : run.crashes, alone: true };
    const seq = (journal.at(-1)?.seq ?? 0) + 1;
    const at = host.now();
    const events = encodeEvents([{ type: "claim", owner: host.owner, at, crashes: trial.crashes }]);
    const entry: Entry = { events, consumed: null, hooks: [], children: [], then: { kind: "hold" }, trial };
    const answer = await host.commit({ verb: "append", id: run.id, epoch: run.epoch, seq, entry }, () => !this.#stopping);
    if (answer?.kind !== "appended") return this.#free();
    await this.#ward.adopt(
      { ...claimed, run: { ...run, ...trial }, lapsed: false, journal: [...journal, { seq, epoch: run.epoch, at, events }] },
      heldAt,
    );
    const execution = live.get(run.id);
    if (execution === undefined || this.#alone === undefined) return this.#free();
    this.#alone.execution = execution;
    execution.trial.onCleared = () => this.#free();
    this.#clearAfter(aloneMs(host.leaseMs, trial.crashes + clearancesOf(journal)), execution);
  }

  /** Its process lives, although it has executed the run alone for so long. */
  #clearAfter(ms: number, execution: Execution): void {
    this.#after(ms, () => {
      if (execution.gone || execution.ending.recorded) return;
      const { host } = this.#ward;
      if (execution.state === "live") execution.record({ type: "cleared", at: host.now() });
      else this.#clearAfter(host.leaseMs, execution);
    });
  }

  /** It died alone too often. No code of it executes, but a person may ask for one more try. */
  async #isParked(claimed: Claimed): Promise<boolean> {
    const { host } = this.#ward;
    const { run, journal, mail } = claimed;
    const limit = limitOf(claimed);
    if (run.crashes <= limit.max || mail.some(({ kind }) => kind === "wake")) return false;
    const seq = (journal.at(-1)?.seq ?? 0) + 1;
    const entry = parkedEntry({ claimed, limit, now: host.now(), owner: host.owner });
    const { then } = entry;
    if (then.kind === "release") warnParked(host, { id: run.id, status: "parked", trouble: then.trouble ?? "" });
    const answer = await host.commit({ verb: "append", id: run.id, epoch: run.epoch, seq, entry }, () => !this.#stopping);
    if (answer?.kind === "appended" && entry.then.kind === "end") await recordAccepted(host.store, run);
    return true;
  }

  /** Steps of other runs took longer than a lease: the suspect must not keep the worker from its work. */
  async #giveUp(): Promise<void> {
    const waiting = this.#waiting;
    if (waiting === undefined) return;
    const { host } = this.#ward;
    // A run that leaves while the suspect is given back must not begin it: the end of this function would free its place.
    waiting.mayBegin = false;
    await this.#giveBack([waiting.claimed], host.now() + retryLeases * host.leaseMs);
    if (this.#waiting === waiting) this.#free();
  }

  async #giveBack(runs: readonly Claimed[], wakeAt = this.#ward.host.now()): Promise<void> {
    const { store } = this.#ward.host;
    const then = { kind: "release", wakeAt, status: "running", trouble: null } as const;
    // One that fails is found by the next renewal, and given back then.
    await Promise.allSettled(runs.map(({ run }) => store.commit({ run: releaseWithoutEntry(run.id, run.epoch, then) })));
  }

  #free(): void {
    this.#cancelTimer();
    this.#waiting = undefined;
    this.#alone = undefined;
    this.#ward.look();
  }

  #after(ms: number, go: () => void): void {
    this.#cancelTimer();
    this.#cancelTimer = this.#ward.host.store.clock.after(ms, go, true);
  }
}

/** A journal that cannot be read here is not a reason to park: adopting the run finds that out, and says so. */
function limitOf({ journal }: Claimed): CrashLimit {
  try {
    return crashLimitOf(new History(journal).attempts);
  } catch {
    return { max: Number.POSITIVE_INFINITY, step: undefined };
  }
}

/** How often the run was cleared for the time that it was alone, and died all the same, without having got further. */
function clearancesOf(journal: Claimed["journal"]): number {
  return new History(journal).clearances;
}
