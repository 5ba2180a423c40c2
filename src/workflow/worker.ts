import { sleep } from "../core/clock.js";
import { decode } from "../core/codec.js";
import { assert } from "../core/errors.js";
import { newOwner } from "../core/owner.js";
import type { RunAnswer, RunOperation, StartRun } from "../core/run-operation.js";
import { requireRuns, type Store } from "../core/store.js";
import { Adoption } from "./adoption.js";
import { inputOfStart } from "./aside.js";
import { Claims } from "./claims.js";
import { commitUntilAnswered } from "./commit-until-answered.js";
import { runOutside } from "./context.js";
import { definedWorkflows, type WorkflowDefinition } from "./define.js";
import { EndBoard } from "./end-board.js";
import { Execution } from "./execution.js";
import { History } from "./history.js";
import type { Asked, Departure, Host, StepFunction } from "./host.js";
import { MailLook } from "./mail-look.js";
import { RunLeases } from "./run-leases.js";
import type { StepBody } from "./step-body.js";
import { type CheckedWorkerOptions, checkedWorkerOptions, type WorkerOptions } from "./worker-options.js";

/**
 * Executes the runs of a store: claims what is due, renews what it holds, hands back when it stops. Any number of them
 * work on one store; none of them is special.
 */
export class Worker implements Host {
  readonly store: Store;
  readonly owner = newOwner();
  readonly leaseMs: number;
  readonly random: () => number;
  readonly #options: CheckedWorkerOptions;
  readonly #live = new Map<string, Execution>();
  readonly #starting = new Map<string, (departure: Departure | "created") => void>();
  readonly #ends: EndBoard;
  readonly #adoption: Adoption;
  readonly #claims: Claims;
  readonly #mail: MailLook;
  readonly #leases: RunLeases;
  readonly #stopWatching: () => void;
  readonly #forgetClose: () => void;
  #touched: Execution[] = [];
  #turn = false;
  #resting: (() => void)[] = [];
  /** Store's time minus ours. */
  #offset: number | undefined;
  #stopped = false;
  #stopping: Promise<void> | undefined;

  constructor(store: Store, options: WorkerOptions = {}) {
    requireRuns(store);
    this.#options = checkedWorkerOptions(options);
    const { leaseMs, random } = this.#options;
    const live = this.#live;
    this.store = store;
    this.leaseMs = leaseMs;
    this.random = random;
    this.#ends = EndBoard.of(store);
    this.#adoption = new Adoption({ host: this, live, workflow: (name) => this.#workflow(name), stopped: () => this.#stopped });
    this.#claims = new Claims(this, { ...this.#options, adoption: this.#adoption });
    this.#mail = new MailLook({ store, live, due: () => this.#claims.look() });
    this.#leases = new RunLeases(this, {
      live,
      isStarting: (id) => this.#starting.has(id),
      has: (id) => this.#adoption.has(id),
      fetchMail: (execution) => this.#mail.of(execution),
      claimsOver: () => this.#claims.over(),
    });
    this.#stopWatching = store.onRunChange((run, ended, what) => what === "run" && this.#changed(run, ended));
    this.#forgetClose = store.beforeClose(() => this.stop());
    this.#claims.look();
  }

  get workflows(): readonly string[] {
    return [...(this.#options.named ?? definedWorkflows()).keys()];
  }

  #workflow(name: string): WorkflowDefinition | undefined {
    return (this.#options.named ?? definedWorkflows()).get(name);
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

  /** Stops claiming, lets step bodies finish within `graceMs`, and hands every run back to the store. */
  stop({ graceMs = 10_000 }: { readonly graceMs?: number } = {}): Promise<void> {
    this.#stopping ??= this.#stop(graceMs);
    return this.#stopping;
  }

  async #stop(graceMs: number): Promise<void> {
    this.#stopped = true;
    this.#claims.stop();
    this.#stopWatching();
    // At once, so that nothing new begins while a claim is under way; and what that still brings.
    for (const execution of this.#live.values()) execution.handBack.ask();
    await this.#claims.over();
    for (const execution of this.#live.values()) execution.handBack.ask();
    const until = this.store.clock.now() + graceMs;
    await this.#empty(until);
    const reason = new Error("the worker has stopped");
    for (const execution of this.#live.values()) execution.handBack.abandon(reason);
    await this.#empty(this.store.clock.now() + 1000);
    for (const execution of this.#live.values()) execution.lose(reason);
    this.#leases.release();
    this.#forgetClose();
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /**
   * Starts a run here, when there is room: its first commit creates it and begins its first step. Resolves when it is
   * in the store; undefined when this worker can't take it.
   */
  async start(create: StartRun): Promise<Departure | "created" | undefined> {
    // The first look at the store tells its time, and a run must not go by this machine's.
    if (this.#offset === undefined) await this.#claims.over();
    if (this.#offset === undefined) return undefined;
    const workflow = this.#workflow(create.workflow);
    if (workflow === undefined || this.#stopped || !this.#options.auto || this.crowded() || this.#live.has(create.id)) return undefined;
    return await new Promise((resolve) => {
      const execution = new Execution({
        host: this,
        workflow,
        run: { id: create.id, epoch: 1, consumed: 0, parent: create.parent },
        // A copy, as every later owner gets: what the caller does to its own afterwards would be gone after a replay.
        args: decode(inputOfStart(create)) as unknown[],
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
      this.#starting.set(create.id, resolve);
      runOutside(() => execution.run());
    });
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

  /** How many more runs it takes. */
  get room(): number {
    return this.#options.concurrency - this.#live.size;
  }

  touch(execution: Execution): void {
    if (execution.touched) return;
    execution.touched = true;
    this.#touched.push(execution);
    if (this.#turn) return;
    this.#turn = true;
    this.store.clock.soon(this.#onTurn);
  }

  readonly #onTurn = (): void => {
    this.#turn = false;
    const touched = this.#touched;
    this.#touched = [];
    for (const execution of touched) {
      execution.touched = false;
      execution.advance();
    }
    if (this.#resting.length > 0 && this.#atRest()) for (const go of this.#resting.splice(0)) go();
  };

  commit(operation: RunOperation, wanted: () => boolean): Promise<RunAnswer | undefined> {
    return commitUntilAnswered(this.store, operation, { wanted, answered: this.#answered, refused: this.#refused });
  }

  renew(): void {
    this.#leases.renewNow();
  }

  left(execution: Execution, departure: Departure): void {
    this.#live.delete(execution.id);
    this.#settleStart(execution.id, departure);
    this.#ends.left(execution.id, departure);
    if (departure.why === "overtaken") void this.#adoption.reload(execution);
    // Mail that it had no time for has made the run due.
    const due = departure.why === "released" && execution.hasUntold;
    if (this.#claims.missed || due) this.#claims.look();
    // Nobody else tells us of its timer.
    if (departure.why === "released" && departure.wakeAt !== null) this.#claims.schedule(departure.wakeAt - this.now());
    if (this.#resting.length > 0 && this.#atRest()) for (const go of this.#resting.splice(0)) go();
  }

  #settleStart(id: string, departure: Departure | "created"): void {
    const settle = this.#starting.get(id);
    this.#starting.delete(id);
    settle?.(departure);
  }

  readonly #answered = (operation: RunOperation, { kind }: RunAnswer): void => {
    if (kind === "created" && operation.verb === "start") this.#settleStart(operation.id, "created");
  };

  /** The run is left to lapse, and somebody has to look. */
  readonly #refused = (operation: RunOperation, error: unknown): void => {
    const id = operation.verb === "send" ? "" : operation.id;
    process.emitWarning(`run "${id}" could not be written: ${error instanceof Error ? error.message : String(error)}`, {
      type: "OnceflowWarning",
      code: "ONCEFLOW_RUN_NOT_WRITTEN",
    });
    this.#live.get(id)?.lose(error);
  };

  #changed(run: string | null, ended: boolean): void {
    if (this.#stopped || ended) return;
    if (run !== null) {
      const execution = this.#live.get(run);
      if (execution) return void this.#mail.of(execution);
    } else this.#mail.all();
    this.#claims.look();
  }

  // ——— waiting for an end

  #atRest(): boolean {
    for (const execution of this.#live.values()) if (!execution.atRest) return false;
    return !this.#claims.underWay;
  }

  #rest(): Promise<void> {
    return this.#atRest() ? Promise.resolve() : new Promise((go) => void this.#resting.push(go));
  }

  async #empty(until: number): Promise<void> {
    while (this.#live.size > 0 && this.store.clock.now() < until) await sleep(this.store.clock, 5);
  }
}
