import type { Entry, Then } from "../../core/runs/operation.js";
import type { Mail } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { ChildRuns } from "../children/child-runs.js";
import { runIn, type WorkflowContext } from "../define/context.js";
import type { WorkflowDefinition } from "../define/definition.js";
import { RunNotWritableError } from "../define/errors.js";
import { messageOf } from "../define/message-of.js";
import { Hooks } from "../hooks/hooks.js";
import type { Departure } from "../journal/departure.js";
import { describe } from "../journal/describe.js";
import type { Draft } from "../journal/draft.js";
import { childrenToCancel, hasBegun } from "../journal/end-without-code.js";
import type { Delivery, Event } from "../journal/event.js";
import type { History } from "../journal/history.js";
import { warnNotWritten } from "../journal/not-written.js";
import { RunWriter } from "../journal/run-writer.js";
import { Answers } from "../replay/answers.js";
import type { Divergence } from "../replay/divergence.js";
import { Replay } from "../replay/replay.js";
import { Requests } from "../replay/requests.js";
import { encodeWithin } from "../steps/encoded-result.js";
import { StepCalls } from "../steps/step-calls.js";
import { ChunkBuffer } from "../streams/chunk-buffer.js";
import { RunStreams } from "../streams/run-streams.js";
import { Acceptances } from "./acceptances.js";
import { Arrivals } from "./arrivals.js";
import { stillAvoiding } from "./avoidance.js";
import { Ending } from "./ending.js";
import type { ExecutionOptions } from "./execution-options.js";
import type { Host } from "./host.js";
import { Mailbox } from "./mailbox.js";
import { Parking } from "./parking.js";
import { Pausing } from "./pausing.js";
import { Release } from "./release.js";
import { ReplayCheck } from "./replay-check.js";
import { Rest } from "./rest.js";
import { Sleeps } from "./sleeps.js";
import type { ExecutionState } from "./state.js";
import { Stopping } from "./stopping.js";
import { takeMail } from "./take-mail.js";
import { RunTrial } from "./trial.js";
import { UnhandledRejections } from "./unhandled-rejections.js";
import { type Waits, waitsOf } from "./waits.js";

/**
 * One run in the memory of this process.
 *
 *   start     the code runs until it waits
 *   advance   one turn, after every ready promise has run: the code gets one delivery, first from the journal (replay), then
 *             from arrivals (live); if there is none, recorded events are committed, or the run rests
 *   confirm   the entry is in the store: the bodies of its steps start, and their verdicts arrive
 *   leave     the run has ended, was released, or was taken over by another worker
 *
 * The code gets one delivery at a time, and the next one only when everything that follows from it has run. Requests and
 * deliveries are recorded in order; a replay gives the code the same deliveries in the same order, so the code makes the same
 * requests. Recorded events are committed as one journal entry whenever the code waits, and nothing that is visible to other
 * processes happens before the commit that records it. A crash at any point loses only uncommitted events, which no other
 * process has seen.
 */
export class Execution implements WorkflowContext {
  readonly kind = "workflow";
  readonly id: string;
  readonly workflow: WorkflowDefinition;
  readonly startedAt: number;
  /** Identifies the run if its id was used before. */
  readonly creator: string;
  readonly epoch: number;
  readonly parent: string | null;
  /** Workers that could not execute this run. */
  readonly avoid: readonly string[];
  readonly host: Host;
  readonly store: Store;
  // Answers from the journal; requests of the code; delivery to the code; deliveries that have arrived.
  readonly replay: Replay;
  readonly requests: Requests;
  readonly answers: Answers;
  readonly arrivals: Arrivals;
  // What the code can request.
  readonly calls: StepCalls;
  readonly sleeps: Sleeps;
  readonly hooks: Hooks;
  readonly children: ChildRuns;
  readonly streams: RunStreams;
  /** Chunks that step bodies write to streams. */
  readonly chunks: ChunkBuffer;
  readonly mailbox: Mailbox;
  readonly acceptances: Acceptances;
  // Writes the journal; holds the next entry.
  readonly writer: RunWriter;
  readonly draft: Draft;
  /** When the run is cancelled because it takes too long. */
  deadlineAt: number | null;
  /** When the run can be ended without its code, as it was when this worker got the run. */
  readonly stopAt: number | null;
  readonly #hadBegun: boolean;
  readonly #timeoutMs: number | undefined;
  // How the run is cancelled or paused, and how it ends or leaves this process.
  readonly stopping: Stopping;
  readonly pausing: Pausing;
  readonly ending: Ending;
  readonly release: Release;
  readonly parking: Parking;
  /** Tracks crashes of earlier owners. */
  readonly trial: RunTrial;
  readonly rejections: UnhandledRejections;
  /** Set when the run has ended, was released, taken over or lost: this object must not act any more. */
  departure: Departure | undefined;
  /** How many random numbers and UUIDs the code has requested. */
  draws = 0;
  /** Set by the worker: `advance` is scheduled. */
  touched = false;

  readonly #args: readonly unknown[];
  readonly #history: History;
  /** The lease of the previous owner expired; that owner may not know that it has lost the run. */
  readonly #lapsed: boolean;
  readonly #rest: Rest;
  readonly #check: ReplayCheck | undefined;
  #state: ExecutionState = "replaying";

  constructor({ host, workflow, run, args, startedAt, input, create, history, heldAt, seq, lapsed, mail, hooks }: ExecutionOptions) {
    this.host = host;
    this.store = host.store;
    this.workflow = workflow;
    this.id = run.id;
    this.creator = run.creator;
    this.epoch = run.epoch;
    this.parent = run.parent;
    this.avoid = run.avoid;
    this.deadlineAt = run.deadlineAt ?? null;
    this.#timeoutMs = create?.timeoutMs;
    this.stopAt = run.stopAt ?? null;
    this.#hadBegun = hasBegun(history);
    this.startedAt = history.startedAt ?? startedAt;
    this.#args = args;
    this.#history = history;
    this.#lapsed = lapsed;
    this.trial = new RunTrial(run);
    this.rejections = new UnhandledRejections(this);
    this.writer = new RunWriter(this, create, seq, heldAt);
    this.draft = this.writer.draft;
    const { rehearse } = host;
    this.#check = rehearse && input !== undefined ? new ReplayCheck(this, { history, input, rehearse }) : undefined;
    this.replay = new Replay(history);
    this.requests = new Requests(this);
    this.answers = new Answers(this.startedAt);
    this.arrivals = new Arrivals(this);
    this.mailbox = new Mailbox(this, { mail, consumed: run.consumed, parked: history.parked });
    this.acceptances = new Acceptances(this, history.accepted);
    this.calls = new StepCalls(this);
    this.sleeps = new Sleeps(this);
    this.hooks = new Hooks(this, hooks);
    this.children = new ChildRuns(this, childrenToCancel(history));
    this.streams = new RunStreams(this);
    this.chunks = new ChunkBuffer(this);
    this.stopping = new Stopping(this);
    this.pausing = new Pausing(this, history.pausedFrom !== undefined);
    this.ending = new Ending(this, history.end);
    this.release = new Release(this);
    this.parking = new Parking(this);
    this.#rest = new Rest(this);
    this.answers.on("run", (event) => this.stopping.receive(event));
  }

  // ——— the code, turn by turn

  /** Calls the workflow function, which runs until it waits. Everything after that happens in `advance`. */
  start(): void {
    void runIn(this, () => this.#runCode());
    this.touch();
  }

  async #runCode(): Promise<void> {
    const fn = this.workflow.fn as (...args: readonly unknown[]) => unknown;
    let value: unknown;
    try {
      value = await fn(...this.#args);
    } catch (error) {
      return this.ending.fail(error);
    }
    this.ending.complete(value);
  }

  /** One turn. Called after every ready promise has run, so the code waits or has ended. */
  advance(): void {
    const { answers, ending } = this;
    if (this.gone || this.#state === "returning" || this.#check?.underWay) return;
    ending.settle();
    if (answers.unreadable !== undefined) return this.parking.parkUnreadable(answers.unreadable);
    if (this.#deliverNext()) return this.touch();
    if (this.#state === "replaying") {
      this.#goLive();
      return this.touch();
    }
    if (ending.over && !ending.recorded) ending.wrapUp();
    if (!this.writer.busy) this.#commitOrRest();
  }

  /** False if there is no delivery for the code now. */
  #deliverNext(): boolean {
    const next = this.replay.nextDelivery;
    if (next !== undefined) {
      this.#deliverJournaled(next);
      return true;
    }
    if (this.#state !== "live" || this.writer.inTransaction) return false;
    if (this.ending.result === undefined) return this.arrivals.giveNext();
    this.arrivals.recordVerdicts();
    return false;
  }

  #deliverJournaled(next: Delivery): void {
    this.replay.takeDelivery();
    // After the end of the code, the journal may have verdicts of steps that the code did not await.
    if (this.answers.give(next) || this.ending.over) return;
    this.diverge({ expected: describe(next), found: "the code did not ask for it" });
  }

  /** The code has received all journaled deliveries and waits: the replay is over. */
  #goLive(): void {
    const { openRequest } = this.replay;
    const { over: isOver, awaited } = this.ending;
    if (openRequest !== undefined)
      return this.diverge({
        expected: describe(openRequest),
        found: isOver ? "the code has ended" : "the code waits for something else",
      });
    if (this.host.rehearsal) return this.host.rehearsal.match();
    this.#state = "live";
    this.#recordClaim();
    if (this.#history.parked !== undefined) this.record({ type: "unpark", at: this.now() });
    if (isOver) this.calls.resumeEnded(this.attempts, awaited);
    else this.calls.resume(this.attempts);
    this.hooks.resume();
    this.children.resume(this.#history.retried);
    this.mailbox.open();
    this.fireTimers();
  }

  /** The previous owner may not know that it has lost the run: this entry takes the number of the entry that it would write. */
  #recordClaim(): void {
    if (this.#lapsed) this.record({ type: "claim", owner: this.host.owner, at: this.now() });
  }

  /** Ends sleeps and starts attempts that are due. Of a paused run, only the deadline is. */
  fireTimers(): void {
    const now = this.now();
    if (this.stopping.fire(now)) this.pausing.end();
    if (this.pausing.isPaused) return this.touch();
    if (!this.ending.over) this.sleeps.fire(now);
    for (const call of this.calls.open) if (call.dueAt !== undefined && call.dueAt <= now) call.due();
    this.touch();
  }

  // ——— the code waits: commit recorded events, or rest

  /**
   * The order matters. A value that is still being read cannot be part of an entry, so the run waits for it first, also before
   * the end. When the code has ended, only the end is committed. A step that cannot start withholds the other steps before
   * `#busy` is read, because they no longer run. A run that the worker must release does not rest here. The replay check comes
   * before the write that releases the run, so that a divergence is found here and not by the next owner.
   */
  #commitOrRest(): void {
    const { draft, ending, release } = this;
    if (draft.unready !== undefined) return void draft.unready.then(() => this.touch());
    if (ending.result !== undefined) return this.#commitEnd();
    const { refusedStep } = this.parking;
    if (refusedStep !== undefined) this.calls.withhold();
    const busy = this.#busy;
    if (refusedStep !== undefined && !busy) return this.parking.releaseRefused(refusedStep);
    if (release.isRequested) return release.commitOrWait();
    const leaving = this.#rest.decideLeaving({ busy, drafted: draft.hasEvents });
    if (this.#isCheckBegun(leaving, busy)) return;
    if (leaving !== undefined) this.commit(leaving, true);
    // A run that waits for a promise of its own without having requested anything must still be created in the store.
    // Mail that led to no event is not committed alone, because a late copy of such a write could undo a later one. It is
    // committed with the next entry.
    else if (draft.hasEvents || this.writer.mustCreate) this.commit({ kind: "hold" });
    else this.#rest.wait();
  }

  #commitEnd(): void {
    const { ending, draft } = this;
    if (ending.recorded && ending.result !== undefined) {
      const unsettled = this.calls.unknown;
      const trouble = ending.trouble === undefined ? {} : { trouble: ending.trouble };
      this.commit({ kind: "end", ...ending.result, ...(unsettled > 0 ? { unsettled } : {}), ...trouble });
    } else if (draft.hasEvents && !ending.refused) this.commit({ kind: "hold" });
  }

  /** True while a step, a read or an end is in progress in this process. */
  get #busy(): boolean {
    const { calls, children, hooks, ending } = this;
    return calls.busy || ending.reading || (!ending.over && !this.pausing.isPaused && (children.looking || hooks.pending));
  }

  /** `atRest`: the run has nothing to do until a timer fires or mail arrives. */
  commit(then: Then, atRest = false): void {
    this.#rest.stop();
    void this.writer.commit(stillAvoiding(then, this.avoid), atRest);
  }

  /** The store has set the deadline now. */
  noteCreated(now: number): void {
    if (this.#timeoutMs !== undefined) this.deadlineAt = now + this.#timeoutMs;
  }

  /** The entry is in the store. The writer starts the step bodies now. */
  confirm({ hooks, then }: Entry, conflicts: readonly string[], recorded: readonly Event[]): void {
    this.#check?.noteWritten(recorded);
    if (then.kind === "end") {
      const { status, output, unsettled = 0 } = then;
      return this.leave({ why: "ended", status, output, unsettled, seq: this.writer.seq - 1 });
    }
    if (then.kind === "release")
      return this.leave({ why: "released", wakeAt: then.avoid?.workers.includes(this.host.owner) ? then.avoid.until : then.wakeAt });
    this.hooks.confirm(hooks, conflicts);
    this.touch();
  }

  /** The store rejects an entry because of its data: the run fails, instead of repeating its last step without end. */
  failRefused(error: unknown): void {
    warnNotWritten(this.id, `fails: the store rejected its journal entry: ${messageOf(error)}`);
    this.ending.refuse(new RunNotWritableError(this.id, messageOf(error)));
  }

  /** A transaction has committed this delivery: the code gets it next. */
  deliver(delivery: Delivery): void {
    if (this.ending.result === undefined) this.arrivals.give(delivery);
  }

  // ——— replay check: would the code match its own journal?

  /** True if a check has started: the run waits for it. */
  #isCheckBegun(leaving: Then | undefined, busy: boolean): boolean {
    const { ending, draft } = this;
    const check = this.#check;
    if (check === undefined || ending.over || ending.reading || (busy && !check.isFirst)) return false;
    // A run that waits for an operator is released without a check.
    if (leaving?.kind === "release" && leaving.status !== "running") return false;
    return check.begin({ leaving: leaving !== undefined, drafted: draft.events });
  }

  finishCheck(divergence: Divergence | undefined): void {
    if (divergence !== undefined) this.parking.parkForeseen(divergence);
    this.touch();
  }

  // ——— leaving

  /** The code makes other requests than the journal has. */
  diverge(divergence: Divergence): void {
    this.parking.parkDiverged(divergence);
  }

  /** The run goes back to the store before its replay was complete. */
  stopReplay(): void {
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
    if (departure.why === "ended") this.rejections.warnAtEnd();
    this.#rest.stop();
    this.writer.finish();
    this.host.remove(this, departure);
  }

  // ——— for the parts of the run and for its worker

  get retriedAt(): number {
    return this.#history.retriedAt;
  }

  get seed(): string {
    return this.#history.lineage.seedOf(this.id, this.replay);
  }

  stepIdOf(call: string): string {
    return this.#history.lineage.stepIdOf(this.id, call);
  }

  get state(): ExecutionState {
    return this.#state;
  }

  get gone(): boolean {
    return this.departure !== undefined;
  }

  /** The code must not continue: the run has ended, or has left this process. */
  get isClosed(): boolean {
    return this.gone || this.ending.over;
  }

  /** Nothing is in progress: the run waits for a timer or mail. */
  get atRest(): boolean {
    if (this.#check?.underWay) return false;
    return this.#state === "live" && !this.writer.busy && !this.draft.hasEvents && this.arrivals.waiting === 0 && !this.#busy;
  }

  /** Deliveries or mail have arrived that the code has not received. */
  get hasUndelivered(): boolean {
    return this.arrivals.waiting > 0 || this.mailbox.hasUnread;
  }

  waits(): Waits {
    return waitsOf(this);
  }

  takeMail(mail: Mail): void {
    takeMail(this, mail);
  }

  /** Journaled attempts of each step call. */
  get attempts(): History["attempts"] {
    return this.#history.attempts;
  }

  /** A step of the run has begun, or a child was started. */
  get hasBegun(): boolean {
    return this.#hadBegun || this.calls.hasBegun || this.children.any;
  }

  /** By request of a child: when the code first awaited its result, according to the journal. */
  get awaits(): ReadonlyMap<string, number> {
    return this.#history.awaits;
  }

  /** Time of the store. */
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

  /** Returns a promise only if a value must be read first: see `encodeLater`. */
  encodeValue(value: unknown): string | Promise<string> {
    return encodeWithin(value, this.store.valueBytesMax);
  }
}
