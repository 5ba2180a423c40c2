import type { Entry, StartRun, Then } from "../../core/runs/operation.js";
import type { HookRecord, Mail, RunRecord } from "../../core/runs/run.js";
import type { Store, Tx } from "../../core/store/store.js";
import { encodeLater, withinBytes } from "../../core/values/codec.js";
import { runIn } from "../define/context.js";
import type { WorkflowDefinition } from "../define/define.js";
import { RunNotWritableError } from "../define/errors.js";
import { Hooks } from "../hooks/hooks.js";
import { describe } from "../journal/describe.js";
import type { Draft } from "../journal/draft.js";
import type { Delivery, Event } from "../journal/event.js";
import type { History } from "../journal/history.js";
import { messageOf, warnNotWritten } from "../journal/not-written.js";
import { type Outcome, RunWriter } from "../journal/run-writer.js";
import { Deliveries } from "../replay/deliveries.js";
import { ReplayCheck } from "../replay/replay-check.js";
import { Requests } from "../replay/requests.js";
import { StepCalls } from "../steps/step-calls.js";
import { ChunkBuffer } from "../streams/chunk-buffer.js";
import { RunStreams } from "../streams/run-streams.js";
import { stillAvoiding } from "../worker/avoidance.js";
import { HandBack } from "../worker/hand-back.js";
import { Parking } from "../worker/parking.js";
import { RunTrial } from "../worker/trial.js";
import { ChildRuns } from "./child-runs.js";
import { Ending } from "./ending.js";
import type { Departure, Host } from "./host.js";
import { cancelledWithoutCode } from "./left-open.js";
import { Mailbox } from "./mailbox.js";
import { Rest } from "./rest.js";
import { Sleeps } from "./sleeps.js";
import { UnhandledRejections } from "./unhandled-rejections.js";

export interface ExecutionOptions {
  readonly host: Host;
  readonly workflow: WorkflowDefinition;
  readonly run: Pick<RunRecord, "id" | "epoch" | "consumed" | "parent" | "avoid"> &
    Partial<Pick<RunRecord, "deaths" | "crashes" | "alone">>;
  readonly args: readonly unknown[];
  readonly startedAt: number;
  /** The arguments as they are stored: only with these its replay can be checked. */
  readonly input?: string;
  /** Not in the store yet: its first commit creates it. */
  readonly create?: StartRun;
  /** As it was claimed. */
  readonly history: History;
  /** By this process's clock: when the store was asked for what made the run ours. */
  readonly heldAt: number;
  readonly seq: number;
  readonly lapsed: boolean;
  readonly mail: readonly Mail[];
  readonly hooks: readonly HookRecord[];
}

/**
 * One run, alive in this process.
 *
 * The code is told one thing at a time, and the next only when all that follows from it has run. Whatever it asks for
 * and whatever it is told is recorded in one order; a replay tells it the same things in the same order, so it asks for
 * the same things. What was recorded is committed as one journal entry whenever the code waits, and nothing that others
 * can see happens before the commit that says so. Dying anywhere loses only what was not committed, which nobody has seen.
 *
 * replaying: the code is told what the journal has. live: from here on things happen. returning: on its way back to the
 * store before its replay was over; nothing more is done here.
 */
export class Execution {
  readonly kind = "workflow";
  readonly id: string;
  readonly workflow: WorkflowDefinition;
  readonly startedAt: number;
  readonly epoch: number;
  readonly parent: string | null;
  /** Workers that could not execute it. */
  readonly avoid: readonly string[];
  readonly host: Host;
  readonly store: Store;
  /** What the code asks for, and what it is told. */
  readonly requests: Requests;
  readonly deliveries: Deliveries;
  readonly calls = new StepCalls(this);
  readonly sleeps = new Sleeps(this);
  readonly hooks: Hooks;
  readonly children = new ChildRuns(this);
  /** What the code writes to streams, and what the bodies of its steps do. */
  readonly streams = new RunStreams(this);
  readonly chunks = new ChunkBuffer(this);
  readonly mailbox: Mailbox;
  readonly ending: Ending;
  readonly parking = new Parking(this);
  readonly handBack = new HandBack(this);
  readonly rejections: UnhandledRejections;
  /** What the deaths of its owners mean for it. */
  readonly trial: RunTrial;
  readonly writer: RunWriter;
  /** The next entry. */
  readonly draft: Draft;
  /** Ended, released, taken over or lost: nothing of it counts any more. */
  departure: Departure | undefined;
  /** How many random numbers and UUIDs the code has drawn. */
  draws = 0;
  /** The worker's note that it is to be advanced. */
  touched = false;

  readonly #args: readonly unknown[];
  readonly #history: History;
  readonly #lapsed: boolean;
  readonly #rest = new Rest(this);
  readonly #check: ReplayCheck | undefined;
  #state: "replaying" | "live" | "returning" = "replaying";

  constructor({ host, workflow, run, args, startedAt, input, create, history, heldAt, seq, lapsed, mail, hooks }: ExecutionOptions) {
    this.host = host;
    this.store = host.store;
    this.workflow = workflow;
    this.id = run.id;
    this.epoch = run.epoch;
    this.parent = run.parent;
    this.trial = new RunTrial(run);
    this.rejections = new UnhandledRejections(this);
    this.avoid = run.avoid;
    this.startedAt = history.startedAt ?? startedAt;
    this.#args = args;
    this.#history = history;
    this.#lapsed = lapsed;
    const { rehearse } = host;
    this.#check = rehearse && input !== undefined ? new ReplayCheck(this, { history, input, rehearse }) : undefined;
    this.writer = new RunWriter(this, create, seq, heldAt);
    this.draft = this.writer.draft;
    this.requests = new Requests(this, history.requests);
    this.deliveries = new Deliveries(this, history.deliveries);
    this.ending = new Ending(this, history);
    this.mailbox = new Mailbox(this, mail, run, history.parked);
    this.hooks = new Hooks(this, hooks);
  }

  /** Calls the function. It runs until it waits; everything after that is `advance`. */
  run(): void {
    const fn = this.workflow.fn as (...args: readonly unknown[]) => unknown;
    runIn(this, () => {
      new Promise((resolve) => resolve(fn(...this.#args))).then(
        (value) => this.ending.returned(value),
        (error: unknown) => this.ending.threw(error),
      );
    });
    this.touch();
  }

  /** Called when every promise that was ready has run: the code waits, or is over. */
  advance(): void {
    const { deliveries, ending } = this;
    if (this.gone || this.#state === "returning" || this.#check?.underWay) return;
    ending.settle();
    if (deliveries.unreadable !== undefined) return this.parking.unreadable(deliveries.unreadable);
    if (deliveries.tellNext()) return this.touch();
    if (this.#state === "replaying") {
      this.#goLive();
      return this.touch();
    }
    if (ending.over && !ending.recorded) ending.wrapUp();
    if (!this.writer.busy) this.#commitOrRest();
  }

  /** The code was told all that the journal has, and waits. From here on things happen. */
  #goLive(): void {
    const { left } = this.requests;
    const { over: isOver, awaited } = this.ending;
    if (left !== undefined)
      return this.parking.diverged({
        expected: describe(left),
        found: isOver ? "the code has ended" : "the code waits for something else",
      });
    if (this.host.rehearsal) return this.host.rehearsal.matched();
    this.#state = "live";
    this.#recordClaim();
    if (this.#history.parked !== undefined) this.record({ type: "unpark", at: this.now() });
    if (isOver) this.calls.resumeEnded(this.#history.attempts, awaited);
    else this.calls.resume(this.#history.attempts);
    this.hooks.resume();
    this.children.resume();
    this.mailbox.open();
    this.#rest.fire();
  }

  /** Its last owner may not know yet that it is one no longer: this entry takes the place of whatever it would write. */
  #recordClaim(): void {
    if (this.#lapsed) this.record({ type: "claim", owner: this.host.owner, at: this.now() });
  }

  #commitOrRest(): void {
    const { draft, ending, handBack } = this;
    if (draft.unready !== undefined) return void draft.unready.then(() => this.touch());
    if (ending.result !== undefined) {
      const { status, output } = ending.result;
      const unsettled = this.calls.unknown;
      if (ending.recorded) this.commit({ kind: "end", status, output, ...(unsettled > 0 ? { unsettled } : {}) });
      else if (draft.hasEvents && !ending.refused) this.commit({ kind: "hold" });
      return;
    }
    if (this.parking.refusal !== undefined) this.calls.withhold();
    const busy = this.#busy;
    if (this.parking.refusal !== undefined && !busy) return this.parking.releaseRefused(this.parking.refusal);
    if (handBack.asked) return handBack.commitOrWait();
    const leaving = this.#rest.leaving({ busy, drafted: draft.hasEvents });
    const isDue = !busy || this.#check?.isFirst;
    if (isDue && isCheckedAt(leaving) && this.#check?.begin({ leaving: leaving !== undefined })) return;
    if (leaving !== undefined) this.commit(leaving, true);
    // A run that asks for nothing yet, and waits for a promise of its own making, has to be in the store all the same.
    // Mail that nothing followed from waits for the next entry: a late copy of a write without events could undo a later one.
    else if (draft.hasEvents || this.writer.mustCreate) this.commit({ kind: "hold" });
    else this.#rest.wait();
  }

  /** Something of it is under way in this process. */
  get #busy(): boolean {
    const { calls, children, hooks, ending } = this;
    return calls.busy || ending.reading || (!ending.over && (children.looking || hooks.pending));
  }

  /** `atRest`: it has nothing to do until a time, or until mail. */
  commit(then: Then, atRest = false): void {
    this.#rest.stop();
    void this.writer.commit(stillAvoiding(then, this.avoid), atRest);
  }

  /** Its entry is in the store. */
  written({ hooks, then, events }: Entry, conflicts: readonly string[], recorded: readonly Event[]): void {
    this.#check?.written(recorded);
    if (then.kind === "end") {
      const { status, output, unsettled = 0 } = then;
      return this.leave({ why: "ended", status, output, unsettled, entry: { seq: this.writer.seq - 1, events: events ?? "" } });
    }
    if (then.kind === "release")
      return this.leave({ why: "released", wakeAt: then.avoid?.workers.includes(this.host.owner) ? then.avoid.until : then.wakeAt });
    this.hooks.made(hooks, conflicts);
    this.touch();
  }

  /** The store refuses what it has to write: it fails, instead of doing its last step again and again. */
  refused(error: unknown): void {
    warnNotWritten(this.id, `fails: the store refused what it has to write: ${messageOf(error)}`);
    this.ending.refuse(new RunNotWritableError(this.id, messageOf(error)));
  }

  /** Runs `work` in a transaction in which the journal is written, too: see the writer's. */
  async within(work: (tx: Tx, journal: (event: Delivery) => Promise<void>) => Promise<void>): Promise<Outcome> {
    const outcome = await this.writer.within(work);
    if (!this.gone) this.touch();
    return outcome;
  }

  /** A transaction has committed this: the code is told next. */
  tell(event: Delivery): void {
    if (this.ending.result === undefined) this.deliveries.tell(event);
  }

  // ——— leaving

  /** How it ends without its code. */
  cancelledWithoutCode(): ReturnType<typeof cancelledWithoutCode> {
    const definitionOf = (id: string) => this.calls.called(id)?.definition;
    return cancelledWithoutCode({ attempts: this.#history.attempts, now: this.now(), definitionOf });
  }

  /** It goes back to the store, and its replay was not over. */
  returning(): void {
    this.#state = "returning";
    this.#recordClaim();
  }

  lose(reason: unknown): void {
    if (this.gone) return;
    this.calls.abort(reason);
    this.leave({ why: "lost" });
  }

  leave(departure: Departure): void {
    if (this.gone) return;
    this.departure = departure;
    if (departure.why === "ended") this.rejections.ended();
    this.#rest.stop();
    this.writer.ended();
    this.host.left(this, departure);
  }

  // ——— what its parts, and its worker, ask of it

  get state(): "replaying" | "live" | "returning" {
    return this.#state;
  }

  /** When the code first asked for a child's result, by the journal. */
  get awaits(): ReadonlyMap<string, number> {
    return this.#history.awaits;
  }

  get gone(): boolean {
    return this.departure !== undefined;
  }

  /** Nothing is under way here: it waits for time or mail. */
  get atRest(): boolean {
    if (this.#check?.underWay) return false;
    return this.#state === "live" && !this.writer.busy && !this.draft.hasEvents && this.deliveries.waiting === 0 && !this.#busy;
  }

  accept(id: string): void {
    this.#history.accepted.add(id);
    this.record({ type: "accept", id, at: this.now() });
  }

  /** A person has said that the journaled call is the one that the code asks for. */
  accepts(id: string): boolean {
    return this.#history.accepted.has(id) || this.mailbox.accepts(id);
  }

  /** Something came in that the code was not told. */
  get hasUntold(): boolean {
    return this.deliveries.waiting > 0 || this.mailbox.hasUnread;
  }

  /** The store's time. */
  now(): number {
    return this.host.now();
  }

  touch(): void {
    this.host.touch(this);
  }

  record(event: Event): void {
    this.draft.record(event);
    this.touch();
  }

  /** The entry that is being drafted waits for this. What it rejects with, the run fails with. */
  readFirst(reading: Promise<void>): void {
    this.draft.waitFor(reading.catch((error: unknown) => this.ending.threw(error)));
  }

  /** A promise only where something has to be read first: see `encodeLater`. */
  encodeValue(value: unknown): string | Promise<string> {
    const { valueBytesMax } = this.store;
    const text = encodeLater(value, valueBytesMax);
    if (typeof text === "string") return withinBytes("value", text, valueBytesMax);
    return text.then((read) => withinBytes("value", read, valueBytesMax));
  }
}

/** A run that waits for a person waits for that first. */
function isCheckedAt(leaving: Then | undefined): boolean {
  return leaving?.kind !== "release" || leaving.status === "running";
}
