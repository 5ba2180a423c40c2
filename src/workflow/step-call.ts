import { decode } from "../core/codec.js";
import { decodeError, encodeError } from "../core/stored-error.js";
import { runOutside } from "./context.js";
import type { StepDefinition } from "./define.js";
import { FatalError } from "./errors.js";
import type { Event, EventOf, How } from "./event.js";
import type { Execution } from "./execution.js";
import { stepIdOf } from "./identity.js";
import { exhausted, judgeFailure, mayRepeat } from "./retry-policy.js";
import { type BodyOutcome, type EncodedResult, encodedResult, StepBody } from "./step-body.js";

/**
 * One call of a step in a run, over all its attempts: started entry → body → verdict, again while it may.
 *
 * starting: its entry is not committed yet. running: the body is at it. waiting: for its next attempt. asking: for what
 * the other side knows. unknown: for a person. settled: the code knows.
 */
export class StepCall {
  readonly id: string;
  readonly definition: StepDefinition;
  readonly promise: Promise<unknown>;
  state: "starting" | "running" | "waiting" | "asking" | "unknown" | "settled" = "waiting";
  /** When the next attempt, or the next question to the other side, is due. */
  dueAt: number | undefined;
  /** Why its outcome is unknown. */
  doubt: string | undefined;
  attempt = 0;
  readonly #execution: Execution;
  readonly #input: () => readonly unknown[];
  readonly #fingerprint: string;
  #failures = 0;
  /** The last thing that was thrown, encoded. */
  #failure = "";
  #crashes = 0;
  /** An attempt before this one may have written to streams. */
  #mayHaveWritten = false;
  #startedAt = 0;
  #body: StepBody | undefined;
  /** Its verdict is being written, in its own transaction. */
  #writing = false;
  #resolve: (value: unknown) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(execution: Execution, definition: StepDefinition, id: string, input: () => readonly unknown[], fingerprint: string) {
    this.#execution = execution;
    this.definition = definition;
    this.id = id;
    this.#input = input;
    this.#fingerprint = fingerprint;
    this.promise = new Promise((resolve, reject) => {
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
    this.#start(1, at);
  }

  /** After a replay: goes on where the last owner stopped. */
  resume(log: readonly Event[]): void {
    if (this.state === "settled") return;
    this.#mayHaveWritten = true;
    for (const event of log as readonly EventOf<"step" | "done" | "fail" | "doubt">[]) {
      const [type, , at, attempt] = event;
      if (type === "step" && attempt > 0) {
        if (this.state === "running") this.#crashes += 1;
        this.state = "running";
        this.attempt = attempt;
        this.#startedAt = at;
      }
      if (type === "fail") this.#noteFailure((event as EventOf<"fail">)[4]);
      if (type === "fail" || type === "doubt") this.state = "waiting";
    }
    const last = log.at(-1);
    if (last?.[0] === "step" && last[3] === 0) this.#startNext();
    else if (last?.[0] === "step") this.#takeOver();
    else if (last?.[0] === "fail") this.#waitUntil(last[5] ?? this.#execution.now());
    else if (last?.[0] === "doubt") this.#inDoubt(last[4], false);
  }

  /** Its time has come: the next attempt, or the question whether the last one happened. */
  due(): void {
    this.dueAt = undefined;
    if (this.state === "asking" || this.#mayHaveHappened()) void this.#ask();
    else this.#startNext();
  }

  /** A delivery: the code learns how it ended. */
  settle(event: Event): void {
    this.state = "settled";
    if (event[0] === "done") return this.#resolve(decode(event[4]));
    if (event[0] !== "fail") return;
    // Nobody may have awaited it yet; whoever awaits it later still hears of it.
    this.promise.catch(() => {});
    this.#reject(decodeError(event[4]));
  }

  /** What a person says about the attempt in doubt. Nothing when they mean another one. */
  resolve(attempt: number, to: { readonly done: string } | { readonly fail: string } | "notApplied"): void {
    if (this.state !== "unknown" || attempt !== this.attempt) return;
    if (to === "notApplied") this.#startNext();
    else if ("done" in to) this.#deliver("done", to.done, "resolved");
    else this.#deliver("fail", to.fail, "resolved");
  }

  /** The run ends without it, or is somebody else's: whoever is still at it should stop. */
  abort(reason: unknown): void {
    this.#body?.abort(reason);
  }

  /** The run ends before the body could begin. An entry that says it did is on its way when it was written. */
  withdraw(written: boolean): void {
    this.state = "settled";
    if (written) this.#leaveBehind("the run ended before it could begin");
  }

  /** The run is handed back before the body could begin. */
  withhold(): void {
    this.state = "waiting";
    this.dueAt = undefined;
  }

  /** Its grace is over and it did not stop: the run ends without its verdict. */
  abandon(): void {
    if (this.state !== "running" || this.#writing) return;
    this.#body?.seal();
    this.state = "settled";
    this.#leaveBehind("still running when the run ended; its outcome was not awaited");
  }

  #leaveBehind(why: string): void {
    const error = kept(new Error(why));
    this.#execution.record(["fail", this.id, this.#execution.now(), this.attempt, error, null, "abandoned"]);
  }

  #startNext(): void {
    const at = this.#execution.now();
    const attempt = this.attempt + 1;
    this.#execution.record(["step", this.id, at, attempt, this.#fingerprint]);
    this.#start(attempt, at);
  }

  /** The body runs when the entry that says so is committed: the evidence comes before the effect. */
  #start(attempt: number, at: number): void {
    this.attempt = attempt;
    this.#startedAt = at;
    this.dueAt = undefined;
    this.state = "starting";
    this.#execution.draft.afterCommit(this.#run);
  }

  readonly #run = (): void => {
    // The run has ended while its entry was written.
    if (this.state !== "starting") return;
    this.state = "running";
    this.#body = new StepBody(this.#execution, this.definition, this.id, this.attempt, this.#startedAt);
    if (this.definition.tx) void this.#runInTransaction(this.#body);
    else void this.#body.run(this.#input).then(this.#onOutcome);
  };

  readonly #onOutcome = (outcome: BodyOutcome): void => {
    if (this.#execution.gone || this.state !== "running") return;
    if (!outcome.ok) this.#failed(outcome.error, outcome.how);
    else this.#succeeded(outcome);
  };

  #succeeded(outcome: EncodedResult, how?: How): void {
    if ("text" in outcome) this.#deliver("done", outcome.text, how);
    else this.#deliver("fail", kept(this.#notKept(outcome.notKept)), how);
  }

  /** The effect has happened; running it again would not make its result any more storable. */
  #notKept({ message }: Error): FatalError {
    return new FatalError(`step "${this.definition.name}" succeeded, but its result cannot be journaled: ${message}`);
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
    const event = ["fail", this.id, now, this.attempt, this.#failure, retryAt, ...(how ? [how] : [])];
    this.#execution.record(event as unknown as Event);
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
    this.#crashes += 1;
    const { name } = this.definition;
    const options = this.definition.options();
    if (this.#crashes > options.crashMax) {
      const error = new FatalError(`the process died ${this.#crashes} times while step "${name}" ran, and crashMax is ${options.crashMax}`);
      return this.#deliver("fail", kept(error), "crashed");
    }
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
      const ask = () => reconcile?.({ stepId, attempt, input: this.#input() as never[] });
      const { host, id: runId } = this.#execution;
      verdict = await runOutside(() => host.ask({ step: this.definition.name, runId, attempt }, ask));
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
    if (record) this.#execution.record(["doubt", this.id, this.#execution.now(), this.attempt, why]);
  }

  #deliver(type: "done" | "fail", text: string, how?: How): void {
    const { id, attempt } = this;
    const at = this.#execution.now();
    const rest = how ? [how] : [];
    // What ends a stream counts only when the body itself has come to its end.
    const ends = this.state === "running" && this.#body?.hasWritten ? this.#body.writer.ends : [];
    const voids = attempt > 1 && this.#mayHaveWritten ? [{ writer: id, attempt }] : [];
    const event = type === "done" ? ["done", id, at, attempt, text, ...rest] : ["fail", id, at, attempt, text, null, ...rest];
    this.#body = undefined;
    this.state = "waiting";
    this.#execution.deliveries.add(event as unknown as Event, undefined, ends.length + voids.length > 0 ? { ends, voids } : undefined);
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
      text = await this.#encoded(await body.runInTransaction(tx, this.#input()));
      mustRun();
      this.#writing = true;
      await journal(["done", this.id, this.#execution.now(), this.attempt, text]);
    });
    this.#writing = false;
    if (this.#execution.gone) return;
    if (!written.ok) return this.#onOutcome(written);
    this.#body = undefined;
    this.state = "settled";
  }
}

/** With its stack: whoever looks at the run, here or elsewhere, sees where it was thrown. */
function kept(error: unknown): string {
  return encodeError(error, { stack: true });
}
