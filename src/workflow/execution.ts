import type { Chunk, Voided } from "../core/chunk.js";
import { encodeLater, renamed, withinBytes } from "../core/codec.js";
import { assert } from "../core/errors.js";
import type { HookRecord, Mail, RunRecord } from "../core/run.js";
import type { Entry, HookChange, StartRun, Then } from "../core/run-operation.js";
import type { Store, Tx } from "../core/store.js";
import { encodeError } from "../core/stored-error.js";
import { linkAborts } from "./abort-links.js";
import { ChildRuns } from "./child-runs.js";
import { ChunkBuffer } from "./chunk-buffer.js";
import { runIn } from "./context.js";
import { callSite, type StepDefinition, type WorkflowDefinition } from "./define.js";
import { describe } from "./describe.js";
import type { RunEnd } from "./end-board.js";
import { DivergenceError } from "./errors.js";
import type { Event } from "./event.js";
import type { History } from "./history.js";
import { Hooks } from "./hooks.js";
import type { Departure, Host } from "./host.js";
import { Rest } from "./rest.js";
import { RunStreams } from "./run-streams.js";
import { type Outcome, RunWriter } from "./run-writer.js";
import { Sleeps } from "./sleeps.js";
import { StepCall } from "./step-call.js";
import { checkedKey, inputOf } from "./step-input.js";

/** When a run that has diverged is tried again: matching code may have been deployed by then. */
const divergedRetryMs = 60_000;

export interface ExecutionOptions {
  readonly host: Host;
  readonly workflow: WorkflowDefinition;
  readonly run: Pick<RunRecord, "id" | "epoch" | "consumed" | "parent">;
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
  readonly streams: Settled | undefined;
}

/** What becomes of a step's chunks with its verdict. */
export interface Settled {
  readonly ends: readonly Chunk[];
  readonly voids: readonly Voided[];
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
  readonly parent: string | null;
  readonly host: Host;
  readonly store: Store;
  readonly sleeps = new Sleeps(this);
  readonly hooks: Hooks;
  readonly children = new ChildRuns(this);
  /** What the code writes to streams, and what the bodies of its steps do. */
  readonly streams = new RunStreams(this);
  readonly chunks = new ChunkBuffer(this);
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
  readonly #rest = new Rest(this, this.#open);
  readonly #handlers = new Map<string, (event: Event) => void>();
  readonly #ordinals = new Map<string, number>();
  readonly #writer: RunWriter;
  readonly #draft: RunWriter["draft"];
  #unread: readonly Mail[];
  readonly #consumedBefore: number;
  /** How much of the history the code was told. */
  #told = 0;
  #live = false;
  /** On its way back to the store before its replay was over: nothing more is done here. */
  #returning = false;
  #deliveries: Delivery[] = [];
  #heard: number;
  /** What the code's own clock says: the time of what it was last told. */
  #clock: number;

  #unreadable: string | undefined;
  #result: RunEnd | undefined;
  /** The code has returned, and what it returned is being read. */
  #reading = false;
  #wrappingUp = false;
  #ending = false;
  #leaving = false;

  constructor({ host, workflow, run, args, startedAt, create, history, heldAt, seq, lapsed, mail, hooks }: ExecutionOptions) {
    this.host = host;
    this.store = host.store;
    this.workflow = workflow;
    this.id = run.id;
    this.epoch = run.epoch;
    this.parent = run.parent;
    this.startedAt = history.startedAt ?? startedAt;
    this.#args = args;
    this.#history = history;
    this.#writer = new RunWriter(this, create, seq, heldAt);
    this.#draft = this.#writer.draft;
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
    if (this.#unreadable !== undefined) return this.#parkUnread(this.#unreadable);
    if (this.#tellNext()) return this.host.touch(this);
    if (!this.#live) {
      this.#goLive();
      return this.host.touch(this);
    }
    if (this.#result !== undefined && !this.#ending) this.#wrapUp();
    if (!this.#writer.busy) this.#commitOrRest();
  }

  // ——— what the code asks for

  step(definition: StepDefinition, args: readonly unknown[]): Promise<unknown> {
    const { key } = definition.options();
    const { name } = definition;
    const id = key === undefined ? this.ordinal(name) : `${name}:${checkedKey(name, (key as (...args: unknown[]) => unknown)(...args))}`;
    const existing = this.#calls.get(id);
    if (existing) return existing.promise;
    const { print, input } = inputOf(args, linkAborts(this, id, args));
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
    this.#draft.record(event);
    this.host.touch(this);
  };

  afterCommit(go: () => void): void {
    this.#draft.afterCommit(go);
  }

  changeHook(change: HookChange): void {
    this.#draft.changeHook(change);
  }

  /** The entry that is being drafted waits for this. What it rejects with, the run fails with. */
  readFirst(reading: Promise<void>): void {
    this.#draft.waitFor(reading.catch((error: unknown) => this.#threw(error)));
  }

  startChild(child: StartRun): void {
    this.#draft.startChild(child);
  }

  /** A chunk of the code's own: in its stream when the entry that says so is in the journal. */
  writeChunk(chunk: Chunk): void {
    this.#draft.writeChunks([chunk]);
  }

  /** Something for the code: it is told, and the telling recorded, when its turn comes. */
  deliver(event: Event | null, mail?: number, streams?: Settled): void {
    this.#deliveries.push({ event, mail, streams });
    this.host.touch(this);
  }

  /** A promise only where something has to be read first: see `encodeLater`. */
  encodeValue(value: unknown): string | Promise<string> {
    const { valueBytesMax } = this.store;
    const text = encodeLater(value, valueBytesMax);
    const bounded = (read: string) => withinBytes("value", read, valueBytesMax);
    return typeof text === "string" ? bounded(text) : text.then(bounded);
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
    return this.#writer.heldAt;
  }

  /** The store says that the run is ours. It was asked at `askedAt`, by this process's clock. */
  held(askedAt: number): void {
    this.#writer.held(askedAt);
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
    this.#writer.dropStarts();
    if (this.gone || this.#writer.busy || this.#ending || this.#returning) return;
    // What has been read by half is not written: the next owner begins where the journal ends.
    if (this.#draft.unready) return this.leave({ why: "lost" });
    this.#draft.withholdStarts();
    this.#returning = !this.#live;
    if (this.#returning) this.#recordClaim();
    this.#commit(this.#handedBack());
  }

  lose(reason: unknown): void {
    if (this.gone) return;
    for (const call of this.#open) call.abort(reason);
    this.leave({ why: "lost" });
  }

  /** Nothing is under way here: it waits for time or mail. */
  get atRest(): boolean {
    return this.#live && !this.#writer.busy && !this.#draft.hasEvents && this.#deliveries.length === 0 && !this.#busy();
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
    if (this.#writer.inTransaction) return false;
    if (this.#result !== undefined) {
      // Over: verdicts of what still ran are recorded, and told to nobody; whatever else comes in is for nobody.
      for (const { event, streams } of this.#deliveries.splice(0)) {
        if ((event?.[0] !== "done" && event?.[0] !== "fail") || this.#ending) continue;
        this.record(event);
        if (streams) this.#draft.writeChunks(streams.ends, streams.voids);
      }
      return false;
    }
    const next = this.#deliveries.shift();
    if (next === undefined) return false;
    // Mail that was put aside has been taken in before.
    if (next.mail !== undefined) this.#draft.consume(Math.max(next.mail, this.#consumedBefore));
    if (next.event === null) return true;
    this.#draft.record(next.event);
    if (next.streams) this.#draft.writeChunks(next.streams.ends, next.streams.voids);
    const handler = this.#handlers.get(next.event[1]);
    assert(handler !== undefined, `somebody is told of ${next.event[1]}`);
    this.#tell(next.event, handler);
    return true;
  }

  #tell(event: Event, handler: (event: Event) => void): void {
    this.#clock = Math.max(this.#clock, event[2]);
    try {
      handler(event);
    } catch (error) {
      // A stored value that can't be read here: its class or step is not defined in this process, say.
      this.#unreadable = `${describe(event)} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  /** The code was told all that the journal has, and waits. From here on things happen. */
  #goLive(): void {
    const [left] = this.#history.requests.values();
    if (left !== undefined)
      return this.#diverge(describe(left), this.#result === undefined ? "the code waits for something else" : "the code has ended");
    this.#live = true;
    this.#recordClaim();
    if (this.#history.parked !== undefined) this.record(["unpark", "mail", this.now()]);
    if (this.#result === undefined) for (const call of this.#open) call.resume(this.#history.attempts.get(call.id) ?? []);
    this.hooks.resume();
    this.children.resume();
    this.receive(this.#unread);
    this.#unread = [];
    this.#rest.fire();
  }

  /** Its last owner may not know yet that it is one no longer: this entry takes the place of whatever it would write. */
  #recordClaim(): void {
    if (this.#lapsed) this.record(["claim", this.host.owner, this.now()]);
  }

  #diverge(expected: string, found: string): void {
    const where = found.startsWith("the code asks") || found.startsWith("the same call") ? callSite() : this.workflow.where;
    this.#park(new DivergenceError(this.id, expected, found, where).message);
  }

  /**
   * The code can't be told what it is to be told next: whoever can read it goes on. While it is live that is mail, which
   * is not taken in yet; the run is given back with the next renewal, and what is not committed did not happen.
   */
  #parkUnread(why: string): void {
    if (this.#writer.busy) return;
    if (!this.#live) return this.#park(`${why}. The run is parked, and goes on in a process that can read it.`);
    process.emitWarning(`run "${this.id}" is given back: ${why}`, { type: "OnceflowWarning", code: "ONCEFLOW_RUN_UNREADABLE" });
    this.lose(new Error(why));
  }

  #park(trouble: string): void {
    if (this.gone || this.#returning) return;
    this.#returning = true;
    this.#draft.discard();
    this.#deliveries.length = 0;
    this.#history.deliveries.length = 0;
    this.#recordClaim();
    const now = this.now();
    if (this.#unread.some(({ kind }) => kind === "cancel")) {
      // No code is needed for that.
      this.#draft.record(["cancel", "run", now]);
      this.#draft.record(["end", "cancelled", now, null]);
      return this.#commit({ kind: "end", status: "cancelled", output: null });
    }
    const last = this.#unread.at(-1)?.seq ?? 0;
    if (last > this.#consumedBefore) {
      // Mail that is not taken in would make the run due again, at once and for ever.
      this.#draft.record(["park", "mail", now, this.#heard]);
      this.#draft.consume(last);
    }
    this.#commit({ kind: "release", wakeAt: now + divergedRetryMs, status: "diverged", trouble });
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
      const output = this.encodeValue(value);
      if (typeof output === "string") return this.#ended({ status: "completed", output });
      this.#reading = true;
      output.then(
        (read) => this.#ended({ status: "completed", output: read }),
        (error: unknown) => this.#threw(renamed("the result", error)),
      );
    } catch (error) {
      this.#threw(renamed("the result", error));
    }
  }

  #threw(error: unknown): void {
    this.#ended({ status: "failed", output: encodeError(error, { stack: true }) });
  }

  #ended(result: RunEnd): void {
    this.#reading = false;
    if (this.#result !== undefined || this.gone) return;
    this.#result = result;
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
    if (this.#writer.inTransaction) return;
    // What has not begun will not begin, also when the entry that would begin it is on its way.
    const unwritten = this.#draft.withholdStarts();
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

  // ——— commits

  #commitOrRest(): void {
    if (this.#draft.unready) return void this.#draft.unready.then(() => this.host.touch(this));
    if (this.#result !== undefined) {
      const then: Then = this.#ending ? { kind: "end", ...this.#result } : { kind: "hold" };
      if (this.#ending || this.#draft.hasEvents) this.#commit(then);
      return;
    }
    if (this.#leaving) return this.#handBackOrWait();
    const leaving = this.#rest.leaving({ busy: this.#busy(), drafted: this.#draft.hasEvents });
    if (leaving !== undefined) this.#commit(leaving);
    // A run that asks for nothing yet, and waits for a promise of its own making, has to be in the store all the same.
    // Mail that nothing followed from waits for the next entry: a late copy of a write without events could undo a later one.
    else if (this.#draft.hasEvents || this.#writer.mustCreate) this.#commit({ kind: "hold" });
    else this.#rest.wait();
  }

  #handBackOrWait(): void {
    // They are the next owner's to begin.
    const withheld = this.#draft.withholdStarts();
    for (const call of this.#open) if (withheld.has(call.id)) call.withhold();
    if (![...this.#open].some((call) => call.busy)) return this.#commit(this.#handedBack());
    if (this.#draft.hasEvents) this.#commit({ kind: "hold" });
  }

  #handedBack(): Then {
    return { kind: "release", wakeAt: this.now(), status: "running", trouble: null };
  }

  #busy(): boolean {
    for (const call of this.#open) if (call.busy) return true;
    return this.children.looking || this.hooks.pending || this.#reading;
  }

  #commit(then: Then): void {
    this.#rest.stop();
    void this.#writer.commit(then);
  }

  written({ hooks, then }: Entry, conflicts: readonly string[]): void {
    if (then.kind === "end") return this.leave({ why: "ended", status: then.status, output: then.output });
    if (then.kind === "release") return this.leave({ why: "released", wakeAt: then.wakeAt });
    this.hooks.made(hooks, conflicts);
    this.host.touch(this);
  }

  /** Runs `work` in a transaction in which the journal is written, too: see the writer's. */
  async within(work: (tx: Tx, journal: (event: Event) => Promise<void>) => Promise<void>): Promise<Outcome> {
    const outcome = await this.#writer.within(work);
    if (!this.gone) this.host.touch(this);
    return outcome;
  }

  tell(event: Event): void {
    if (this.#result === undefined) this.#tell(event, this.#handlers.get(event[1]) as (event: Event) => void);
  }

  leave(departure: Departure): void {
    if (this.gone) return;
    this.departure = departure;
    this.#rest.stop();
    this.#writer.ended();
    this.host.left(this, departure);
  }
}

/** For code that has no future here. */
export function never<T>(): Promise<T> {
  return new Promise(() => {});
}
