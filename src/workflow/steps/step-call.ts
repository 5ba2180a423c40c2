import { decode } from "../../core/values/codec.js";
import { decodeError, encodeError } from "../../core/values/stored-error.js";
import type { Site } from "../define/call-site.js";
import type { WrongOptions } from "../define/check-steps.js";
import type { StepDefinition } from "../define/definition.js";
import { CancelledError } from "../define/errors.js";
import { notAppliedError } from "../journal/ends/after-end.js";
import type { Delivery, Event, How } from "../journal/event.js";
import type { Resolution } from "../journal/mail/resolution.js";
import type { DeliveryRecord } from "../journal/writer/draft.js";
import type { RunWriter } from "../journal/writer/run-writer.js";
import { type AttemptLog, type PastAttempts, pastAttempts } from "./attempt-log.js";
import { crashReason } from "./crash-limit.js";
import { type EncodedResult, encodedInTransaction } from "./encoded-result.js";
import { type AskingRun, askProvider } from "./reconcile.js";
import { exhausted, isExhausted, judgeFailure, mayHaveHappened, mayRepeat, notKeptError } from "./retry-policy.js";
import { type BodyOutcome, type BodyRun, type LateBody, StepBody } from "./step-body.js";
import type { StepInput } from "./step-input.js";
import { StepPromise } from "./step-promise.js";
import { abandonedEvent, encodeWithStack, verdictEvent } from "./verdicts.js";
import type { WatchedCall } from "./watched-call.js";

/** The run to which a call belongs. */
export interface CallingRun extends BodyRun, AskingRun {
  readonly host: BodyRun["host"] & AskingRun["host"] & { readonly leaseMs: number; random(): number };
  /** Time of the store. */
  now(): number;
  record(event: Event): void;
  readonly draft: { startAfterCommit(start: () => void): void; recordDelivery(delivery: DeliveryRecord): void };
  readonly arrivals: {
    add(delivery: Delivery, mail?: number, streams?: DeliveryRecord["streams"]): void;
    decide(take: () => readonly DeliveryRecord[]): void;
  };
  readonly writer: Pick<RunWriter, "within">;
  readonly ending: {
    /** False if the run is ending and does not wait for this call. */
    goesOnFor(call: WatchedCall): boolean;
  };
  readonly parking: {
    /** A step cannot start under this code: the run is released when nothing is in progress. */
    refuseStep(why: string): void;
    /** The run's processes crashed too often in one step. False if an operator has requested another try. */
    parkCrashed(why: string): boolean;
  };
}

/**
 * One call of a step in a run, over all its attempts: attempt recorded → committed → body → verdict, repeated for retries.
 *
 * starting: the entry of the attempt is not committed yet. running: the body runs. waiting: for the next attempt. asking:
 * waits for `reconcile`. unknown: waits for an operator. settled: the code has the outcome.
 *
 * If the run is cancelled while the call is open, the code gets the outcome of a body or of `reconcile` that ends within `graceMs`; otherwise a
 * CancelledError. An outcome that is unknown then stays unknown, although the code does not wait for it any more.
 */
export class StepCall implements WatchedCall {
  readonly id: string;
  readonly definition: StepDefinition;
  readonly given: StepInput;
  readonly promise: StepPromise<unknown>;
  site: Site | undefined;
  rejection: string | undefined;
  state: "starting" | "running" | "waiting" | "asking" | "unknown" | "settled" = "waiting";
  /** When the next attempt, or the next call of `reconcile`, is due. */
  dueAt: number | undefined;
  /** Why its outcome is unknown. */
  doubt: string | undefined;
  attempt = 0;
  readonly #run: CallingRun;
  /** Set if the options are invalid: no attempt starts here. */
  readonly #wrong: WrongOptions | undefined;
  /** The call waits for code with valid options. An attempt that the previous owner started has no body here, so nothing is in progress. */
  #isRefused = false;
  #failures = 0;
  /** The last error, encoded. */
  #failure = "";
  /** Number of owners that died in this call while they executed the run alone. */
  #crashes = 0;
  /** An earlier attempt may have written to streams. */
  #mayHaveWritten = false;
  #startedAt = 0;
  #firstStartedAt: number | undefined;
  #body: StepBody | undefined;
  /** The real outcome of a body that still runs after its verdict. */
  #late: Promise<BodyOutcome> | undefined;
  /** The verdict is being written in the step's transaction. */
  #writing = false;
  /** The verdict is queued for delivery to the code. */
  #decided = false;
  /** The run was cancelled while the call was open. */
  #stop: { readonly reason: string | undefined } | undefined;
  /** The code gets a CancelledError, or has got it. */
  #isCancelled = false;
  /** An attempt has begun, and nothing says that its effect did not happen. */
  #mayBe = false;
  #hasBegun = false;
  #isWithheld = false;
  /** How often a start was requested: only the last request counts. */
  #starts = 0;
  #resolve: (value: unknown) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(run: CallingRun, definition: StepDefinition, id: string, given: StepInput, wrong?: WrongOptions) {
    this.#run = run;
    this.#wrong = wrong;
    this.definition = definition;
    this.id = id;
    this.given = given;
    this.promise = new StepPromise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  get stepId(): string {
    return this.#run.stepIdOf(this.id);
  }

  /** The code does not wait for the outcome any more, because the run was cancelled. */
  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /** A body has started, in this process or in another one. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** An attempt or a call of `reconcile` is in progress in this process. */
  get busy(): boolean {
    if (this.#isRefused) return false;
    return this.state === "starting" || this.state === "running" || (this.state === "asking" && this.dueAt === undefined);
  }

  // ——— attempts: started by the code, after a replay, or when they are due

  /** Starts the first attempt. The request that was just recorded is its `step` event. */
  begin(at: number): void {
    if (this.#wrong !== undefined) return this.#refuse(this.#wrong);
    this.#start(1, at);
  }

  #refuse({ message }: WrongOptions): void {
    this.#isRefused = true;
    this.#run.parking.refuseStep(message);
  }

  /** After a replay: continues where the previous owner stopped. */
  resume(log: AttemptLog): void {
    if (this.#isCancelled) return this.#restoreCancelled(log);
    if (this.state === "settled") return;
    const { last, isOpen } = this.#restore(log);
    // The verdict was recorded while the run was paused.
    if (last?.type === "done" || (last?.type === "fail" && last.retryAt === null)) return this.#awaitDelivery();
    if (this.#stop !== undefined) return this.#resumeStopped(isOpen);
    const hasBegun = last?.type !== "step" || last.attempt > 0;
    if (this.#wrong !== undefined && (!hasBegun || this.#wrong.unusable)) this.#refuse(this.#wrong);
    else if (!hasBegun) this.#startNext();
    else if (last?.type === "step") this.#takeOver();
    else if (last?.type === "fail") this.#waitUntil(last.retryAt ?? this.#run.now());
    else if (last?.type === "doubt") this.#leaveInDoubt(last.why);
  }

  /** After a replay in which the code has ended: the previous owner died or stopped before it wrote the end of the run. */
  resumeEnded(log: AttemptLog): void {
    if (this.#isCancelled) return this.#restoreCancelled(log);
    if (this.state === "settled") return;
    const { last, isOpen } = this.#restore(log);
    if (last?.type === "doubt") this.#leaveInDoubt(last.why);
    else if (isOpen) this.#leaveBehind("its process died or lost the run while the step was running");
    else this.withdraw(false);
  }

  #awaitDelivery(): void {
    this.state = "waiting";
    this.#decided = true;
  }

  #restore(log: AttemptLog): PastAttempts {
    const past = pastAttempts(log);
    this.#mayHaveWritten = true;
    // The code has just made this call: it is not journaled yet.
    if (log.length === 0) return past;
    this.state = past.isOpen ? "running" : "waiting";
    this.attempt = past.attempt;
    this.#startedAt = past.startedAt;
    this.#firstStartedAt = past.firstStartedAt;
    this.#hasBegun = past.attempt > 0;
    this.#mayBe = past.mayHaveHappened && !this.definition.tx;
    this.#failures = past.failures;
    this.#failure = past.failure;
    this.#crashes = past.crashes;
    return past;
  }

  /** Starts the next attempt, or calls `reconcile` for the last one. */
  due(): void {
    this.dueAt = undefined;
    if (this.state === "asking" || this.#mayHaveHappened()) void this.#ask();
    else this.#startNext();
  }

  /** According to the journal the previous owner died, or lost the run, while the body was running. */
  #takeOver(): void {
    const options = this.definition.options();
    const limit = { max: options.crashMax, step: this.definition.name };
    if (this.#crashes > options.crashMax && this.#run.parking.parkCrashed(crashReason(this.#crashes, limit))) return;
    if (mayRepeat(options)) return this.#startNext();
    if (options.effect === "atMostOnce") return this.#recordDoubt("its process died or lost the run while the step was running");
    this.state = "asking";
    this.dueAt = this.#answerAt();
  }

  #startNext(): void {
    const at = this.#run.now();
    const attempt = this.attempt + 1;
    this.#run.record({ type: "step", id: this.id, at, attempt, fingerprint: this.given.print, partial: false });
    this.#start(attempt, at);
  }

  /** The body starts only after the entry of the attempt is committed: the evidence comes before the effect. */
  #start(attempt: number, at: number): void {
    this.attempt = attempt;
    this.#startedAt = at;
    this.#firstStartedAt ??= at;
    this.dueAt = undefined;
    this.#late = undefined;
    this.#isWithheld = false;
    this.state = "starting";
    this.#starts += 1;
    const start = this.#starts;
    // A start that was withheld does not begin the body, even if the attempt is about to start again with a later entry.
    this.#run.draft.startAfterCommit(() => start === this.#starts && this.#execute());
  }

  // ——— the body and its outcome

  #execute(): void {
    // The run ended while the entry was being written.
    if (this.state !== "starting") return;
    this.state = "running";
    this.#hasBegun = true;
    this.#body = new StepBody(this.#run, this.definition, this.id, this.attempt, this.#firstStartedAt ?? this.#startedAt);
    if (this.definition.tx) void this.#executeInTransaction(this.#body);
    else void this.#body.run(this.given.input).then(this.#judge);
  }

  /** Commits business rows and the step's result in one transaction of the store's database. */
  async #executeInTransaction(body: StepBody): Promise<void> {
    // The run may end before the transaction starts, or before the body returns: then nothing is written.
    const mustRun = () => {
      if (this.state !== "running") throw new Error("the run has ended");
    };
    const written = await this.#run.writer.within(async (tx, journal) => {
      mustRun();
      const result = await body.runInTransaction(tx, this.given.input());
      const value = await encodedInTransaction(this.#run, this.definition.name, result);
      mustRun();
      this.#writing = true;
      await journal({ type: "done", id: this.id, at: this.#run.now(), attempt: this.attempt, value });
    });
    this.#writing = false;
    if (this.#run.gone) return;
    if (!written.ok) return this.#judge(written);
    this.#body = undefined;
    this.state = "settled";
  }

  readonly #judge = (outcome: BodyOutcome): void => {
    if (this.#run.gone || this.state !== "running") return;
    if (!outcome.ok) this.#judgeFailure(outcome.error, outcome.how);
    else this.#deliverResult(outcome);
  };

  #judgeFailure(error: unknown, how?: How): void {
    this.#failures += 1;
    this.#failure = encodeWithStack(error);
    this.#mayHaveWritten ||= this.#body?.hasWritten ?? false;
    // The transaction was rolled back, or the step says that nothing happened.
    this.#mayBe ||= !this.definition.tx && decodeError(this.#failure).name !== "NotApplied";
    const now = this.#run.now();
    const options = this.definition.options();
    const attempt = { name: this.definition.name, failures: this.#failures, failure: this.#failure, options, answerAt: this.#answerAt() };
    const verdict = judgeFailure(error, attempt, now, this.#run.host.random);
    const isAborted = this.#stop !== undefined && CancelledError.is(error);
    if (verdict.kind === "doubt") return this.#endInDoubt(`it threw ${error instanceof Error ? error.name : typeof error}`);
    if (verdict.kind === "final" && !isAborted) return this.#deliver("fail", encodeWithStack(verdict.error), how);
    const retryAt = verdict.kind === "final" ? now : verdict.at;
    const failed: Event = { type: "fail", id: this.id, at: now, attempt: this.attempt, error: this.#failure, retryAt, how };
    if (this.#stop !== undefined) return this.#deliverCancelled(this.#cancelWaiting(failed));
    this.#run.record(failed);
    this.#waitUntil(retryAt);
  }

  #mayHaveHappened(): boolean {
    return mayHaveHappened(this.definition.options(), this.#failure);
  }

  async #ask(): Promise<void> {
    this.state = "asking";
    const { definition, stepId, attempt, given } = this;
    const answer = await askProvider(this.#run, { definition, stepId, attempt, input: given.input });
    if (this.#run.gone || this.state !== "asking") return;
    if (answer.kind === "unknown") return this.#endInDoubt(answer.why);
    if (answer.kind === "found") return this.#deliverResult(answer.result, "reconciled");
    this.#mayBe = false;
    if (this.#stop !== undefined) return this.#deliverCancelled(this.#cancelled("settled"));
    if (!isExhausted(this.#failures, definition.options())) return this.#startNext();
    this.#deliver("fail", encodeWithStack(exhausted(definition.name, this.#failures, decodeError(this.#failure))));
  }

  /** When the provider's answer about this attempt becomes reliable. */
  #answerAt(): number {
    return this.#startedAt + (this.definition.options().reconcileAfterMs ?? this.#run.host.leaseMs);
  }

  #waitUntil(at: number): void {
    this.state = "waiting";
    this.dueAt = at;
  }

  /** An attempt has ended, and it is not known whether it had its effect. */
  #endInDoubt(why: string): void {
    if (this.#stop === undefined) return this.#recordDoubt(why);
    this.#deliverCancelled(this.#cancelInDoubt(why));
  }

  #recordDoubt(why: string): void {
    this.#leaveInDoubt(why);
    this.#run.record(this.#doubtEvent(why));
  }

  #doubtEvent(why: string): Event {
    return { type: "doubt", id: this.id, at: this.#run.now(), attempt: this.attempt, why };
  }

  #leaveInDoubt(why: string): void {
    this.state = "unknown";
    this.doubt = why;
    // After a timeout the body may still be running.
    this.#late ??= this.#body?.pending;
  }

  // ——— the verdict and its delivery to the code

  #deliverResult(outcome: EncodedResult, how?: How): void {
    if ("text" in outcome) this.#deliver("done", outcome.text, how);
    else this.#deliver("fail", encodeWithStack(notKeptError(this.definition.name, outcome.notKept)), how);
  }

  #deliver(type: "done" | "fail", text: string, how?: How): void {
    const { event, streams } = this.#verdict(type, text, how);
    this.#run.arrivals.add(event, undefined, streams);
  }

  #verdict(type: "done" | "fail", text: string, how?: How): DeliveryRecord {
    const { id, attempt } = this;
    const event = verdictEvent({ type, id, at: this.#run.now(), attempt, text, how });
    // Stream ends count only if the body itself has ended.
    const ends = this.state === "running" && this.#body?.hasWritten ? this.#body.writer.ends : [];
    const voids = attempt > 1 && this.#mayHaveWritten ? [{ writer: id, attempt }] : [];
    this.#body = undefined;
    this.state = "waiting";
    this.#decided = true;
    return { event, streams: ends.length + voids.length > 0 ? { ends, voids } : undefined };
  }

  /** Delivers the outcome to the code. */
  settle(event: Delivery): void {
    if (event.type === "cancelled") return this.#settleCancelled(event.error);
    this.state = "settled";
    if (event.type === "done") return this.#resolve(decode(event.value));
    if (event.type !== "fail") return;
    // An abandoned attempt has not failed: the run ended without waiting for it.
    if (event.how !== "abandoned") this.rejection = event.error;
    // The code may await the promise later, and gets the error then.
    this.promise.ignoreRejection();
    this.#reject(decodeError(event.error));
  }

  /**
   * Applies an operator's resolution of an attempt whose outcome is unknown; ignores it if it is for another attempt. The
   * consequences are recorded, or returned for the code, in the turn that consumes the mail. A retry that follows may be
   * withheld, the resolution may not.
   */
  resolve(attempt: number, to: Resolution): readonly DeliveryRecord[] {
    if (this.state !== "unknown" || attempt !== this.attempt) return [];
    if (this.#isCancelled) return this.#resolveCancelled(to);
    if (to !== "notApplied") return [this.#verdict("done" in to ? "done" : "fail", "done" in to ? to.done : to.fail, "resolved")];
    this.#mayBe = false;
    this.#recordNotApplied();
    if (this.#run.ending.goesOnFor(this)) this.#startNext();
    else this.state = "settled";
    return [];
  }

  #recordNotApplied(): void {
    const at = this.#run.now();
    this.#failure = notAppliedError();
    this.#run.record({ type: "fail", id: this.id, at, attempt: this.attempt, error: this.#failure, retryAt: at, how: "resolved" });
  }

  // ——— the run is cancelled while the call is open

  /** From now on the call is not retried. Called when the code gets the "stop", also in a replay. */
  stop(reason: string | undefined): void {
    this.#stop ??= { reason };
  }

  /**
   * The run is being cancelled. Returns the delivery for the code; undefined if it gets the outcome of an attempt that is in progress, or
   * does not wait for this call. `unwritten`: the start of the attempt was removed from the draft.
   */
  cancel(reason: string | undefined, unwritten: boolean): DeliveryRecord | undefined {
    if (this.#isCancelled || this.#decided || this.state === "settled") return undefined;
    this.stop(reason);
    if (this.state === "running" || (this.state === "asking" && this.dueAt === undefined)) {
      this.#body?.abort(this.#errorOf(true));
      this.#limitGrace();
      return undefined;
    }
    if (this.state === "unknown") return this.#cancelled("unknown");
    if (this.state === "asking") return this.#cancelInDoubt("the run was cancelled before reconcile was called");
    if (this.state === "starting") {
      const abandoned = unwritten ? [] : [this.#abandonedEvent("the run was cancelled before the attempt could start")];
      return this.#cancelled("settled", ...abandoned);
    }
    return this.#cancelWaiting();
  }

  /** An attempt or `reconcile` is in progress: its outcome counts if it comes within the grace period. */
  #limitGrace(): void {
    this.#run.store.clock.after(this.definition.options().graceMs, () => {
      if (!this.#run.gone) this.#run.arrivals.decide(() => this.#cutOff());
    });
  }

  #cutOff(): readonly DeliveryRecord[] {
    if (this.#isCancelled || this.#decided || this.#writing) return [];
    if (this.state === "asking") return [this.#cancelInDoubt("the run was cancelled before reconcile had an answer")];
    if (this.state !== "running") return [];
    this.#late = this.#body?.pending;
    this.#body?.seal();
    return [this.#cancelOpenAttempt("still running when the grace period of the cancellation was over")];
  }

  /** The last attempt has begun, and its outcome is not known. */
  #cancelOpenAttempt(why: string): DeliveryRecord {
    const { definition } = this;
    if (!definition.tx && !mayRepeat(definition.options())) return this.#cancelInDoubt(why);
    this.#mayBe ||= !definition.tx;
    return this.#cancelled("settled", this.#abandonedEvent(why));
  }

  /** No attempt is in progress. */
  #cancelWaiting(...notes: readonly Event[]): DeliveryRecord {
    const why = "the run was cancelled before reconcile was called";
    return this.#mayHaveHappened() ? this.#cancelInDoubt(why, ...notes) : this.#cancelled("settled", ...notes);
  }

  #cancelInDoubt(why: string, ...notes: readonly Event[]): DeliveryRecord {
    this.#mayBe = true;
    this.#leaveInDoubt(why);
    return this.#cancelled("unknown", ...notes, this.#doubtEvent(why));
  }

  #cancelled(state: "settled" | "unknown", ...notes: readonly Event[]): DeliveryRecord {
    this.state = state;
    this.dueAt = undefined;
    this.#isCancelled = true;
    const error = encodeError(this.#errorOf(state === "unknown" || this.#mayBe));
    return { event: { type: "cancelled", id: this.id, at: this.#run.now(), error }, notes };
  }

  #errorOf(mayHaveHappened: boolean): CancelledError {
    return new CancelledError({ reason: this.#stop?.reason, mayHaveHappened });
  }

  #deliverCancelled(record: DeliveryRecord): void {
    this.#run.arrivals.decide(() => [record]);
  }

  #settleCancelled(error: string): void {
    this.#isCancelled = true;
    // In a replay; `resume` finds out whether the outcome is unknown.
    if (this.state !== "unknown") this.state = "settled";
    this.promise.ignoreRejection();
    this.#reject(decodeError(error));
  }

  #restoreCancelled(log: AttemptLog): void {
    const { last } = this.#restore(log);
    this.state = "settled";
    if (last?.type === "doubt") this.#leaveInDoubt(last.why);
  }

  /** After a replay: the previous owner died or stopped before the code got the outcome of an attempt that was in progress. */
  #resumeStopped(isOpen: boolean): void {
    if (this.state === "unknown") return this.#deliverCancelled(this.#cancelled("unknown"));
    if (!isOpen) return this.#deliverCancelled(this.#cancelWaiting());
    if (this.definition.options().effect !== "reconcile")
      return this.#deliverCancelled(this.#cancelOpenAttempt("its process died or lost the run while the step was running"));
    this.#mayBe = true;
    this.state = "asking";
    this.dueAt = this.#answerAt();
    this.#limitGrace();
  }

  /** The code has a CancelledError: the resolution is only recorded. */
  #resolveCancelled(to: Resolution): readonly DeliveryRecord[] {
    if (to === "notApplied") this.#recordNotApplied();
    else this.#run.draft.recordDelivery(this.#verdict("done" in to ? "done" : "fail", "done" in to ? to.done : to.fail, "resolved"));
    this.state = "settled";
    return [];
  }

  // ——— the run ends, or leaves this process

  /** Aborts the body: the run ends without it, or another worker has taken over the run. */
  abort(reason: unknown): void {
    this.#body?.abort(reason);
  }

  /** The run is released or paused before the body has started. */
  withhold(): void {
    this.state = "waiting";
    this.dueAt = undefined;
    this.attempt -= 1;
    if (this.attempt === 0) this.#firstStartedAt = undefined;
    this.#isWithheld = true;
    this.#starts += 1;
  }

  /** The run is resumed. */
  startWithheld(): void {
    if (this.#isWithheld && !this.#isCancelled) this.#startNext();
  }

  /**
   * The run ends while the body does not run. If an earlier attempt may have had its effect and must not run twice, its outcome
   * becomes unknown: it is neither reconciled nor retried.
   */
  withdraw(written: boolean): void {
    // The attempt may become due while the end of the run waits for a transaction: it must not start then.
    this.dueAt = undefined;
    if (this.state === "unknown" || this.#isCancelled) return;
    const mayHaveHappened = this.state === "asking" || (this.state === "waiting" && !this.#decided && this.#mayHaveHappened());
    if (this.state === "starting" && written) this.#abandon("the run ended before the attempt could start");
    else if (mayHaveHappened) this.#recordDoubt("the run ended before reconcile was called");
    else this.state = "settled";
  }

  /** The body has not stopped within its grace period: the run ends without its verdict. */
  abandon(): void {
    if (this.state !== "running" || this.#writing) return;
    this.#late = this.#body?.pending;
    this.#body?.seal();
    this.#leaveBehind("still running when the run ended; its outcome was not awaited");
  }

  /** The effect may have happened, or may still happen. An attempt that may run twice, or whose transaction is rolled back, needs no operator. */
  #leaveBehind(why: string): void {
    if (this.definition.tx || mayRepeat(this.definition.options())) this.#abandon(why);
    else this.#recordDoubt(why);
  }

  #abandon(why: string): void {
    this.state = "settled";
    this.#run.record(this.#abandonedEvent(why));
  }

  #abandonedEvent(why: string): Event {
    const { id, attempt } = this;
    return abandonedEvent({ id, at: this.#run.now(), attempt, why });
  }

  /** The body, if it still runs after the verdict of the last attempt: its real outcome is recorded after the end of the run. */
  get lateBody(): LateBody | undefined {
    const outcome = this.#late;
    if (outcome === undefined || this.#decided) return undefined;
    const { id, attempt, definition } = this;
    return { id, attempt, definition, outcome, inDoubt: this.state === "unknown" };
  }
}
