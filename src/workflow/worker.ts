import { sleep } from "../core/clock.js";
import { decode } from "../core/codec.js";
import { assert, InvalidInputError, LeaseLostError, NotKnownError, UnreachableError } from "../core/errors.js";
import { duration, leaseMsMax, leaseMsMin } from "../core/options.js";
import { newOwner } from "../core/owner.js";
import { hasEnded } from "../core/run.js";
import type { Claimed, Renewed, RunAnswer, RunOperation, StartRun } from "../core/run-operation.js";
import { requireRuns, type Store } from "../core/store.js";
import { broughtBack, inputOfStart, withLongValues } from "./aside.js";
import { runOutside } from "./context.js";
import { definedWorkflows, definitionOf, type WorkflowDefinition, type WorkflowFunction } from "./define.js";
import { EndBoard } from "./end-board.js";
import { Execution } from "./execution.js";
import { History } from "./history.js";
import type { Asked, Departure, Host, StepFunction } from "./host.js";
import type { StepBody } from "./step-body.js";

export interface WorkerOptions {
  /** What it works on. Default: everything that is defined in this process. */
  readonly workflows?: readonly WorkflowFunction[];
  /** Runs in memory at once. Default 100. */
  readonly concurrency?: number;
  /** How long this process may fall silent before others take its runs over. Default 10 s. */
  readonly leaseMs?: number;
  /** How often it looks for work that nobody told it of. Default 1 s. */
  readonly pollMs?: number;
  /** False: it works only when `tick` is called. Default true. */
  readonly auto?: boolean;
  /** True: it does not keep the process alive. Default false. */
  readonly background?: boolean;
  /** From 0 to 1: where the jitter of retries comes from. Default Math.random. */
  readonly random?: () => number;
}

const backoffMsMax = 1000;
/** How often the mail of all runs here is looked at, when some other process writes and writes. */
const mailEveryMs = 100;
/** When a run that could not be read here is tried again: whoever can may have started by then. */
const unreadableRetryMs = 60_000;

/**
 * Executes the runs of a store: claims what is due, renews what it holds, hands back when it stops. Any number of them
 * work on one store; none of them is special.
 */
export class Worker implements Host {
  readonly store: Store;
  readonly owner = newOwner();
  readonly leaseMs: number;
  readonly random: () => number;
  readonly #concurrency: number;
  readonly #pollMs: number;
  readonly #auto: boolean;
  readonly #background: boolean;
  readonly #named: ReadonlyMap<string, WorkflowDefinition> | undefined;
  readonly #live = new Map<string, Execution>();
  readonly #starting = new Map<string, (departure: Departure | "created") => void>();
  readonly #ends: EndBoard;
  readonly #lease: { readonly alive: () => void; readonly release: () => void };
  readonly #stopWatching: () => void;
  readonly #forgetClose: () => void;
  #touched: Execution[] = [];
  #turn = false;
  #resting: (() => void)[] = [];
  #claiming: Promise<number> | undefined;
  #claimAgain = false;
  #cancelLook: () => void = () => {};
  #lookAt = Number.POSITIVE_INFINITY;
  #cancelRenew: () => void = () => {};
  #mailLook = false;
  #mailLookedAt = Number.NEGATIVE_INFINITY;
  #renewing = false;
  #renewAgain = false;
  readonly #reloading = new Set<string>();
  #renewedAt: number;
  /** Store's time minus ours. */
  #offset: number | undefined;
  #stopped = false;
  #stopping: Promise<void> | undefined;

  constructor(
    store: Store,
    {
      workflows,
      concurrency = 100,
      leaseMs = 10_000,
      pollMs = 1000,
      auto = true,
      background = false,
      random = Math.random,
    }: WorkerOptions = {},
  ) {
    requireRuns(store);
    duration("leaseMs", leaseMs, leaseMsMin, leaseMsMax);
    duration("pollMs", pollMs, 1, leaseMsMax);
    if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 100_000)
      throw new InvalidInputError("concurrency", `must be a whole number from 1 to 100000, not ${String(concurrency)}`);
    this.store = store;
    this.leaseMs = leaseMs;
    this.random = random;
    this.#concurrency = concurrency;
    this.#pollMs = Math.min(pollMs, Math.ceil(leaseMs / 2));
    this.#auto = auto;
    this.#background = background;
    this.#named = workflows && new Map(workflows.map(checkedDefinition));
    this.#ends = EndBoard.of(store);
    this.#renewedAt = store.clock.now();
    this.#lease = store.holdRuns({ owner: this.owner, leaseMs });
    this.#stopWatching = store.onRunChange((run, ended, what) => what === "run" && this.#changed(run, ended));
    this.#forgetClose = store.beforeClose(() => this.stop());
    this.#scheduleRenew(Math.max(10, leaseMs / 3));
    if (auto) this.#look();
  }

  get workflows(): readonly string[] {
    return [...(this.#named ?? definedWorkflows()).keys()];
  }

  get running(): number {
    return this.#live.size;
  }

  // ——— work

  /** One round by hand: claims what is due and works until nothing is left to do now. Returns how many it claimed. */
  async tick(): Promise<number> {
    const claimed = await this.#claim();
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
    this.#cancelLook();
    this.#stopWatching();
    await this.#claiming?.catch(() => {});
    for (const execution of this.#live.values()) execution.handBack();
    const until = this.store.clock.now() + graceMs;
    await this.#empty(until);
    const reason = new Error("the worker has stopped");
    for (const execution of this.#live.values()) execution.abandon(reason);
    await this.#empty(this.store.clock.now() + 1000);
    for (const execution of this.#live.values()) execution.lose(reason);
    this.#cancelRenew();
    this.#lease.release();
    this.#forgetClose();
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /**
   * Starts a run here, when there is room: its first commit creates it and begins its first step. Resolves when it is
   * in the store; undefined when this worker can't take it.
   */
  async start(create: Omit<StartRun, "first">): Promise<Departure | "created" | undefined> {
    // The first look at the store tells its time, and a run must not go by this machine's.
    if (this.#offset === undefined) await this.#claiming?.catch(() => {});
    if (this.#offset === undefined) return undefined;
    const workflow = (this.#named ?? definedWorkflows()).get(create.workflow);
    if (workflow === undefined || this.#stopped || !this.#auto || this.crowded() || this.#live.has(create.id)) return undefined;
    return await new Promise((resolve) => {
      const startedAt = this.now();
      // A copy, as every later owner gets: what the caller does to its own afterwards would be gone after a replay.
      const args = decode(inputOfStart(create)) as unknown[];
      const run = { id: create.id, epoch: 1, consumed: 0, parent: create.parent };
      const fresh = { history: new History([]), heldAt: this.store.clock.now(), seq: 1, lapsed: false, mail: [], hooks: [] };
      const execution = new Execution({ host: this, workflow, run, args, startedAt, create, ...fresh });
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
    return this.#live.size >= this.#concurrency;
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

  /** The same operation until it is answered: a lost reply finds its own success. */
  async commit(operation: RunOperation, wanted: () => boolean): Promise<RunAnswer | undefined> {
    for (let backoffMs = 20; ; backoffMs = Math.min(backoffMs * 2, backoffMsMax)) {
      try {
        const answer = await this.store.commit({ run: operation });
        if (answer.kind === "created" && operation.verb === "start") this.#settleStart(operation.id, "created");
        return answer;
      } catch (error) {
        if (!wanted()) return undefined;
        const passing = error instanceof UnreachableError || error instanceof NotKnownError;
        if (!passing || this.store.closed) return this.#cannotCommit(operation, error);
        await sleep(this.store.clock, backoffMs);
        if (!wanted()) return undefined;
      }
    }
  }

  renew(): void {
    this.#renewAgain = true;
    if (this.#renewing) return;
    this.#cancelRenew();
    void this.#renew();
  }

  left(execution: Execution, departure: Departure): void {
    this.#live.delete(execution.id);
    this.#settleStart(execution.id, departure);
    this.#ends.left(execution.id, departure);
    if (departure.why === "overtaken") void this.#reload(execution);
    // Mail that it had no time for has made the run due.
    const due = departure.why === "released" && execution.hasUntold;
    if ((this.#claimAgain || due) && !this.#stopped && this.#auto) this.#look();
    // Nobody else tells us of its timer.
    if (departure.why === "released" && departure.wakeAt !== null) this.#scheduleLook(departure.wakeAt - this.now());
    if (this.#resting.length > 0 && this.#atRest()) for (const go of this.#resting.splice(0)) go();
  }

  #settleStart(id: string, departure: Departure | "created"): void {
    const settle = this.#starting.get(id);
    this.#starting.delete(id);
    settle?.(departure);
  }

  /** The store will not take it, whatever we do: the run is left to lapse, and somebody has to look. */
  #cannotCommit(operation: RunOperation, error: unknown): undefined {
    const id = operation.verb === "send" ? "" : operation.id;
    process.emitWarning(`run "${id}" could not be written: ${error instanceof Error ? error.message : String(error)}`, {
      type: "OnceflowWarning",
      code: "ONCEFLOW_RUN_NOT_WRITTEN",
    });
    this.#live.get(id)?.lose(error);
    return undefined;
  }

  // ——— claims

  #changed(run: string | null, ended: boolean): void {
    if (this.#stopped || ended) return;
    if (run !== null) {
      const execution = this.#live.get(run);
      if (execution) return void this.#fetchMail(execution);
    } else this.#lookForMail();
    if (this.#auto) this.#look();
  }

  /** Somebody has written something: it may be mail for any run here, also for one whose step is under way. */
  #lookForMail(): void {
    if (this.#mailLook) return;
    this.#mailLook = true;
    const { clock } = this.store;
    const go = () => {
      this.#mailLook = false;
      this.#mailLookedAt = clock.now();
      for (const execution of this.#live.values()) void this.#fetchMail(execution);
    };
    clock.after(Math.max(0, this.#mailLookedAt + mailEveryMs - clock.now()), go, true);
  }

  async #fetchMail(execution: Execution): Promise<void> {
    try {
      const mail = await this.store.runs.mail(execution.id, execution.heard);
      if (!execution.gone) execution.receive(mail);
      // It has left meanwhile, and its mail has made it due.
      else if (mail.length > 0 && this.#auto) this.#look();
    } catch {
      // The next renewal tells of it again.
    }
  }

  /** Looks for work now; if it is doing so already, once more afterwards. */
  #look(): void {
    if (this.#stopped) return;
    if (this.#claiming !== undefined) {
      this.#claimAgain = true;
      return;
    }
    void this.#claim().catch(() => {});
  }

  async #claim(): Promise<number> {
    if (this.#claiming !== undefined) return await this.#claiming;
    this.#claimAgain = false;
    this.#claiming = runOutside(() => this.#claimNow());
    let nextMs = this.#pollMs;
    try {
      return await this.#claiming;
    } catch (error) {
      nextMs = this.#pollMs;
      throw error;
    } finally {
      this.#claiming = undefined;
      if (this.#auto && !this.#stopped) this.#scheduleLook(this.#claimAgain && !this.crowded() ? 0 : nextMs);
    }
  }

  async #claimNow(): Promise<number> {
    // Nobody would renew what it claims.
    if (this.#stopped) return 0;
    const limit = Math.min(this.#concurrency - this.#live.size, 100);
    if (limit <= 0) {
      this.#claimAgain = true;
      return 0;
    }
    const { owner, leaseMs, workflows } = this;
    if (workflows.length === 0) return 0;
    const askedAt = this.store.clock.now();
    const { now, claimed, nextAt } = await this.store.runs.claim({ owner, workflows, leaseMs, limit });
    this.learn(now);
    // All of them, also when one fails: a run that is on its way here must not be given back meanwhile.
    await Promise.allSettled(claimed.map((each) => this.#adopt(each, askedAt)));
    if (claimed.length === limit) this.#claimAgain = true;
    else if (nextAt !== null) this.#scheduleLook(nextAt - this.now());
    return claimed.length;
  }

  #scheduleLook(ms: number): void {
    if (!this.#auto || this.#stopped) return;
    const at = this.store.clock.now() + Math.max(0, Math.min(ms, this.#pollMs));
    if (at >= this.#lookAt) return;
    this.#cancelLook();
    this.#lookAt = at;
    const go = () => {
      this.#lookAt = Number.POSITIVE_INFINITY;
      this.#look();
    };
    this.#cancelLook = this.store.clock.after(Math.max(0, at - this.store.clock.now()), go, this.#background);
  }

  async #adopt(claimed: Claimed, heldAt: number): Promise<void> {
    const { run, lapsed, journal, mail: unread, hooks } = claimed;
    const workflow = (this.#named ?? definedWorkflows()).get(run.workflow);
    let history: History;
    let args: unknown[];
    try {
      history = new History(journal);
      history.deliveries = await withLongValues(this.store, run.id, history.deliveries);
      args = decode(await broughtBack(this.store, run.id, run.input)) as unknown[];
    } catch (error) {
      // When the store is away, the next renewal finds that the run is ours and not here.
      if (error instanceof UnreachableError || error instanceof NotKnownError) throw error;
      return await this.#putAside(claimed, error);
    }
    const mail = history.parked === undefined ? unread : await this.store.runs.mail(run.id, history.parked);
    if (workflow === undefined || this.#live.has(run.id)) return;
    const seq = (journal.at(-1)?.seq ?? 0) + 1;
    const startedAt = run.startedAt ?? run.createdAt;
    const execution = new Execution({ host: this, workflow, run, args, startedAt, history, heldAt, seq, lapsed, mail, hooks });
    this.#live.set(run.id, execution);
    execution.run();
  }

  /**
   * It can't be read here: no key for it, or a class that is not registered. Others may be able to. With mail that was not
   * taken in it would be due at once, again and again; so that one is kept until the next renewal gives it back.
   */
  async #putAside({ run, mail }: Claimed, error: unknown): Promise<void> {
    const why = `its input or journal cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    process.emitWarning(`run "${run.id}" is left alone: ${why}`, { type: "OnceflowWarning", code: "ONCEFLOW_RUN_UNREADABLE" });
    if (mail.length > 0) return;
    const then = { kind: "release", wakeAt: this.now() + unreadableRetryMs, status: "diverged", trouble: why } as const;
    const entry = { events: null, consumed: null, hooks: [], children: [], then };
    await this.store.commit({ run: { verb: "append", id: run.id, epoch: run.epoch, seq: 1, entry } });
  }

  /** Its predecessor wrote one more entry before it noticed. If the run is still ours, we go on from there. */
  async #reload({ id, epoch, heldAt }: Pick<Execution, "id" | "epoch" | "heldAt">): Promise<void> {
    this.#reloading.add(id);
    try {
      const now = await this.store.runs.load(id);
      if (now === undefined || hasEnded(now.run.status) || now.run.owner !== this.owner || now.run.epoch !== epoch) return;
      if (!this.#stopped) await this.#adopt({ ...now, lapsed: true }, heldAt);
    } catch {
      // The next renewal finds it again.
    } finally {
      this.#reloading.delete(id);
    }
  }

  // ——— leases

  #scheduleRenew(ms: number): void {
    this.#cancelRenew = this.store.clock.after(ms, () => void this.#renew(), true);
  }

  async #renew(): Promise<void> {
    let nextMs = Math.max(10, this.leaseMs / 3);
    this.#renewing = true;
    this.#renewAgain = false;
    this.#lease.alive();
    const sentAt = this.store.clock.now();
    const held = [...this.#live.values()].filter((execution) => !this.#starting.has(execution.id));
    try {
      const renewed = await this.store.runs.renew({ owner: this.owner, leaseMs: this.leaseMs });
      this.#renewedAt = sentAt;
      const still = new Map(renewed.map((each) => [each.id, each]));
      for (const execution of held) {
        const mine = still.get(execution.id);
        if (execution.gone || this.#live.get(execution.id) !== execution) continue;
        if (mine?.epoch !== execution.epoch) {
          execution.lose(lost(execution, "another worker has taken the run over"));
          continue;
        }
        execution.held(sentAt);
        if (mine.mail > execution.heard) void this.#fetchMail(execution);
      }
      void this.#giveBack(renewed.filter(({ id }) => !this.#live.has(id)));
      if (this.#renewAgain) nextMs = 0;
    } catch {
      if (this.store.clock.now() - this.#renewedAt >= this.leaseMs)
        for (const execution of held) execution.lose(lost(execution, "the store could not be reached for a whole lease"));
    }
    this.#renewing = false;
    if (!this.#stopped || this.#live.size > 0) this.#scheduleRenew(nextMs);
  }

  /**
   * Ours in the store and not here: the reply to a claim was lost, or we gave it up too early. What we may have sent for
   * it could still arrive, and be taken for what a second execution in the same epoch sends; so it is claimed anew.
   */
  async #giveBack(runs: readonly Renewed[]): Promise<void> {
    // Those may just be on their way to us.
    if (runs.length > 0) await this.#claiming?.catch(() => {});
    for (const { id, epoch } of runs) {
      if (this.#live.has(id) || this.#reloading.has(id)) continue;
      const then = { kind: "release", wakeAt: 0, status: "running", trouble: null } as const;
      const entry = { events: null, consumed: null, hooks: [], children: [], then };
      // Refused when it is ours no longer; when it fails, the next renewal finds it again.
      await this.store.commit({ run: { verb: "append", id, epoch, seq: 1, entry } }).catch(() => {});
    }
  }

  // ——— waiting for an end

  #atRest(): boolean {
    for (const execution of this.#live.values()) if (!execution.atRest) return false;
    return this.#claiming === undefined;
  }

  #rest(): Promise<void> {
    return this.#atRest() ? Promise.resolve() : new Promise((go) => void this.#resting.push(go));
  }

  async #empty(until: number): Promise<void> {
    while (this.#live.size > 0 && this.store.clock.now() < until) await sleep(this.store.clock, 5);
  }
}

function lost({ id, epoch }: Execution, why: string): LeaseLostError {
  return new LeaseLostError({ scope: "", key: id, attempt: epoch }, why);
}

function checkedDefinition(from: WorkflowFunction, i: number): [string, WorkflowDefinition] {
  const definition = definitionOf(from, `workflows[${i}]`);
  return [definition.name, definition];
}
