import type { Tx } from "../../core/store/store.js";
import { BoundedCall, type CallLimits } from "../../core/work/bounded-call.js";
import { type RunContext, runIn, type StepContext, type StepMetadata } from "../define/context.js";
import type { StepDefinition } from "../define/definition.js";
import { ContextError } from "../define/errors.js";
import type { How } from "../journal/event.js";
import type { ChunkBuffer } from "../streams/chunk-buffer.js";
import { StepWriter } from "../streams/step-writer.js";
import { drainStreams } from "../streams/stream-result.js";
import { type EncodedResult, type Encoder, encodedResult } from "./encoded-result.js";

export type BodyOutcome = EncodedResult | { readonly ok: false; readonly error: unknown; readonly how?: How };

/** A body that still runs although its attempt already has a verdict. */
export interface LateBody {
  readonly id: string;
  readonly attempt: number;
  readonly definition: StepDefinition;
  readonly outcome: Promise<BodyOutcome>;
  /** True if the journal has its outcome as unknown, false if it has the attempt as abandoned. */
  readonly inDoubt: boolean;
}

export type StepFunction = (...args: readonly unknown[]) => unknown;

/** The run to which a body belongs. */
export interface BodyRun extends RunContext, Encoder {
  /** The stepId of a call. */
  stepIdOf(call: string): string;
  /** The run has left this process: the outcome of the body is ignored. */
  readonly gone: boolean;
  readonly chunks: ChunkBuffer;
  readonly host: {
    /** The function to call for this attempt: that of the step, unless a test mocks it. */
    bodyOf(body: StepBody): StepFunction;
    /** The worker has no room for more runs. */
    crowded(): boolean;
    claimAwaitedRun(run: string): Promise<void>;
  };
}

/** One attempt of a step while its body runs: the context that the body sees. */
export class StepBody implements StepContext {
  readonly kind = "step";
  readonly execution: BodyRun;
  readonly definition: StepDefinition;
  readonly id: string;
  readonly attempt: number;
  /** When the first attempt started. */
  readonly startedAt: number;
  /** Number of runs started in this body so far: the ids of child runs are derived from it. */
  started = 0;
  #writer: StepWriter | undefined;
  #sealed = false;
  #running: Promise<BodyOutcome> | undefined;
  readonly #call = new BoundedCall();

  constructor(execution: BodyRun, definition: StepDefinition, id: string, attempt: number, startedAt: number) {
    this.execution = execution;
    this.definition = definition;
    this.id = id;
    this.attempt = attempt;
    this.startedAt = startedAt;
  }

  get stepId(): string {
    return this.execution.stepIdOf(this.id);
  }

  get metadata(): StepMetadata {
    const { stepId, definition, startedAt, attempt, signal } = this;
    const metadata = { stepId, stepName: definition.name, stepStartedAt: new Date(startedAt), attempt };
    return Object.defineProperty(metadata, "signal", { value: signal }) as StepMetadata;
  }

  get signal(): AbortSignal {
    return this.#call.signal();
  }

  /** Writes chunks of this attempt to streams. */
  get writer(): StepWriter {
    // A flush would wait for the transaction, and the transaction for the flush.
    if (this.definition.tx) throw new ContextError("getWritable()", "a workflow, or a step without a transaction");
    if (this.#writer === undefined) {
      this.#writer = new StepWriter(this);
      if (this.#sealed) this.#writer.seal();
    }
    return this.#writer;
  }

  get hasWritten(): boolean {
    return this.#writer !== undefined;
  }

  /** The attempt has its verdict: later writes to streams are rejected, also the first one. */
  seal(): void {
    this.#sealed = true;
    this.#writer?.seal();
  }

  get aborted(): boolean {
    return this.#call.isAborted;
  }

  abort(reason: unknown): void {
    this.#call.abort(reason);
  }

  async claimAwaitedRun(run: string): Promise<void> {
    const { gone, host } = this.execution;
    // A failed claim is retried with the next poll for the run.
    if (!gone && host.crowded()) await host.claimAwaitedRun(run).catch(() => {});
  }

  /** Runs the body. `input` is called in the context of the step, so that streams in the arguments are read from the store of the run. */
  run(input: () => readonly unknown[]): Promise<BodyOutcome> {
    const { timeoutMs } = this.definition.options();
    const running = this.#settle(input);
    this.#running = running;
    return timeoutMs === undefined ? running : this.#within(timeoutMs, running);
  }

  /** The real outcome of the body, regardless of its timeout. Undefined if the body has ended or never started. */
  get pending(): Promise<BodyOutcome> | undefined {
    return this.#running;
  }

  async #settle(input: () => readonly unknown[]): Promise<BodyOutcome> {
    const { execution } = this;
    try {
      const fn = execution.host.bodyOf(this);
      const returned = await runIn(this, () => fn(...input()));
      const drained = drainStreams(returned, this);
      // Reading a returned Response body is part of the step: it counts towards the timeout, and an error while reading fails the step.
      const encoded = encodedResult(execution, drained instanceof Promise ? await drained : drained);
      const outcome = encoded instanceof Promise ? await encoded : encoded;
      // Chunks are in the store before the result, so that a reader of the result finds them. A body that was abandoned saves
      // no more chunks, and that is not a failure of the body.
      if ((this.#writer || this.attempt > 1) && !this.#sealed) await this.#allSaved();
      return outcome;
    } catch (error) {
      // Chunks must not arrive after the verdict, which may void them.
      await this.#allSaved().catch(() => {});
      return { ok: false, error };
    } finally {
      this.#running = undefined;
      this.seal();
    }
  }

  /** Resolves when the chunks of this attempt are saved, and no chunk of an earlier attempt is in flight. */
  async #allSaved(): Promise<void> {
    await this.#writer?.settled();
    if (this.attempt > 1) await this.execution.chunks.quiet(this.id);
  }

  /**
   * Runs the body with the transaction as its first argument. Errors are thrown, so that the transaction is rolled back. A
   * timeout only aborts the signal: the transaction cannot be rolled back while the body still uses it.
   */
  async runInTransaction(tx: Tx, args: readonly unknown[]): Promise<unknown> {
    const { timeoutMs } = this.definition.options();
    const abort = () => this.abort(this.#timeout(timeoutMs));
    const cancel = timeoutMs === undefined ? () => {} : this.execution.store.clock.after(timeoutMs, abort);
    try {
      const fn = this.execution.host.bodyOf(this);
      return await runIn(this, () => fn(tx, ...args));
    } finally {
      cancel();
    }
  }

  #timeout(timeoutMs: number | undefined): Error {
    const error = new Error(`step "${this.definition.name}" took longer than ${timeoutMs} ms`);
    error.name = "TimeoutError";
    return error;
  }

  /** A success within the grace period counts: the effect has happened, and its result is known. A failure there counts as the timeout. */
  #within(timeoutMs: number, running: Promise<BodyOutcome>): Promise<BodyOutcome> {
    const { graceMs } = this.definition.options();
    const timeout = this.#timeout(timeoutMs);
    const limits: CallLimits<BodyOutcome> = {
      timeoutMs,
      graceMs,
      timeoutError: () => timeout,
      giveUp: () => {
        const error = new Error(`${timeout.message}, and was still running ${graceMs} ms after its signal was aborted`);
        error.name = "TimeoutError";
        this.seal();
        return { ok: false, error, how: "timeout" };
      },
      judgeValue: (outcome) =>
        !outcome.ok && this.#call.abortReason === timeout ? { ok: false, error: timeout, how: "timeout" } : outcome,
    };
    return this.#call.limit(this.execution.store.clock, limits, running);
  }
}
