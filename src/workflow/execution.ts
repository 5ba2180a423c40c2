import { decode, encode, encodeError } from "../core/codec.js";
import { assert, InvalidInputError } from "../core/errors.js";
import type { HookRecord, Mail, RunRecord } from "../core/run.js";
import type { Append, Entry, HookChange, StartRun, Then } from "../core/run-operation.js";
import type { Store, Tx } from "../core/store.js";
import { ChildRuns } from "./child-runs.js";
import { runIn } from "./context.js";
import { callSite, type StepDefinition, type WorkflowDefinition } from "./define.js";
import { describe } from "./describe.js";
import type { RunEnd } from "./end-board.js";
import { DivergenceError } from "./errors.js";
import { type Event, encodeEvents } from "./event.js";
import type { History } from "./history.js";
import { Hooks } from "./hooks.js";
import type { Departure, Host } from "./host.js";
import { fingerprint } from "./identity.js";
import { Sleeps } from "./sleeps.js";
import type { BodyOutcome } from "./step-body.js";
import { StepCall } from "./step-call.js";

/** A timer that is nearer than this is waited for in memory; for a later one the run leaves it. */
const keepMs = 1000;
/** How long a run that waits for a hook or a child stays in memory, in case it comes soon. */
const idleMs = 200;
/** When a run that has diverged is tried again: matching code may have been deployed by then. */
const divergedRetryMs = 60_000;

export interface ExecutionOptions {
  readonly host: Host;
  readonly workflow: WorkflowDefinition;
  readonly run: Pick<RunRecord, "id" | "epoch" | "consumed">;
  readonly args: readonly unknown[];
  readonly startedAt: number;
  /** Not in the store yet: its first commit creates it. */
  readonly create?: Omit<StartRun, "first">;
  /** As it was claimed. */
  readonly history: History;
  /** By this process's clock: when the store was asked for what made the run ours. */
  readonly heldAt: number;
  readonly seq: number;
  readonly lapsed: boolean;
  readonly mail: readonly Mail[];
  readonly hooks: readonly HookRecord[];
}

interface Delivery {
  /** Null: mail that is taken in without telling the code. */
  readonly event: Event | null;
  readonly mail: number | undefined;
}

/**
 * One run, alive in this process.
 *
 * The code is told one thing at a time, and the next only when all that follows from it has run. Whatever it asks for
 * and whatever it is told is recorded in one order; a replay tells it the same things in the same order, so it asks for
 * the same things. What was recorded is committed as one journal entry whenever the code waits, and nothing that others
 * can see happens before the commit that says so. Dying anywhere loses only what was not committed, which nobody has seen.
 */
export class Execution {
  readonly kind = "workflow";
  readonly id: string;
  readonly workflow: WorkflowDefinition;
  readonly startedAt: number;
  readonly epoch: number;
  readonly host: Host;
  readonly store: Store;
  readonly sleeps = new Sleeps(this);
  readonly hooks: Hooks;
  readonly children = new ChildRuns(this);
  /** Ended, released, taken over or lost: nothing of it counts any more. */
  departure: Departure | undefined;
  /** How many random numbers and UUIDs the code has drawn. */
  draws = 0;
  /** The worker's note that it is to be advanced. */
  touched = false;

  readonly #args: readonly unknown[];
  readonly #history: History;
  readonly #lapsed: boolean;
  readonly #calls = new Map<string, StepCall>();
  /** Those that the code was not told the end of: a run of a thousand steps looks at one of them, not at all. */
  readonly #open = new Set<StepCall>();
  readonly #handlers = new Map<string, (event: Event) => void>();
  readonly #ordinals = new Map<string, number>();
  #create: Omit<StartRun, "first"> | undefined;
  #unread: readonly Mail[];
  readonly #consumedBefore: number;
  #heldAt: number;
  #seq: number;
  /** How much of the history the code was told. */
  #told = 0;
  #live = false;
  /** On its way back to the store before its replay was over: nothing more is done here. */
  #returning = false;
  #deliveries: Delivery[] = [];
  #heard: number;
  /** What the code's own clock says: the time of what it was last told. */
  #clock: number;

  // Recorded, and not committed yet.
  #events: Event[] = [];
  #hookChanges: HookChange[] = [];
  #newChildren: StartRun[] = [];
  #consumed: number | null = null;
  #afterCommit: (() => void)[] = [];
  /** Committed, and to begin as soon as the run is known to be ours. */
  #committedStarts: (() => void)[] = [];
  #committing = false;
  readonly #waitingToCommit: (() => void)[] = [];
  #inTransaction = false;

  #result: RunEnd | undefined;
  #wrappingUp = false;
  #ending = false;
  #leaving = false;
  #idleSince: number | undefined;
  #cancelTimer: (() => void) | undefined;

  constructor({ host, workflow, run, args, startedAt, create, history, heldAt, seq, lapsed, mail, hooks }: ExecutionOptions) {
    this.host = host;
    this.store = host.store;
    this.workflow = workflow;
    this.id = run.id;
    this.epoch = run.epoch;
    this.startedAt = history.startedAt ?? startedAt;
    this.#args = args;
    this.#create = create;
    this.#history = history;
    this.#heldAt = heldAt;
    this.#seq = seq;
    this.#lapsed = lapsed;
    this.#unread = mail;
    this.#consumedBefore = run.consumed;
    this.#heard = history.parked ?? run.consumed;
    this.#clock = this.startedAt;
    this.hooks = new Hooks(this, hooks);
    this.on("run", () => this.#cancel());
  }

  /** Calls the function. It runs until it waits; everything after that is `advance`. */
  run(): void {
    const fn = this.workflow.fn as (...args: readonly unknown[]) => unknown;
    runIn(this, () => {
      new Promise((resolve) => resolve(fn(...this.#args))).then(
        (value) => this.#finished(value),
        (error: unknown) => this.#threw(error),
      );
    });
    this.host.touch(this);
  }

  /** Called when every promise that was ready has run: the code waits, or is over. */
  advance(): void {
    if (this.gone || this.#returning) return;
    if (this.#tellNext()) return this.host.touch(this);
    if (!this.#live) {
      this.#goLive();
      return this.host.touch(this);
    }
    if (this.#result !== undefined && !this.#ending) this.#wrapUp();
    if (!this.#committing) this.#commitOrRest();
  }

  // ——— what the code asks for

  step(definition: StepDefinition, args: readonly unknown[]): Promise<unknown> {
    const { key } = definition.options();
    const { name } = definition;
    const id = key === undefined ? this.ordinal(name) : `${name}:${checkedKey(name, (key as (...args: unknown[]) => unknown)(...args))}`;
    const existing = this.#calls.get(id);
    if (existing) return existing.promise;
    const { print, input } = inputOf(args);
    const asked = this.request(id, () => ["step", id, this.now(), 1, print]);
    if (asked === undefined) return never();
    const call = new StepCall(this, definition, id, input, print);
    this.#calls.set(id, call);
    this.#open.add(call);
    this.on(id, (event) => {
      this.#open.delete(call);
      call.settle(event);
    });
    const { event, known } = asked;
    if (known && (event[0] !== "step" || event[4] !== print)) {
      this.#diverge(`${describe(event)} with the arguments it had`, "the same call with other arguments");
      return never();
    }
    if (!known) call.begin(event[2]);
    return call.promise;
  }

  /** "name#0", "name#1", …: how many times this was asked for before in this run. */
  ordinal(name: string): string {
    const n = this.#ordinals.get(name) ?? 0;
    this.#ordinals.set(name, n + 1);
    return `${name}#${n}`;
  }

  /**
   * The code asks for something. What the journal has under this id is its answer; else it is recorded. Undefined when
   * the journal goes on with something else: the code is not the one that wrote it.
   */
  request(id: string, make: () => Event): { readonly event: Event; readonly known: boolean } | undefined {
    if (this.gone || this.#result !== undefined) return undefined;
    const known = this.#history.requests.get(id);
    if (known) {
      this.#history.requests.delete(id);
      return { event: known, known: true };
    }
    const event = make();
    const next = this.#history.deliveries[this.#told];
    if (!this.#live && next !== undefined) {
      this.#diverge(describe(next), `the code asks for ${describe(event)}`);
      return undefined;
    }
    this.record(event);
    return { event, known: false };
  }

  on(id: string, handler: (event: Event) => void): void {
    this.#handlers.set(id, handler);
  }

  /** The code's own clock: stands still between two things it is told, and is the same at every replay. */
  get codeClock(): number {
    return this.#clock;
  }

  // ——— what is recorded

  readonly now = (): number => this.host.now();

  readonly record = (event: Event): void => {
    this.#events.push(event);
    this.host.touch(this);
  };

  afterCommit(go: () => void): void {
    this.#afterCommit.push(go);
  }

  changeHook(change: HookChange): void {
    this.#hookChanges.push(change);
  }

  startChild(child: StartRun): void {
    this.#newChildren.push(child);
  }

  /** Something for the code: it is told, and the telling recorded, when its turn comes. */
  deliver(event: Event | null, mail?: number): void {
    this.#deliveries.push({ event, mail });
    this.host.touch(this);
  }

  encodeValue(value: unknown): string {
    const text = encode(value);
    const { valueBytesMax } = this.store;
    if (text.length * 3 > valueBytesMax && Buffer.byteLength(text) > valueBytesMax)
      throw new InvalidInputError("value", `is ${Buffer.byteLength(text)} bytes long when encoded, and ${valueBytesMax} are kept`);
    return text;
  }

  /** Mail that came while the run is here. */
  receive(mail: readonly Mail[]): void {
    if (!this.#live) {
      this.#unread = [...this.#unread, ...mail];
      return;
    }
    for (const each of mail) {
      if (each.seq <= this.#heard) continue;
      this.#heard = each.seq;
      this.#take(each);
    }
  }

  /** Something came in that the code was not told. */
  get hasUntold(): boolean {
    return this.#deliveries.length > 0 || this.#unread.length > 0;
  }

  get heard(): number {
    return this.#heard;
  }

  get gone(): boolean {
    return this.departure !== undefined;
  }

  get heldAt(): number {
    return this.#heldAt;
  }

  /** The store says that the run is ours. It was asked at `askedAt`, by this process's clock. */
  held(askedAt: number): void {
    this.#heldAt = askedAt;
    this.#beginStarts();
  }

  // ——— leaving

  /** The run goes back to the store as soon as no body runs. */
  handBack(): void {
    this.#leaving = true;
    this.host.touch(this);
  }

  /** The bound is over: bodies that still run are on their own, and the next owner will see that they began. */
  abandon(reason: unknown): void {
    for (const call of this.#open) call.abort(reason);
    this.#committedStarts = [];
    if (this.gone || this.#committing || this.#ending || this.#returning) return;
    this.#withholdStarts();
    this.#returning = !this.#live;
    if (this.#returning) this.#recordClaim();
    void this.#commit(this.#handedBack());
  }

  lose(reason: unknown): void {
    if (this.gone) return;
    for (const call of this.#open) call.abort(reason);
    this.#leave({ why: "lost" });
  }

  /** Nothing is under way here: it waits for time or mail. */
  get atRest(): boolean {
    return this.#live && !this.#committing && this.#events.length === 0 && this.#deliveries.length === 0 && !this.#busy();
  }

  callBy(stepId: string): StepCall | undefined {
    for (const call of this.#calls.values()) if (call.stepId === stepId) return call;
    return undefined;
  }

  // ——— replay

  #tellNext(): boolean {
    const event = this.#history.deliveries[this.#told];
    if (event === undefined) return this.#live && this.#tellLive();
    const handler = this.#handlers.get(event[1]);
    this.#told += 1;
    if (handler) this.#tell(event, handler);
    // Verdicts of what the code had left behind when it ended.
    else if (this.#result === undefined) this.#diverge(describe(event), "the code did not ask for it");
    return !this.gone;
  }

  #tellLive(): boolean {
    if (this.#inTransaction || this.#result !== undefined) {
      if (this.#inTransaction) return false;
      // Over: verdicts of what still ran are recorded, and told to nobody; whatever else comes in is for nobody.
      for (const { event } of this.#deliveries.splice(0))
        if ((event?.[0] === "done" || event?.[0] === "fail") && !this.#ending) this.record(event);
      return false;
    }
    const next = this.#deliveries.shift();
    if (next === undefined) return false;
    // Mail that was put aside has been taken in before.
    if (next.mail !== undefined) this.#consumed = Math.max(next.mail, this.#consumedBefore);
    if (next.event === null) return true;
    this.#events.push(next.event);
    const handler = this.#handlers.get(next.event[1]);
    assert(handler !== undefined, `somebody is told of ${next.event[1]}`);
    this.#tell(next.event, handler);
    return true;
  }

  #tell(event: Event, handler: (event: Event) => void): void {
    this.#clock = Math.max(this.#clock, event[2]);
    handler(event);
  }

  /** The code was told all that the journal has, and waits. From here on things happen. */
  #goLive(): void {
    const [left] = this.#history.requests.values();
    if (left !== undefined)
      return this.#diverge(describe(left), this.#result === undefined ? "the code waits for something else" : "the code has ended");
    this.#live = true;
    this.#recordClaim();
    if (this.#history.parked !== undefined) this.record(["unpark", "mail", this.now()]);
    if (this.#result === undefined) for (const [id, log] of this.#history.attempts) this.#calls.get(id)?.resume(log);
    this.hooks.resume();
    this.children.resume();
    this.receive(this.#unread);
    this.#unread = [];
    this.#fireTimers();
  }

  /** Its last owner may not know yet that it is one no longer: this entry takes the place of whatever it would write. */
  #recordClaim(): void {
    if (this.#lapsed) this.record(["claim", this.host.owner, this.now()]);
  }

  #diverge(expected: string, found: string): void {
    if (this.gone || this.#returning) return;
    this.#returning = true;
    const where = found.startsWith("the code asks") || found.startsWith("the same call") ? callSite() : this.workflow.where;
    const trouble = new DivergenceError(this.id, expected, found, where).message;
    for (const discarded of [this.#events, this.#hookChanges, this.#newChildren, this.#afterCommit, this.#deliveries]) discarded.length = 0;
    this.#consumed = null;
    this.#history.deliveries.length = 0;
    this.#recordClaim();
    const now = this.now();
    if (this.#unread.some(({ kind }) => kind === "cancel")) {
      // No code is needed for that.
      this.#events.push(["cancel", "run", now], ["end", "cancelled", now, null]);
      return void this.#commit({ kind: "end", status: "cancelled", output: null });
    }
    const last = this.#unread.at(-1)?.seq ?? 0;
    if (last > this.#consumedBefore) {
      // Mail that is not taken in would make the run due again, at once and for ever.
      this.#events.push(["park", "mail", now, this.#heard]);
      this.#consumed = last;
    }
    void this.#commit({ kind: "release", wakeAt: now + divergedRetryMs, status: "diverged", trouble });
  }

  // ——— mail

  #take({ seq, kind, about, payload }: Mail): void {
    switch (kind) {
      case "hook":
        return this.hooks.receive(about ?? "", payload ?? "", seq);
      case "child":
        return this.children.ended(about ?? "", payload ?? "[]", seq);
      case "wake":
        this.deliver(null, seq);
        return this.sleeps.wakeAll();
      case "cancel":
        return this.deliver(["cancel", "run", this.now()], seq);
      case "resolve": {
        const { attempt, to } = JSON.parse(payload ?? "{}") as { attempt: number; to: Parameters<StepCall["resolve"]>[1] };
        this.deliver(null, seq);
        return this.callBy(about ?? "")?.resolve(attempt, to);
      }
    }
  }

  // ——— the end

  #finished(value: unknown): void {
    if (this.#result !== undefined || this.gone) return;
    try {
      this.#result = { status: "completed", output: this.encodeValue(value) };
    } catch (error) {
      this.#result = { status: "failed", output: encodeError(error) };
    }
    this.host.touch(this);
  }

  #threw(error: unknown): void {
    if (this.#result !== undefined || this.gone) return;
    this.#result = { status: "failed", output: encodeError(error) };
    this.host.touch(this);
  }

  #cancel(): void {
    if (this.#result !== undefined) return;
    this.#result = { status: "cancelled", output: null };
    this.host.touch(this);
  }

  /** What still runs is aborted and gets its grace; its verdict is journaled; then the run ends. */
  #wrapUp(): void {
    // What is being written may yet be rolled back.
    if (this.#inTransaction) return;
    // What has not begun will not begin, also when the entry that would begin it is on its way.
    const unwritten = this.#withholdStarts();
    for (const call of this.#open) {
      if (call.state === "starting") call.withdraw(!unwritten.has(call.id));
      // Nor is it asked about, waited for or tried again.
      else if (call.state !== "running") call.state = "settled";
    }
    const running = [...this.#open].filter((call) => call.state === "running");
    if (running.length > 0) {
      if (this.#wrappingUp) return;
      this.#wrappingUp = true;
      const reason = new Error(this.#result?.status === "cancelled" ? "the run was cancelled" : "the run has ended");
      for (const call of running) call.abort(reason);
      const graceMs = Math.max(...running.map((call) => call.definition.options().graceMs));
      this.store.clock.after(graceMs, () => {
        for (const call of running) call.abandon();
        this.host.touch(this);
      });
      return;
    }
    this.#ending = true;
    const { status, output } = this.#result as RunEnd;
    this.record(["end", status, this.now(), output]);
  }

  /**
   * Attempts whose entry is not on its way yet will not begin here. What the code asked for stays in the journal, as not
   * begun: without it, a replay would ask for it where the journal goes on with something else. Retries are left out.
   */
  #withholdStarts(): ReadonlySet<string> {
    const withheld = new Set<string>();
    this.#events = this.#events.flatMap((event) => {
      if (event[0] !== "step") return [event];
      withheld.add(event[1]);
      return event[3] > 1 ? [] : [event.with(3, 0) as unknown as Event];
    });
    this.#afterCommit = [];
    return withheld;
  }

  // ——— commits

  #commitOrRest(): void {
    if (this.#result !== undefined) {
      const then: Then = this.#ending ? { kind: "end", ...this.#result } : { kind: "hold" };
      if (this.#ending || this.#events.length > 0) void this.#commit(then);
      return;
    }
    if (this.#leaving) return this.#handBackOrWait();
    const rest = this.#rest();
    if (rest !== undefined) void this.#commit(rest);
    // A run that asks for nothing yet, and waits for a promise of its own making, has to be in the store all the same.
    // Mail that nothing followed from waits for the next entry: a late copy of a write without events could undo a later one.
    else if (this.#events.length > 0 || this.#create) void this.#commit({ kind: "hold" });
    else this.#armTimer();
  }

  #handBackOrWait(): void {
    // They are the next owner's to begin.
    const withheld = this.#withholdStarts();
    for (const call of this.#open) if (withheld.has(call.id)) call.withhold();
    if (![...this.#open].some((call) => call.busy)) return void this.#commit(this.#handedBack());
    if (this.#events.length > 0) void this.#commit({ kind: "hold" });
  }

  #handedBack(): Then {
    return { kind: "release", wakeAt: this.now(), status: "running", trouble: null };
  }

  /** How to leave, when there is nothing to do here for a while. */
  #rest(): Then | undefined {
    const idleSince = this.#idleSince;
    this.#idleSince = undefined;
    if (this.#busy()) return undefined;
    const unknown = [...this.#open].filter((call) => call.state === "unknown");
    const listening = this.hooks.listening || this.children.waiting;
    // A worker with no room must not keep it: the run that it waits for may need that room.
    const look = this.children.elsewhere ? this.now() + keepMs : Number.POSITIVE_INFINITY;
    const timer = Math.min(this.#nextTimer() ?? look, look);
    const wakeAt = timer === Number.POSITIVE_INFINITY ? undefined : timer;
    // It waits for something that is not ours: a promise of its own making. It stays.
    if (wakeAt === undefined && !listening && unknown.length === 0) return undefined;
    if (wakeAt !== undefined && wakeAt - this.now() <= keepMs && !this.host.crowded()) return undefined;
    if (listening && unknown.length === 0 && !this.host.crowded()) {
      this.#idleSince = idleSince ?? this.store.clock.now();
      if (this.#events.length > 0 || this.store.clock.now() - this.#idleSince < idleMs) return undefined;
    }
    const trouble = unknown.map((call) => `step "${call.definition.name}" (${call.stepId}), attempt ${call.attempt}: ${call.doubt}`);
    const status = unknown.length > 0 ? ("unknown" as const) : ("running" as const);
    return { kind: "release", wakeAt: wakeAt ?? null, status, trouble: trouble.length > 0 ? trouble.join("; ") : null };
  }

  #busy(): boolean {
    for (const call of this.#open) if (call.busy) return true;
    return this.children.looking || this.hooks.pending;
  }

  /** One journal entry of all that was recorded. If we die before it is in the store, none of it happened. */
  async #commit(then: Then): Promise<void> {
    const { entry, after } = this.#takeEntry(then);
    this.#committing = true;
    this.#cancelTimer?.();
    const answer = await this.host.commit(this.#operation(entry), () => !this.gone);
    if (this.gone || answer === undefined) return;
    this.#commitEnded();
    if (answer.kind === "exists") return this.#leave({ why: "exists", run: answer.run });
    if (answer.kind !== "created" && answer.kind !== "appended") return this.#leave({ why: "overtaken" });
    this.host.learn(answer.now);
    this.#committed(entry, answer.conflicts, after);
  }

  #commitEnded(): void {
    this.#committing = false;
    for (const go of this.#waitingToCommit.splice(0)) go();
  }

  #committed(entry: Entry, conflicts: readonly string[], after: readonly (() => void)[]): void {
    this.#create = undefined;
    if (entry.events !== null) this.#seq += 1;
    const { then } = entry;
    if (then.kind === "end") return this.#leave({ why: "ended", status: then.status, output: then.output });
    if (then.kind === "release") return this.#leave({ why: "released", wakeAt: then.wakeAt });
    this.hooks.made(entry.hooks, conflicts);
    this.#committedStarts.push(...after);
    this.#beginStarts();
    this.host.touch(this);
  }

  /**
   * A process that was paused for longer than its lease may find its entry written, and the run taken over since: both
   * would be at the same step. So it asks first.
   */
  #beginStarts(): void {
    if (this.#committedStarts.length === 0) return;
    if (this.store.clock.now() - this.#heldAt >= this.host.leaseMs) return this.host.renew();
    for (const go of this.#committedStarts.splice(0)) go();
  }

  #takeEntry(then: Then): { entry: Entry; after: (() => void)[] } {
    const events = this.#events;
    const after = this.#afterCommit;
    const entry = {
      events: events.length > 0 ? encodeEvents(this.#seq === 1 ? stamped(events, this.startedAt) : events) : null,
      consumed: this.#consumed,
      hooks: this.#hookChanges,
      children: this.#newChildren,
      then,
    };
    this.#events = [];
    this.#afterCommit = [];
    this.#hookChanges = [];
    this.#newChildren = [];
    this.#consumed = null;
    return { entry, after };
  }

  #operation(entry: Entry): StartRun | Append {
    const { owner, leaseMs } = this.host;
    if (this.#create) return { ...this.#create, first: { owner, leaseMs, entry } };
    return { verb: "append", id: this.id, epoch: this.epoch, seq: this.#seq, entry };
  }

  /**
   * Runs `work` in a transaction in which the journal is written, too. Until it is over nothing else of this run is
   * committed, and the code is told nothing: so what is told is told in the order of the journal.
   */
  async within(work: (tx: Tx, journal: (event: Event) => Promise<void>) => Promise<void>): Promise<BodyOutcome> {
    while (this.#committing) await new Promise<void>((go) => void this.#waitingToCommit.push(go));
    if (this.gone) return { ok: false, error: new Error("the run has left") };
    this.#committing = true;
    let taken: { entry: Entry; after: (() => void)[]; events: Event[] } | undefined;
    let told: Event | undefined;
    let conflicts: readonly string[] = [];
    try {
      await this.store.transact((tx) =>
        work(tx, async (event) => {
          if (this.gone) throw new Error("the run has left");
          told = event;
          this.#inTransaction = true;
          const events = this.#events;
          this.#events = [...events, event];
          taken = { ...this.#takeEntry({ kind: "hold" }), events };
          const answer = await this.store.runs.appendWithin?.(tx, this.#operation(taken.entry) as Append);
          if (answer?.kind !== "appended") throw new OvertakenError();
          conflicts = answer.conflicts;
        }),
      );
    } catch (error) {
      if (error instanceof OvertakenError) {
        this.#leave({ why: "overtaken" });
        return { ok: false, error };
      }
      if (taken === undefined || !(await this.#wasCommitted(taken.entry))) {
        if (this.gone) return { ok: false, error };
        if (taken) this.#putBack(taken);
        this.#inTransaction = false;
        this.#commitEnded();
        this.host.touch(this);
        return { ok: false, error };
      }
    }
    this.#inTransaction = false;
    this.#commitEnded();
    if (this.gone || taken === undefined || told === undefined) return { ok: false, error: new Error("the run has left") };
    this.#committed(taken.entry, conflicts, taken.after);
    if (this.#result === undefined) this.#tell(told, this.#handlers.get(told[1]) as (event: Event) => void);
    return { ok: true, value: undefined };
  }

  #putBack({ entry, after, events }: { readonly entry: Entry; readonly after: (() => void)[]; readonly events: Event[] }): void {
    this.#events = [...events, ...this.#events];
    this.#afterCommit = [...after, ...this.#afterCommit];
    this.#hookChanges = [...entry.hooks, ...this.#hookChanges];
    this.#newChildren = [...entry.children, ...this.#newChildren];
    this.#consumed = this.#consumed ?? entry.consumed;
  }

  /**
   * The transaction's commit failed, or its reply was lost; then it may be on its way, and come when the body has been
   * run again. So an entry is put in its place, which waits for it, or keeps it out: what is there afterwards is the truth.
   */
  async #wasCommitted({ events }: Entry): Promise<boolean> {
    if ((await this.#entryAt(this.#seq)) === events) return true;
    const fence = encodeEvents([["fence", this.host.owner, this.now()]]);
    const then: Then = { kind: "hold" };
    const entry: Entry = { events: fence, consumed: null, hooks: [], children: [], then };
    const answer = await this.host.commit(this.#operation(entry), () => !this.gone);
    if (this.gone || answer === undefined) return false;
    if (answer.kind !== "appended") {
      this.#leave({ why: "overtaken" });
      return false;
    }
    const there = await this.#entryAt(this.#seq);
    if (there === fence) this.#seq += 1;
    assert(this.gone || there === fence || there === events, "the entry of a transaction is in its place, or the one that keeps it out");
    return there === events;
  }

  async #entryAt(seq: number): Promise<string | undefined> {
    while (!this.gone) {
      try {
        const [there] = await this.store.runs.journal(this.id, seq - 1, 1);
        return there?.events;
      } catch {
        await new Promise<void>((go) => void this.store.clock.after(100, go));
      }
    }
    return undefined;
  }

  #leave(departure: Departure): void {
    if (this.gone) return;
    this.departure = departure;
    this.#cancelTimer?.();
    this.#commitEnded();
    this.host.left(this, departure);
  }

  // ——— time

  #nextTimer(): number | undefined {
    let next = this.sleeps.next();
    for (const { dueAt } of this.#open) if (dueAt !== undefined && (next === undefined || dueAt < next)) next = dueAt;
    return next;
  }

  #armTimer(): void {
    this.#cancelTimer?.();
    const next = this.#nextTimer();
    const idleUntil = this.#idleSince === undefined ? undefined : idleMs - (this.store.clock.now() - this.#idleSince);
    const waits = [next === undefined ? undefined : next - this.now(), idleUntil].filter((ms) => ms !== undefined);
    if (waits.length === 0) return;
    this.#cancelTimer = this.store.clock.after(Math.max(0, Math.ceil(Math.min(...waits))), () => {
      this.#fireTimers();
      this.host.touch(this);
    });
  }

  #fireTimers(): void {
    const now = this.now();
    this.sleeps.fire(now);
    for (const call of this.#open) if (call.dueAt !== undefined && call.dueAt <= now) call.due();
  }
}

/** Thrown inside a transaction, so that it is rolled back. */
class OvertakenError extends Error {}

/** What is no longer than a hash needs none. */
const printLengthMax = 22;

/**
 * What a body is given, and its fingerprint. A copy at every attempt: what a body does to its arguments must not reach
 * the code, which after a replay would not see it.
 */
function inputOf(args: readonly unknown[]): { readonly print: string; readonly input: () => readonly unknown[] } {
  if (args.length === 0) return { print: "", input: () => args };
  try {
    const text = encode(args);
    return { print: text.length <= printLengthMax ? text : fingerprint(text), input: () => decode(text) as unknown[] };
  } catch {
    // Functions and the like can be neither copied nor compared; the order of the calls has to do.
    return { print: "", input: () => args };
  }
}

/** The time of the first event is when the code began: so that a replay's clock begins at the same time. */
function stamped([first, ...rest]: readonly Event[], startedAt: number): Event[] {
  return [first?.with(2, startedAt) as unknown as Event, ...rest];
}

function checkedKey(name: string, key: unknown): string {
  if (typeof key === "string" && key !== "" && key.length <= 256) return key;
  throw new InvalidInputError(`step "${name}": key`, "must return a string of 1 to 256 characters");
}

/** For code that has no future here. */
export function never<T>(): Promise<T> {
  return new Promise(() => {});
}
