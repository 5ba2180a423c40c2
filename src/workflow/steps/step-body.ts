import type { Tx } from "../../core/store/store.js";
import { BoundedCall, type CallLimits } from "../../core/work/bounded-call.js";
import { type RunContext, runIn, type StepContext, type StepMetadata } from "../define/context.js";
import type { StepDefinition } from "../define/definition.js";
import { ContextError } from "../define/errors.js";
import type { How } from "../journal/event.js";
import { stepIdOf } from "../journal/identity.js";
import type { ChunkBuffer } from "../streams/chunk-buffer.js";
import { StepWriter } from "../streams/step-writer.js";
import { drainStreams } from "../streams/stream-result.js";
import { type EncodedResult, type Encoder, encodedResult } from "./encoded-result.js";

export type BodyOutcome = EncodedResult | { readonly ok: false; readonly error: unknown; readonly how?: How };

/** A body whose verdict did not wait for it. */
export interface LateBody {
  readonly id: string;
  readonly attempt: number;
  readonly definition: StepDefinition;
  readonly outcome: Promise<BodyOutcome>;
  /** The journal says that its outcome is unknown; else that it was abandoned. */
  readonly inDoubt: boolean;
}

export type StepFunction = (...args: readonly unknown[]) => unknown;

/** The run of a body. */
export interface BodyRun extends RunContext, Encoder {
  /** It has left this process: nothing of the body counts any more. */
  readonly gone: boolean;
  readonly chunks: ChunkBuffer;
  readonly host: {
    /** What is called for this attempt: the step's function, unless a test stands in between. */
    bodyOf(body: StepBody): StepFunction;
    /** The worker has no room for more runs. */
    crowded(): boolean;
    claimAwaitedRun(run: string): Promise<void>;
  };
}

/** One attempt of a step while its body runs, as the body sees it. */
export class StepBody implements StepContext {
  readonly kind = "step";
  readonly execution: BodyRun;
  readonly definition: StepDefinition;
  readonly id: string;
  readonly attempt: number;
  /** When the first attempt began. */
  readonly startedAt: number;
  /** Runs started in this body so far: their ids are derived from it. */
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
    return stepIdOf(this.execution.id, this.id);
  }

  get metadata(): StepMetadata {
    const { stepId, definition, startedAt, attempt, signal } = this;
    const metadata = { stepId, stepName: definition.name, stepStartedAt: new Date(startedAt), attempt };
    return Object.defineProperty(metadata, "signal", { value: signal }) as StepMetadata;
  }

  get signal(): AbortSignal {
    return this.#call.signal();
  }

  /** What this attempt writes to streams. */
  get writer(): StepWriter {
    // Its flush would wait for the transaction, and the transaction for it.
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

  /** Its verdict is there: what it still writes is refused, also when it writes for the first time. */
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
    // A failed claim is tried again with the next poll for the run.
    if (!gone && host.crowded()) await host.claimAwaitedRun(run).catch(() => {});
  }

  /** What it is given is read in its own context: its streams are looked for in its own store. */
  run(input: () => readonly unknown[]): Promise<BodyOutcome> {
    const { timeoutMs } = this.definition.options();
    const running = this.#settle(input);
    this.#running = running;
    return timeoutMs === undefined ? running : this.#within(timeoutMs, running);
  }

  /** How it really ends, whatever its time limit says. Undefined when it has ended, or never began. */
  get pending(): Promise<BodyOutcome> | undefined {
    return this.#running;
  }

  async #settle(input: () => readonly unknown[]): Promise<BodyOutcome> {
    const { execution } = this;
    try {
      const fn = execution.host.bodyOf(this);
      const returned = await runIn(this, () => fn(...input()));
      const drained = drainStreams(returned, this);
      // Reading a body that it returns is part of it: it counts into its time, and when it breaks off the step has failed.
      const encoded = encodedResult(execution, drained instanceof Promise ? await drained : drained);
      const outcome = encoded instanceof Promise ? await encoded : encoded;
      // In the store before the result is: whoever sees the one finds the other.
      // Of a body that was left behind nothing more is saved, and that is no failure of its own.
      if ((this.#writer || this.attempt > 1) && !this.#sealed) await this.#allSaved();
      return outcome;
    } catch (error) {
      // They must not come behind what the verdict does to its streams.
      await this.#allSaved().catch(() => {});
      return { ok: false, error };
    } finally {
      this.#running = undefined;
      this.seal();
    }
  }

  /** Its own chunks; and nothing of an attempt before it is on its way any more. */
  async #allSaved(): Promise<void> {
    await this.#writer?.settled();
    if (this.attempt > 1) await this.execution.chunks.quiet(this.id);
  }

  /**
   * With its transaction as the first argument, and what it throws thrown: the transaction must be rolled back. Its time
   * being over only aborts its signal: nobody can roll back under a body that still uses the transaction.
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

  /** A success within the grace counts: the effect has happened, and its result is known. A failure there is the timeout's. */
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
