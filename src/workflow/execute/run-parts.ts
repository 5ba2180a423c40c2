import type { Entry, Then } from "../../core/runs/operation.js";
import type { Mail } from "../../core/runs/run.js";
import type { Store } from "../../core/store/store.js";
import { ChildRuns } from "../children/child-runs.js";
import type { WorkflowDefinition } from "../define/definition.js";
import { Hooks } from "../hooks/hooks.js";
import { childrenToCancel, hasBegun } from "../journal/ends/end-without-code.js";
import type { Delivery, Event } from "../journal/event.js";
import { initialAttributes } from "../journal/history/attributes.js";
import type { History } from "../journal/history/history.js";
import type { Departure } from "../journal/writer/departure.js";
import type { Draft } from "../journal/writer/draft.js";
import { RunWriter } from "../journal/writer/run-writer.js";
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
import { Ending } from "./ending.js";
import type { ExecutionOptions } from "./execution-options.js";
import type { Host } from "./host.js";
import { Mailbox } from "./mailbox.js";
import { Parking } from "./parking/parking.js";
import { Pausing } from "./pausing.js";
import { Release } from "./release.js";
import { ReplayCheck } from "./replay-check.js";
import { Rest } from "./rest.js";
import { RunAttributes } from "./run-attributes.js";
import { Sleeps } from "./sleeps.js";
import type { ExecutionState } from "./state.js";
import { Stopping } from "./stopping.js";
import { takeMail } from "./take-mail.js";
import { RunTrial } from "./trial.js";
import { UnhandledRejections } from "./unhandled-rejections.js";
import { type Waits, waitsOf } from "./waits.js";

/**
 * What a run in memory is made of, and what its parts ask of it. `Execution` takes the run through them. A class that `Execution` extends, because one more
 * object for each run would be measurable.
 */
export abstract class RunParts {
  readonly id: string;
  readonly workflow: WorkflowDefinition;
  readonly startedAt: number;
  /** Identifies the run if its id was used before. */
  readonly creator: string;
  readonly epoch: number;
  readonly parent: string | null;
  /** The tenant that the run belongs to. "": none. */
  readonly scope: string;
  /** The attributes that the run had when this worker got it. */
  readonly storedAttributes: string | null;
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
  #attributes: RunAttributes | undefined;
  /** Set by the worker: `advance` is scheduled. */
  touched = false;
  state: ExecutionState = "replaying";

  protected readonly history: History;
  protected readonly rest: Rest;
  protected readonly check: ReplayCheck | undefined;

  constructor({ host, workflow, run, startedAt, input, create, history, heldAt, seq, mail, hooks }: ExecutionOptions) {
    this.host = host;
    this.store = host.store;
    this.workflow = workflow;
    this.id = run.id;
    this.creator = run.creator;
    this.epoch = run.epoch;
    this.parent = run.parent;
    this.scope = run.scope ?? "";
    this.storedAttributes = run.attributes ?? null;
    this.avoid = run.avoid;
    this.deadlineAt = run.deadlineAt ?? null;
    this.#timeoutMs = create?.timeoutMs;
    this.stopAt = run.stopAt ?? null;
    this.#hadBegun = hasBegun(history);
    this.startedAt = history.startedAt ?? startedAt;
    this.history = history;
    this.trial = new RunTrial(run);
    this.rejections = new UnhandledRejections(this);
    this.writer = new RunWriter(this, create, seq, heldAt);
    this.draft = this.writer.draft;
    const { rehearse } = host;
    this.check = rehearse && input !== undefined ? new ReplayCheck(this, { history, input, rehearse }) : undefined;
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
    this.rest = new Rest(this);
    this.answers.on("run", (event) => this.stopping.receive(event));
  }

  // ——— what the parts ask of the path of the run

  abstract fireTimers(): void;
  abstract commit(then: Then, atRest?: boolean): void;
  abstract confirm(entry: Entry, conflicts: readonly string[], recorded: readonly Event[]): void;
  abstract deliver(delivery: Delivery): void;
  abstract failRefused(error: unknown): void;
  abstract finishCheck(divergence: Divergence | undefined): void;
  abstract diverge(divergence: Divergence): void;
  abstract stopReplay(): void;
  abstract lose(reason: unknown): void;
  abstract leave(departure: Departure): void;
  abstract advance(): void;

  // ——— the state of the run

  /** True while a step, a read or an end is in progress in this process. */
  protected get busy(): boolean {
    const { calls, children, hooks, ending } = this;
    return calls.busy || ending.reading || (!ending.over && !this.pausing.isPaused && (children.looking || hooks.pending));
  }

  /** The store has set the deadline now. */
  noteCreated(now: number): void {
    if (this.#timeoutMs !== undefined) this.deadlineAt = now + this.#timeoutMs;
  }

  /** The mail was sent before the last retry of the run. */
  isBeforeRetry(mail: Mail): boolean {
    return this.history.isBeforeRetry(mail);
  }

  isKeptByRetry(request: string): boolean {
    return this.history.isKeptByRetry(request);
  }

  /** Made when the code sets attributes: the first change takes them from the journal before it takes itself from there. */
  get attributes(): RunAttributes {
    this.#attributes ??= new RunAttributes(this, initialAttributes(this.history.requests.values(), this.storedAttributes));
    return this.#attributes;
  }

  get seed(): string {
    return this.history.lineage.seedOf(this.id, this.replay);
  }

  stepIdOf(call: string): string {
    return this.history.lineage.stepIdOf(this.id, call);
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
    if (this.check?.underWay) return false;
    return this.state === "live" && !this.writer.busy && !this.draft.hasEvents && this.arrivals.waiting === 0 && !this.busy;
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
    return this.history.attempts;
  }

  /** A step of the run has begun, or a child was started. */
  get hasBegun(): boolean {
    return this.#hadBegun || this.calls.hasBegun || this.children.any;
  }

  /** By request of a child: when the code first awaited its result, according to the journal. */
  get awaits(): ReadonlyMap<string, number> {
    return this.history.awaits;
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
