import { assert } from "../../core/errors/errors.js";
import { warnOfUnknownOption } from "../../core/errors/known-options.js";
import { isHeard, publish } from "../../core/events/channels.js";
import { newOwner } from "../../core/ledger/owner.js";
import type { Claimed, RunAnswer, RunOperation, StartRun } from "../../core/runs/operation.js";
import { isSuspect } from "../../core/runs/run.js";
import { requireRuns, type Store } from "../../core/store/store.js";
import { StoreTrouble } from "../../core/store/store-trouble.js";
import { decode } from "../../core/values/codec.js";
import { sleep } from "../../core/work/clock.js";
import { runOutside } from "../define/context.js";
import { definedWorkflows, type WorkflowDefinition, workflowNamed } from "../define/definition.js";
import { messageOf } from "../define/message-of.js";
import { Execution } from "../execute/execution.js";
import type { Host, HostedRun, Rehearse } from "../execute/host.js";
import { rehearse } from "../execute/rehearsal.js";
import { forceRelease } from "../execute/release.js";
import { guardRejections } from "../execute/unhandled-rejections.js";
import { inputOfStart } from "../journal/aside.js";
import { History } from "../journal/history/history.js";
import type { Departure, Refusal } from "../journal/writer/departure.js";
import { warnNotWritten } from "../journal/writer/not-written.js";
import { EndBoard } from "../process/end-board.js";
import type { WorkerOptions } from "../process/worker-options.js";
import type { AttemptInDoubt } from "../steps/reconcile.js";
import type { StepBody, StepFunction } from "../steps/step-body.js";
import { Adoption } from "./adoption.js";
import { onBeforeExit } from "./before-exit.js";
import { type CheckedWorkerOptions, checkedWorkerOptions } from "./checked-worker-options.js";
import { Claims } from "./claims.js";
import { commitUntilAnswered } from "./commit-until-answered.js";
import { findAwaitedRun } from "./find-awaited-run.js";
import { LateEnds } from "./late-ends.js";
import { MailFetch } from "./mail-fetch.js";
import { Quarantine } from "./quarantine.js";
import { RunLeases } from "./run-leases.js";
import { type StartOutcome, Starts } from "./starts.js";
import { Turns } from "./turns.js";

/** Options of `worker.stop`. */
interface StopOptions {
  /** How long step bodies may take to finish. Default 10 s. */
  readonly graceMs?: number;
}

/**
 * Executes runs of a store: claims due runs, renews their leases, and releases them when it stops. Any number of workers can
 * share a store; all are equal. Made by `work`.
 */
export class Worker implements Host {
  readonly store: Store;
  readonly owner = newOwner();
  readonly leaseMs: number;
  readonly rehearse: Rehearse | undefined;
  readonly random: () => number;
  readonly #options: CheckedWorkerOptions;
  readonly #live = new Map<string, Execution>();
  readonly #starts = new Starts();
  readonly #turns: Turns;
  readonly #ends: EndBoard;
  readonly #late: LateEnds;
  readonly #trouble: StoreTrouble;
  readonly #adoption: Adoption;
  readonly #quarantine: Quarantine;
  readonly #claims: Claims;
  readonly #mail: MailFetch;
  readonly #leases: RunLeases;
  readonly #stopWatching: () => void;
  readonly #forgetClose: () => void;
  readonly #forgetExit: () => void;
  #resting: (() => void)[] = [];
  /** Time of the store minus this process's clock. */
  #offset: number | undefined;
  #stopped = false;
  #stopping: Promise<void> | undefined;

  constructor(store: Store, options: WorkerOptions = {}) {
    requireRuns(store);
    this.#options = checkedWorkerOptions(options);
    const { leaseMs, random, replayCheck } = this.#options;
    const live = this.#live;
    this.store = store;
    this.leaseMs = leaseMs;
    this.rehearse = replayCheck ? rehearse : undefined;
    this.random = random;
    this.#turns = new Turns(store.clock, () => this.#checkRest());
    this.#ends = EndBoard.of(store);
    this.#trouble = new StoreTrouble(store.clock);
    guardRejections();
    this.#late = new LateEnds(this);
    this.#adoption = new Adoption({
      host: this,
      live,
      workflow: (name) => this.#workflow(name),
      stopped: () => this.#stopped,
      mayExecute: (id) => !this.#quarantine.active || this.#quarantine.holds(id),
      take: (claimed, heldAt) => this.#take([claimed], heldAt),
    });
    this.#quarantine = new Quarantine({
      host: this,
      live,
      adopt: (claimed, heldAt) => this.#adoption.adopt(claimed, heldAt),
      onFree: () => {
        this.#claims.pollNow();
        this.#checkRest();
      },
    });
    this.#claims = new Claims(this, { ...this.#options, take: (claimed, heldAt) => this.#take(claimed, heldAt) });
    this.#mail = new MailFetch({ store, live, starts: this.#starts, claimDue: () => this.#claims.pollNow() });
    this.#leases = new RunLeases(this, {
      live,
      isStarting: (id) => this.#starts.has(id),
      has: (id) => this.#adoption.has(id) || this.#quarantine.holds(id),
      fetchMail: (execution) => this.#mail.fetch(execution),
      claimsOver: () => this.#claims.claimEnds(),
    });
    this.#stopWatching = store.onRunChange((run, ended, what) => what === "run" && this.#changed(run, ended));
    this.#forgetClose = store.beforeClose(() => this.stop());
    this.#forgetExit = this.#options.background ? onBeforeExit(() => this.stop({ graceMs: 0 })) : () => {};
    this.#leases.renewNow();
    this.#claims.pollNow();
  }

  get signOfLife(): { readonly workflows: readonly string[]; readonly version: string | null } {
    return { workflows: this.workflows, version: this.#options.version };
  }

  /** Names of the workflows that this worker executes, including former names under which runs may be stored. */
  get workflows(): readonly string[] {
    return [...new Set([...this.#defined.values()].flatMap(({ name, former = [] }) => [name, ...former]))];
  }

  get #defined(): ReadonlyMap<string, WorkflowDefinition> {
    return this.#options.named ?? definedWorkflows();
  }

  #workflow(name: string): WorkflowDefinition | undefined {
    return workflowNamed(name, this.#defined);
  }

  /** Number of runs in memory. */
  get running(): number {
    return this.#live.size;
  }

  // ——— work

  /** Runs one round by hand: claims due runs and works until there is nothing left to do now. Returns the number of claimed runs. */
  async tick(): Promise<number> {
    const claimed = await this.#claims.claim();
    await this.#rest();
    return claimed;
  }

  /** Stops claiming, lets step bodies finish within `graceMs`, and releases all runs to the store. Call it before the process exits. */
  stop(options: StopOptions = {}): Promise<void> {
    const { graceMs = 10_000 } = options;
    // A warning instead of an error: a process that is about to exit must still release its runs.
    if (typeof options === "object") warnOfUnknownOption("worker.stop", options, { graceMs: true });
    this.#stopping ??= this.#stop(graceMs);
    return this.#stopping;
  }

  async #stop(graceMs: number): Promise<void> {
    this.#stopped = true;
    this.#forgetExit();
    this.#claims.stop();
    this.#stopWatching();
    // Release now, so that nothing new starts while a claim is in flight; and again below for the runs that the claim brings.
    for (const execution of this.#live.values()) execution.release.request();
    await this.#claims.claimEnds();
    await this.#quarantine.stop();
    for (const execution of this.#live.values()) execution.release.request();
    const until = this.store.clock.now() + graceMs;
    await this.#empty(until);
    await this.#late.settled(until);
    const reason = new Error("the worker has stopped");
    for (const execution of this.#live.values()) forceRelease(execution, reason);
    await this.#empty(this.store.clock.now() + 1000);
    for (const execution of this.#live.values()) execution.lose(reason);
    this.#late.stop();
    await this.#leases.release();
    this.#forgetClose();
  }

  /** Adopts claimed runs. Waits for all of them, also if one fails: a run that is being adopted must not be released meanwhile. */
  async #take(claimed: readonly Claimed[], heldAt: number): Promise<void> {
    const suspect = claimed.find(({ run }) => isSuspect(run));
    if (suspect === undefined) return void (await Promise.allSettled(claimed.map((each) => this.#adoption.adopt(each, heldAt))));
    const others = claimed.filter((each) => each !== suspect);
    await this.#quarantine.admit(suspect, others, heldAt);
  }

  get takesSuspect(): boolean {
    return this.#quarantine.open;
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /**
   * Starts a run on this worker if there is room. Its first commit creates the run and starts its first step. Resolves when the
   * run is in the store; undefined if this worker cannot take it.
   */
  start(create: StartRun): Promise<StartOutcome | undefined> | undefined {
    // The time of the store is known after the first claim. A run must not use the clock of this machine.
    if (this.#offset === undefined || this.#starts.has(create.id)) return this.#startLater(create);
    return this.#startNow(create);
  }

  async #startLater(create: StartRun): Promise<StartOutcome | undefined> {
    if (this.#offset === undefined) await this.#claims.claimEnds();
    if (this.#offset === undefined) return undefined;
    if (this.#starts.has(create.id)) await this.#starts.over(create.id);
    return await this.#startNow(create);
  }

  #startNow(create: StartRun): Promise<StartOutcome> | undefined {
    const workflow = this.#workflow(create.workflow);
    if (workflow === undefined || this.#stopped || !this.#options.auto || this.crowded() || this.#live.has(create.id)) return undefined;
    const input = inputOfStart(create);
    const labels = { scope: create.scope ?? "", attributes: create.attributes ?? null };
    const execution = new Execution({
      host: this,
      workflow,
      run: { id: create.id, creator: create.creator, epoch: 1, consumed: 0, parent: create.parent, avoid: [], ...labels },
      // A copy, as every later owner gets: changes that the caller makes to its own object would be lost after a replay.
      args: decode(input) as unknown[],
      input,
      startedAt: this.now(),
      create,
      history: new History([]),
      heldAt: this.store.clock.now(),
      seq: 1,
      lapsed: false,
      mail: [],
      hooks: [],
    });
    this.#live.set(create.id, execution);
    const outcome = this.#starts.begin(create.id);
    runOutside(() => execution.start());
    return outcome;
  }

  /** Whether the run is in the memory of this worker, so that EndBoard will report its end. */
  has(run: string): boolean {
    return this.#live.has(run);
  }

  // ——— for executions

  now(): number {
    assert(this.#offset !== undefined, "the store's time is known before anything is executed");
    return Math.floor(this.store.clock.now() + this.#offset);
  }

  /** The time of the store, or 0 while it is not known: if the reply to the first claim was lost, a run must be released before that. */
  knownNow(): number {
    return this.#offset === undefined ? 0 : this.now();
  }

  learn(now: number): void {
    const offset = now - this.store.clock.now();
    // Every answer is delayed by its way here, so the larger of two estimates is closer to the truth.
    this.#offset = this.#offset === undefined ? offset : Math.max(this.#offset, offset);
  }

  bodyOf({ definition }: StepBody): StepFunction {
    return definition.fn as StepFunction;
  }

  ask(_about: AttemptInDoubt, reconcile: () => unknown): unknown {
    return reconcile();
  }

  crowded(): boolean {
    return this.room <= 0;
  }

  async claimAwaitedRun(run: string): Promise<void> {
    // A suspect is executed alone. When it is cleared, the next poll of its step claims the run.
    if (this.#quarantine.active) return;
    const found = await findAwaitedRun(this.store, { run, workflows: this.workflows, now: () => this.now() });
    if (found !== undefined) await this.#claims.claimRun(found);
  }

  /** How many more runs this worker can take. */
  get room(): number {
    return this.#quarantine.active ? 0 : this.#options.concurrency - this.#live.size;
  }

  touch(execution: HostedRun): void {
    this.#turns.touch(execution);
  }

  commit(operation: RunOperation, wanted: () => boolean): Promise<RunAnswer | Refusal | undefined> {
    return commitUntilAnswered(this.store, operation, { wanted, answered: this.#answered, gaveUp: this.#gaveUp });
  }

  /** An operation that is retried until it succeeds has failed `times` times in a row. */
  troubled(what: string, times: number, error: unknown): void {
    if (!this.store.closed) this.#trouble.met(what, times, error);
  }

  renew(): void {
    this.#leases.renewNow();
  }

  warnOfDivergence(_run: string, message: string): void {
    process.emitWarning(message, { type: "OnceflowWarning", code: "ONCEFLOW_REPLAY_CHECK" });
  }

  remove(execution: HostedRun, departure: Departure): void {
    this.#live.delete(execution.id);
    this.#starts.settle(execution.id, departure);
    this.#ends.report(execution.id, departure);
    this.#quarantine.noteLeft(execution);
    if (departure.why === "ended") this.#late.follow(execution, departure);
    if (departure.why === "overtaken" && isHeard("lease"))
      publish("lease", { type: "lost", store: this.store.name, of: "runs", worker: this.owner, run: execution.id });
    // A run that another start created may have been claimed here while this start was in progress: then it was not adopted.
    if (departure.why === "overtaken" || departure.why === "exists") void this.#adoption.reload(execution);
    // Unread mail has made the run due; and a run that already exists may have no owner.
    const due = departure.why === "exists" ? departure.run.owner === null : departure.why === "released" && execution.hasUndelivered;
    if (this.#claims.hasMore || due) this.#claims.pollNow();
    // A claim brought the run while this execution was starting it, and did not adopt it. The renewal releases it.
    if (departure.why === "exists" && departure.run.owner === this.owner) this.#leases.renewNow();
    // The store sends no notification when a timer is due.
    if (departure.why === "released" && departure.wakeAt !== null) this.#claims.pollWithin(departure.wakeAt - this.now());
    this.#checkRest();
  }

  readonly #answered = (operation: RunOperation, { kind }: RunAnswer): void => {
    if (kind === "created" && operation.verb === "start") this.#starts.settle(operation.id, "created");
  };

  /** The store was closed, or does not work as it should. The lease of the run expires, and another worker claims it. */
  readonly #gaveUp = (operation: RunOperation, error: unknown): void => {
    const id = operation.verb === "send" ? "" : operation.id;
    // Nothing has happened, and the caller of start gets the error. If the reply was lost and the run is in the store, the next
    // renewal finds and releases it.
    if (operation.verb === "start") return this.#live.get(id)?.leave({ why: "refused", error });
    warnNotWritten(id, `is given up by this worker, because its journal entry could not be written: ${messageOf(error)}`);
    this.#live.get(id)?.lose(error);
  };

  #changed(run: string | null, ended: boolean): void {
    if (this.#stopped || ended) return;
    if (run !== null) {
      const execution = this.#live.get(run);
      if (execution) return void this.#mail.fetch(execution);
    } else this.#mail.fetchAll();
    this.#claims.pollNow();
  }

  // ——— waiting until the worker is idle or empty

  #atRest(): boolean {
    for (const execution of this.#live.values()) if (!execution.atRest) return false;
    return !this.#claims.isClaiming && !this.#quarantine.busy;
  }

  #checkRest(): void {
    if (this.#resting.length > 0 && this.#atRest()) for (const go of this.#resting.splice(0)) go();
  }

  #rest(): Promise<void> {
    return this.#atRest() ? Promise.resolve() : new Promise((go) => void this.#resting.push(go));
  }

  async #empty(until: number): Promise<void> {
    while (this.#live.size > 0 && this.store.clock.now() < until) await sleep(this.store.clock, 5);
  }
}
