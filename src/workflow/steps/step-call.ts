import { decode } from "../../core/values/codec.js";
import { decodeError, encodeError } from "../../core/values/stored-error.js";
import { notAppliedError } from "../client/after-end.js";
import type { Resolution } from "../client/resolution.js";
import type { Site } from "../define/call-site.js";
import type { WrongOptions } from "../define/check-steps.js";
import { runBeside } from "../define/context.js";
import type { StepDefinition } from "../define/define.js";
import { FatalError } from "../define/errors.js";
import { exhausted, judgeFailure, mayRepeat, notKeptError } from "../define/retry-policy.js";
import { StepPromise } from "../define/step-promise.js";
import type { Execution } from "../execute/execution.js";
import { type AttemptEvent, type Claim, type Delivery, type How, lastAttemptEvent, type StepFailure } from "../journal/event.js";
import { stepIdOf } from "../journal/identity.js";
import type { Told } from "../replay/deliveries.js";
import { crashReason } from "../worker/park-crashed.js";
import { type BodyOutcome, type EncodedResult, encodedResult, type LateBody, StepBody } from "./step-body.js";
import type { StepInput } from "./step-input.js";

/** What the journal says about the attempts of one call. */
type Log = readonly (AttemptEvent | Claim)[];

/** A call whose promise the code may look at, or forget. */
export interface WatchedCall {
  readonly id: string;
  readonly definition: StepDefinition;
  readonly promise: StepPromise<unknown>;
  site: Site | undefined;
  readonly rejection: string | undefined;
}

/**
 * One call of a step in a run, over all its attempts: started entry → body → verdict, again while it may.
 *
 * starting: its entry is not committed yet. running: the body is at it. waiting: for its next attempt. asking: for what
 * the other side knows. unknown: for a person. settled: the code knows.
 */
export class StepCall implements WatchedCall {
  readonly id: string;
  readonly definition: StepDefinition;
  readonly given: StepInput;
  readonly promise: StepPromise<unknown>;
  /** Where the code called it, until the code has looked at its promise. */
  site: Site | undefined;
  /** What its promise was rejected with, encoded. */
  rejection: string | undefined;
  state: "starting" | "running" | "waiting" | "asking" | "unknown" | "settled" = "waiting";
  /** When the next attempt, or the next question to the other side, is due. */
  dueAt: number | undefined;
  /** Why its outcome is unknown. */
  doubt: string | undefined;
  attempt = 0;
  readonly #execution: Execution;
  /** Its options are wrong: no attempt begins here. */
  readonly #wrong: WrongOptions | undefined;
  #failures = 0;
  /** The last thing that was thrown, encoded. */
  #failure = "";
  /** Owners that died in it while they executed its run alone. */
  #crashes = 0;
  /** An attempt before this one may have written to streams. */
  #mayHaveWritten = false;
  #startedAt = 0;
  #firstStartedAt: number | undefined;
  #body: StepBody | undefined;
  /** How the body really ends, when the verdict did not wait for it. */
  #late: Promise<BodyOutcome> | undefined;
  /** Its verdict is being written, in its own transaction. */
  #writing = false;
  /** Its verdict is on its way to the code. */
  #decided = false;
  #resolve: (value: unknown) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(execution: Execution, definition: StepDefinition, id: string, given: StepInput, wrong?: WrongOptions) {
    this.#execution = execution;
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
    return stepIdOf(this.#execution.id, this.id);
  }

  /** Something of it is under way in this process. */
  get busy(): boolean {
    return this.state === "starting" || this.state === "running" || (this.state === "asking" && this.dueAt === undefined);
  }

  /** The first attempt: its started entry is the request, which is recorded already. */
  begin(at: number): void {
    if (this.#wrong !== undefined) return this.#execution.parking.refuse(this.#wrong.message);
    this.#start(1, at);
  }

  /** What the journal says about its attempts. */
  #restore(log: Log): void {
    this.#mayHaveWritten = true;
    for (const event of log) {
      if (event.type === "claim") this.#crashes = event.crashes === 0 ? 0 : this.#crashes + 1;
      if (event.type === "step" && event.attempt > 0) {
        this.state = "running";
        this.attempt = event.attempt;
        this.#startedAt = event.at;
        this.#firstStartedAt ??= event.at;
      }
      if (event.type === "fail") this.#noteJournaled(event);
      if (event.type === "fail" || event.type === "doubt") this.state = "waiting";
    }
  }

  /** A person who says that an attempt did not happen does not use up one of its retries. */
  #noteJournaled({ error, how }: StepFailure): void {
    if (how === "resolved") this.#failure = error;
    else this.#noteFailure(error);
  }

  /** After a replay: goes on where the last owner stopped. */
  resume(log: Log): void {
    if (this.state === "settled") return;
    this.#restore(log);
    const last = lastAttemptEvent(log);
    const hasBegun = last?.type !== "step" || last.attempt > 0;
    if (this.#wrong !== undefined && (!hasBegun || this.#wrong.unusable)) this.#execution.parking.refuse(this.#wrong.message);
    else if (!hasBegun) this.#startNext();
    else if (last?.type === "step") this.#takeOver();
    else if (last?.type === "fail") this.#waitUntil(last.retryAt ?? this.#execution.now());
    else if (last?.type === "doubt") this.#inDoubt(last.why, false);
  }

  /** After a replay in which the code has come to its end: the last owner died, or was stopped, before it could write the end. */
  resumeEnded(log: Log): void {
    if (this.state === "settled") return;
    this.#restore(log);
    const last = lastAttemptEvent(log);
    if (last?.type === "doubt") this.#inDoubt(last.why, false);
    else if (last?.type === "step" && last.attempt > 0) this.#leaveBehind("its process fell silent while it ran");
    else this.withdraw(false);
  }

  /** Its time has come: the next attempt, or the question whether the last one happened. */
  due(): void {
    this.dueAt = undefined;
    if (this.state === "asking" || this.#mayHaveHappened()) void this.#ask();
    else this.#startNext();
  }

  /** A delivery: the code learns how it ended. */
  settle(event: Delivery): void {
    this.state = "settled";
    if (event.type === "done") return this.#resolve(decode(event.value));
    if (event.type !== "fail") return;
    // One that was left behind when its run ended has not failed: the run was not to wait for it.
    if (event.how !== "abandoned") this.rejection = event.error;
    // The code may await it later, and is told of it then.
    this.promise.ignoreRejection();
    this.#reject(decodeError(event.error));
  }

  /**
   * What a person says about the attempt in doubt. Nothing when they mean another one. What follows is recorded, or returned
   * for the code, in the turn in which the mail is taken in; an attempt that follows may be withheld, the decision not.
   */
  resolve(attempt: number, to: Resolution): readonly Told[] {
    if (this.state !== "unknown" || attempt !== this.attempt) return [];
    if (to !== "notApplied") return [this.#verdict("done" in to ? "done" : "fail", "done" in to ? to.done : to.fail, "resolved")];
    const at = this.#execution.now();
    this.#failure = notAppliedError();
    this.#execution.record({ type: "fail", id: this.id, at, attempt, error: this.#failure, retryAt: at, how: "resolved" });
    const { over, awaited } = this.#execution.ending;
    if (!over || awaited.has(this)) this.#startNext();
    else this.state = "settled";
    return [];
  }

  /** The run ends without it, or is somebody else's: whoever is still at it should stop. */
  abort(reason: unknown): void {
    this.#body?.abort(reason);
  }

  /**
   * The run ends, and its body does not run. An attempt whose outcome nobody has told yet is in doubt, if its class does not
   * let it run twice: it is not asked about, waited for or tried again.
   */
  withdraw(written: boolean): void {
    // Its time may come while the end waits for a transaction: nothing begins then.
    this.dueAt = undefined;
    if (this.state === "unknown") return;
    const mayHaveHappened = this.state === "asking" || (this.state === "waiting" && !this.#decided && this.#mayHaveHappened());
    if (this.state === "starting" && written) this.#abandon("the run ended before it could begin");
    else if (mayHaveHappened) this.#inDoubt("the run ended before the other side was asked", true);
    else this.state = "settled";
  }

  /** The run is handed back before the body could begin. */
  withhold(): void {
    this.state = "waiting";
    this.dueAt = undefined;
  }

  /** Its grace is over and it did not stop: the run ends without its verdict. */
  abandon(): void {
    if (this.state !== "running" || this.#writing) return;
    this.#late = this.#body?.pending;
    this.#body?.seal();
    this.#leaveBehind("still running when the run ended; its outcome was not awaited");
  }

  /** Its effect may happen yet, or has happened. What may run twice needs nobody to look; a transaction is rolled back. */
  #leaveBehind(why: string): void {
    if (this.definition.tx || mayRepeat(this.definition.options())) this.#abandon(why);
    else this.#inDoubt(why, true);
  }

  #abandon(why: string): void {
    this.state = "settled";
    const { id, attempt } = this;
    this.#execution.record(abandonedEvent({ id, at: this.#execution.now(), attempt, why }));
  }

  /** Its body, if the last attempt's verdict did not wait for it: its true end is recorded after the run's. */
  get lateBody(): LateBody | undefined {
    const outcome = this.#late;
    if (outcome === undefined || this.#decided) return undefined;
    const { id, attempt, definition } = this;
    return { id, attempt, definition, outcome, inDoubt: this.state === "unknown" };
  }

  #startNext(): void {
    const at = this.#execution.now();
    const attempt = this.attempt + 1;
    this.#execution.record({ type: "step", id: this.id, at, attempt, fingerprint: this.given.print, partial: false });
    this.#start(attempt, at);
  }

  /** The body runs when the entry that says so is committed: the evidence comes before the effect. */
  #start(attempt: number, at: number): void {
    this.attempt = attempt;
    this.#startedAt = at;
    this.#firstStartedAt ??= at;
    this.dueAt = undefined;
    this.#late = undefined;
    this.state = "starting";
    this.#execution.draft.afterCommit(this.#run);
  }

  readonly #run = (): void => {
    // The run has ended while its entry was written.
    if (this.state !== "starting") return;
    this.state = "running";
    this.#body = new StepBody(this.#execution, this.definition, this.id, this.attempt, this.#firstStartedAt ?? this.#startedAt);
    if (this.definition.tx) void this.#runInTransaction(this.#body);
    else void this.#body.run(this.given.input).then(this.#onOutcome);
  };

  readonly #onOutcome = (outcome: BodyOutcome): void => {
    if (this.#execution.gone || this.state !== "running") return;
    if (!outcome.ok) this.#failed(outcome.error, outcome.how);
    else this.#succeeded(outcome);
  };

  #succeeded(outcome: EncodedResult, how?: How): void {
    if ("text" in outcome) this.#deliver("done", outcome.text, how);
    else this.#deliver("fail", kept(notKeptError(this.definition.name, outcome.notKept)), how);
  }

  #failed(error: unknown, how?: How): void {
    this.#noteFailure(kept(error));
    this.#mayHaveWritten ||= this.#body?.hasWritten ?? false;
    const { host } = this.#execution;
    const now = this.#execution.now();
    const options = this.definition.options();
    const verdict = judgeFailure(error, { name: this.definition.name, failures: this.#failures, options }, now, host.random);
    if (verdict.kind === "doubt") return this.#inDoubt(`it threw ${error instanceof Error ? error.name : typeof error}`, true);
    const asks = this.#mayHaveHappened() && !FatalError.is(error);
    if (verdict.kind === "final" && !asks) return this.#deliver("fail", kept(verdict.error), how);
    const retryAt = Math.max(verdict.kind === "retry" ? verdict.at : now, asks ? this.#answerAt() : 0);
    this.#execution.record({ type: "fail", id: this.id, at: now, attempt: this.attempt, error: this.#failure, retryAt, how });
    this.#waitUntil(retryAt);
  }

  #noteFailure(text: string): void {
    this.#failures += 1;
    this.#failure = text;
  }

  /** It threw, the other side can be asked, and nobody has said that nothing happened. */
  #mayHaveHappened(): boolean {
    return this.definition.options().effect === "reconcile" && this.#failure !== "" && decodeError(this.#failure).name !== "NotApplied";
  }

  /** When what the other side says about this attempt can be trusted. */
  #answerAt(): number {
    return this.#startedAt + (this.definition.options().reconcileAfterMs ?? this.#execution.host.leaseMs);
  }

  #waitUntil(at: number): void {
    this.state = "waiting";
    this.dueAt = at;
  }

  /** The last owner died while the body ran, as far as the journal tells. */
  #takeOver(): void {
    const { name } = this.definition;
    const options = this.definition.options();
    if (this.#crashes > options.crashMax && !this.#execution.mailbox.hasUnreadWake)
      return this.#execution.parking.crashed(crashReason(this.#crashes, { max: options.crashMax, step: name }));
    if (mayRepeat(options)) return this.#startNext();
    if (options.effect === "atMostOnce") return this.#inDoubt("its process fell silent while it ran", true);
    this.state = "asking";
    this.dueAt = this.#answerAt();
  }

  async #ask(): Promise<void> {
    this.state = "asking";
    const { reconcile, maxRetries } = this.definition.options();
    const { attempt, stepId } = this;
    let verdict: unknown;
    let found: EncodedResult | undefined;
    let why = "reconcile could not tell";
    try {
      const ask = () => reconcile?.({ stepId, attempt, input: this.given.input() as never[] });
      const { host, id: runId } = this.#execution;
      verdict = await runBeside(this.#execution, () => host.ask({ step: this.definition.name, runId, attempt }, ask));
      if (typeof verdict === "object" && verdict !== null && "found" in verdict)
        found = await encodedResult(this.#execution, verdict.found);
    } catch (error) {
      why = `reconcile threw ${error instanceof Error ? error.name : typeof error}`;
    }
    if (this.#execution.gone || this.state !== "asking") return;
    if (verdict === "absent" && this.#failures > maxRetries) {
      const error = exhausted(this.definition.name, this.#failures, decodeError(this.#failure));
      this.#deliver("fail", kept(error));
    } else if (verdict === "absent") this.#startNext();
    else if (found) this.#succeeded(found, "reconciled");
    else this.#inDoubt(why, true);
  }

  #inDoubt(why: string, record: boolean): void {
    this.state = "unknown";
    this.doubt = why;
    // It ran out of time, and may be at it still.
    this.#late ??= this.#body?.pending;
    if (record) this.#execution.record({ type: "doubt", id: this.id, at: this.#execution.now(), attempt: this.attempt, why });
  }

  #deliver(type: "done" | "fail", text: string, how?: How): void {
    const { event, streams } = this.#verdict(type, text, how);
    this.#execution.deliveries.add(event, undefined, streams);
  }

  #verdict(type: "done" | "fail", text: string, how?: How): Told {
    const { id, attempt } = this;
    const at = this.#execution.now();
    // What ends a stream counts only when the body itself has come to its end.
    const ends = this.state === "running" && this.#body?.hasWritten ? this.#body.writer.ends : [];
    const voids = attempt > 1 && this.#mayHaveWritten ? [{ writer: id, attempt }] : [];
    const event: Delivery =
      type === "done" ? { type, id, at, attempt, value: text, how } : { type, id, at, attempt, error: text, retryAt: null, how };
    this.#body = undefined;
    this.state = "waiting";
    this.#decided = true;
    return { event, streams: ends.length + voids.length > 0 ? { ends, voids } : undefined };
  }

  /** Thrown inside of the transaction, which is rolled back; running it again would not help. */
  async #encoded(value: unknown): Promise<string> {
    try {
      return await this.#execution.encodeValue(value);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw new FatalError(`step "${this.definition.name}" was rolled back: its result cannot be journaled: ${why}`);
    }
  }

  /** Business rows and the step's result, in one transaction of the store's own database. */
  async #runInTransaction(body: StepBody): Promise<void> {
    let text: string | undefined;
    // The run may have ended without it by the time that its turn comes, or that it is done: then nothing of it is written.
    const mustRun = () => {
      if (this.state !== "running") throw new Error("the run has ended");
    };
    const written = await this.#execution.within(async (tx, journal) => {
      mustRun();
      text = await this.#encoded(await body.runInTransaction(tx, this.given.input()));
      mustRun();
      this.#writing = true;
      await journal({ type: "done", id: this.id, at: this.#execution.now(), attempt: this.attempt, value: text });
    });
    this.#writing = false;
    if (this.#execution.gone) return;
    if (!written.ok) return this.#onOutcome(written);
    this.#body = undefined;
    this.state = "settled";
  }
}

interface LeftBehind {
  readonly id: string;
  readonly at: number;
  readonly attempt: number;
  readonly why: string;
}

/** An attempt that the run ends without, of a class that may run twice: nobody has to find out how it ended. */
export function abandonedEvent({ id, at, attempt, why }: LeftBehind): StepFailure {
  return { type: "fail", id, at, attempt, error: kept(new Error(why)), retryAt: null, how: "abandoned" };
}

/** With its stack: whoever looks at the run, here or elsewhere, sees where it was thrown. */
function kept(error: unknown): string {
  return encodeError(error, { stack: true });
}
