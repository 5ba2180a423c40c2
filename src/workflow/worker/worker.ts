import { assert } from "../../core/errors/errors.js";
import { warnOfUnknownOption } from "../../core/errors/known-options.js";
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
import { guardRejections } from "../execute/unhandled-rejections.js";
import { inputOfStart } from "../journal/aside.js";
import type { Departure, Refusal } from "../journal/departure.js";
import { History } from "../journal/history.js";
import { warnNotWritten } from "../journal/not-written.js";
import { EndBoard } from "../process/end-board.js";
import type { WorkerOptions } from "../process/worker-options.js";
import type { Asked } from "../steps/reconcile.js";
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

interface StopOptions {
  /** How long step bodies may take to finish. Default 10 s. */
  readonly graceMs?: number;
}

/**
 * Executes the runs of a store: claims what is due, renews what it holds, releases them when it stops. Any number of them
 * work on one store; none of them is special.
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
  /** Store's time minus ours. */
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
      again: (claimed, heldAt) => this.#take([claimed], heldAt),
    });
    this.#quarantine = new Quarantine({
      host: this,
      live,
      adopt: (claimed, heldAt) => this.#adoption.adopt(claimed, heldAt),
      look: () => {
        this.#claims.pollNow();
        this.#checkRest();
      },
    });
    this.#claims = new Claims(this, { ...this.#options, take: (claimed, heldAt) => this.#take(claimed, heldAt) });
    this.#mail = new MailFetch({ store, live, claimDue: () => this.#claims.pollNow() });
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

  /** Names of what it works on, former names included: runs may be stored under them. */
  get workflows(): readonly string[] {
    return [...new Set([...this.#defined.values()].flatMap(({ name, former = [] }) => [name, ...former]))];
  }

  get #defined(): ReadonlyMap<string, WorkflowDefinition> {
    return this.#options.named ?? definedWorkflows();
  }

  #workflow(name: string): WorkflowDefinition | undefined {
    return workflowNamed(name, this.#defined);
  }

  get running(): number {
    return this.#live.size;
  }

  // ——— work

  /** One round by hand: claims what is due and works until nothing is left to do now. Returns how many it claimed. */
  async tick(): Promise<number> {
    const claimed = await this.#claims.claim();
    await this.#rest();
    return claimed;
  }

  /** Stops claiming, lets step bodies finish within `graceMs`, and releases every run to the store. */
  stop(options: StopOptions = {}): Promise<void> {
    const { graceMs = 10_000 } = options;
    // Not an error: a process that is about to end has to release its runs all the same.
    if (typeof options === "object") warnOfUnknownOption("worker.stop", options, { graceMs: true });
    this.#stopping ??= this.#stop(graceMs);
    return this.#stopping;
  }

  async #stop(graceMs: number): Promise<void> {
    this.#stopped = true;
    this.#forgetExit();
    this.#claims.stop();
    this.#stopWatching();
    // At once, so that nothing new begins while a claim is under way; and what that still brings.
    for (const execution of this.#live.values()) execution.release.request();
    await this.#claims.claimEnds();
    await this.#quarantine.stop();
    for (const execution of this.#live.values()) execution.release.request();
    const until = this.store.clock.now() + graceMs;
    await this.#empty(until);
    await this.#late.settled(until);
    const reason = new Error("the worker has stopped");
    for (const execution of this.#live.values()) execution.release.force(reason);
    await this.#empty(this.store.clock.now() + 1000);
    for (const execution of this.#live.values()) execution.lose(reason);
    this.#late.stop();
    await this.#leases.release();
    this.#forgetClose();
  }

  /** What the store has given us. All of it, also when one fails: a run on its way here must not be given back meanwhile. */
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
   * Starts a run here, when there is room: its first commit creates it and begins its first step. Resolves when it is
   * in the store; undefined when this worker can't take it.
   */
  async start(create: StartRun): Promise<StartOutcome | undefined> {
    // The first claim learns the store's time, and a run must not go by this machine's.
    if (this.#offset === undefined) await this.#claims.claimEnds();
    if (this.#offset === undefined) return undefined;
    if (this.#starts.has(create.id)) await this.#starts.over(create.id);
    const workflow = this.#workflow(create.workflow);
    if (workflow === undefined || this.#stopped || !this.#options.auto || this.crowded() || this.#live.has(create.id)) return undefined;
    const input = inputOfStart(create);
    const execution = new Execution({
      host: this,
      workflow,
      run: { id: create.id, epoch: 1, consumed: 0, parent: create.parent, avoid: [] },
      // A copy, as every later owner gets: what the caller does to its own afterwards would be gone after a replay.
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
    return await outcome;
  }

  /** Whether the run is alive in this process, so that its end will be heard of here. */
  has(run: string): boolean {
    return this.#live.has(run);
  }

  // ——— what executions need

  now(): number {
    assert(this.#offset !== undefined, "the store's time is known before anything is executed");
    return Math.floor(this.store.clock.now() + this.#offset);
  }

  /** The reply to the first claim may have been lost: then there is a run to give back before the store's time is known. */
  knownNow(): number {
    return this.#offset === undefined ? 0 : this.now();
  }

  learn(now: number): void {
    const offset = now - this.store.clock.now();
    // An answer was under way for a while: of two estimates the later one is nearer to the truth.
    this.#offset = this.#offset === undefined ? offset : Math.max(this.#offset, offset);
  }

  bodyOf({ definition }: StepBody): StepFunction {
    return definition.fn as StepFunction;
  }

  ask(_about: Asked, reconcile: () => unknown): unknown {
    return reconcile();
  }

  crowded(): boolean {
    return this.room <= 0;
  }

  async claimAwaitedRun(run: string): Promise<void> {
    // A suspect is executed alone. When it is cleared, the next poll of its step brings the run.
    if (this.#quarantine.active) return;
    const found = await findAwaitedRun(this.store, { run, workflows: this.workflows, now: () => this.now() });
    if (found !== undefined) await this.#claims.claimRun(found);
  }

  /** How many more runs it takes. */
  get room(): number {
    return this.#quarantine.active ? 0 : this.#options.concurrency - this.#live.size;
  }

  touch(execution: HostedRun): void {
    this.#turns.touch(execution);
  }

  commit(operation: RunOperation, wanted: () => boolean): Promise<RunAnswer | Refusal | undefined> {
    return commitUntilAnswered(this.store, operation, { wanted, answered: this.#answered, gaveUp: this.#gaveUp });
  }

  /** Something that is tried until it succeeds has failed so many times in a row. */
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
    // A run that another start created may have been claimed here while its own start was under way: then it was not adopted.
    if (departure.why === "overtaken" || departure.why === "exists") void this.#adoption.reload(execution);
    // Mail that it had no time for has made the run due; and a run that exists already may have no owner.
    const due = departure.why === "exists" ? departure.run.owner === null : departure.why === "released" && execution.hasUndelivered;
    if (this.#claims.hasMore || due) this.#claims.pollNow();
    // A claim brought it while this execution was starting it, and left it to this one. The renewal gives it back.
    if (departure.why === "exists" && departure.run.owner === this.owner) this.#leases.renewNow();
    // The store does not notify of timers.
    if (departure.why === "released" && departure.wakeAt !== null) this.#claims.pollWithin(departure.wakeAt - this.now());
    this.#checkRest();
  }

  readonly #answered = (operation: RunOperation, { kind }: RunAnswer): void => {
    if (kind === "created" && operation.verb === "start") this.#starts.settle(operation.id, "created");
  };

  /** The store was closed under the run, or is not what it should be. The run is left to lapse. */
  readonly #gaveUp = (operation: RunOperation, error: unknown): void => {
    const id = operation.verb === "send" ? "" : operation.id;
    // Nothing of it has happened, and the caller of start gets the error. If its reply was lost and it is in the store, the next
    // renewal finds it there and gives it back to be claimed.
    if (operation.verb === "start") return this.#live.get(id)?.leave({ why: "refused", error });
    warnNotWritten(id, `is given up by this worker, because it could not be written: ${messageOf(error)}`);
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

  // ——— waiting for an end

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
