import { InvalidInputError, StoreRefusedError } from "../core/errors/errors.js";
import { BoundedCall } from "../core/work/bounded-call.js";
import { type Clock, sleep } from "../core/work/clock.js";
import { FlowContext, type Shared } from "./context.js";
import type { Stage, Step } from "./definition.js";
import { StepTimeoutError } from "./errors.js";
import type { EmitEvent, FlowPlugin, NewEvent } from "./event.js";
import type { Failure, Progress } from "./progress.js";
import type { CompensationResult, FlowResult, StepResult } from "./result.js";
import { retryDelayMs } from "./retry-delay.js";

export interface ExecutionOptions {
  readonly name: string;
  readonly stages: readonly Stage[];
  readonly shared: Shared;
  /** Progress of earlier attempts. */
  readonly from: Omit<Progress, "input"> | undefined;
  readonly emit: EmitEvent;
  readonly around: FlowPlugin["around"];
  /** Signal of the caller: cancels the run. */
  readonly signal: AbortSignal | undefined;
  readonly ledger: Ledger | undefined;
  readonly clock: Clock;
  readonly random: () => number;
}

/** Where a keyed run is recorded. */
export interface Ledger {
  /** Aborts when another process has taken over the run. */
  readonly lost: AbortSignal;
  /** Resolves when the progress is durable; rejects with InvalidInputError if the context cannot be stored. Absent: progress is not kept. */
  readonly save?: (progress: Omit<Progress, "input">) => Promise<void>;
  readonly settle: (result: FlowResult) => Promise<void>;
}

/**
 * One run of a flow: forward through its stages; if a stage fails or the caller cancels, back through the compensations
 * of the completed steps.
 *
 * The next stage starts only when the store has saved the result of the step before. If the process dies earlier, the
 * interrupted step runs again. The failure is stored before the first compensation starts, so that after a crash the run
 * continues to compensate instead of going forward. The outcome of the run is the last write.
 */
export class FlowExecution {
  readonly #options: ExecutionOptions;
  readonly #values: Map<string, unknown>;
  readonly #begunAt: number;
  #steps: StepResult[];
  #failure: Failure | undefined;
  #compensations: CompensationResult[];
  /** Event of the last step or compensation. Its result is saved by the write of the outcome, so the event is emitted after that. */
  #lastEvent: NewEvent | undefined;

  constructor(options: ExecutionOptions) {
    const { from, clock, shared } = options;
    this.#options = options;
    this.#values = shared.values;
    this.#steps = [...(from?.steps ?? [])];
    this.#failure = from?.failure;
    this.#compensations = [...(from?.compensations ?? [])];
    this.#begunAt = clock.now() - (from?.spentMs ?? 0);
  }

  async run(): Promise<FlowResult> {
    const { emit, ledger, shared, from } = this.#options;
    if (emit) await emit({ type: "flowStart", key: shared.key, resumed: from !== undefined && from.steps.length > 0 });
    if (this.#failure === undefined) await this.#goForward();
    if (this.#failure !== undefined) await this.#goBack();
    const result = this.#result();
    if (ledger) await ledger.settle(result);
    if (emit) {
      if (this.#lastEvent) await emit(this.#lastEvent);
      await emit({ type: result.status === "completed" ? "flowComplete" : "flowFail", result });
    }
    return result;
  }

  // ——— forward

  async #goForward(): Promise<void> {
    const { stages } = this.#options;
    for (const [i, stage] of stages.entries()) {
      const final = i === stages.length - 1;
      if ("steps" in stage) await this.#runGroup(stage, final);
      else if (!this.#isDone(stage.step)) await this.#runAlone(stage.step, final);
      if (this.#failure) return;
    }
    if (this.#isCancelled()) await this.#saveLastStep();
  }

  /** The run was cancelled during its last step: the step is saved separately, because compensations come before the outcome. */
  async #saveLastStep(): Promise<void> {
    const last = this.#lastEvent;
    if (last === undefined) return;
    this.#lastEvent = undefined;
    await this.#saveIfStorable();
    if (this.#options.emit) await this.#options.emit(last);
  }

  async #runAlone(step: Step, final: boolean): Promise<void> {
    if (this.#isCancelled()) return;
    const result = await this.#runStep(step, undefined);
    this.#steps.push(result);
    if (result.status !== "completed") this.#failure = this.#failureOf(result);
    else if (final) this.#lastEvent = this.#completion(result);
    else await this.#saveStep(result);
  }

  async #runGroup({ steps, failFast }: Extract<Stage, { readonly group: string }>, final: boolean): Promise<void> {
    const before = this.#steps.filter(({ name }) => !steps.some((step) => step.name === name));
    const results = new Map(this.#steps.map((result) => [result.name, result]));
    const ordered = () => [...before, ...steps.flatMap(({ name }) => results.get(name) ?? [])];
    if (this.#isCancelled()) return;
    const siblings = failFast ? new AbortController() : undefined;
    let first: StepResult | undefined;
    const runOne = async (step: Step) => {
      const result = await this.#runStep(step, siblings?.signal);
      results.set(step.name, result);
      // A failed step is recorded only when the stage ends: without failFast the flow may continue without it, and after a
      // crash in this stage the step runs again.
      if (result.status === "completed") {
        this.#steps = ordered().filter(({ status }) => status === "completed");
        await this.#saveStep(result);
      } else {
        first ??= result;
        siblings?.abort(result.error);
      }
    };
    // Wait for all steps, also if one fails, before the flow continues or compensates.
    const ended = await Promise.allSettled(steps.filter((step) => !this.#isDone(step)).map(runOne));
    for (const each of ended) if (each.status === "rejected") throw each.reason;
    this.#steps = ordered();
    if (this.#failure || first === undefined) return;
    const allFailed = steps.every(({ name }) => results.get(name)?.status !== "completed");
    const { signal } = this.#options;
    if (failFast || allFailed || signal?.aborted) this.#failure = this.#failureOf(first);
    else if (!final) await this.#save();
  }

  async #runStep(step: Step, siblings: AbortSignal | undefined): Promise<StepResult> {
    const { clock, emit, signal, random } = this.#options;
    const { name } = step;
    const begunAt = clock.now();
    if (emit) await emit({ type: "stepStart", step: name });
    for (let attempt = 1; ; attempt++) {
      let error: unknown;
      let evidence: Pick<StepResult, "succeededLate"> | undefined;
      try {
        await this.#attempt(step, attempt, siblings);
        return { name, status: "completed", attempts: attempt, durationMs: clock.now() - begunAt };
      } catch (thrown) {
        error = thrown instanceof LateSuccess ? thrown.timeout : thrown;
        if (thrown instanceof LateSuccess) evidence = { succeededLate: true };
      }
      this.#throwIfLost();
      let cancelled = signal?.aborted || siblings?.aborted;
      if (!cancelled && evidence === undefined && attempt <= step.options.retries) {
        const delayMs = retryDelayMs(step.options, attempt, random);
        if (emit) await emit({ type: "stepRetry", step: name, attempt, error, delayMs });
        if (await this.#pause(delayMs, siblings)) continue;
        cancelled = true;
      }
      const durationMs = clock.now() - begunAt;
      if (emit) await emit({ type: "stepFail", step: name, attempts: attempt, durationMs, error });
      return { name, status: cancelled ? "cancelled" : "failed", attempts: attempt, durationMs, ...evidence, error };
    }
  }

  /** True if the time has passed, false if the run or the stage was aborted before. */
  async #pause(ms: number, siblings: AbortSignal | undefined): Promise<boolean> {
    const { clock, signal, ledger } = this.#options;
    const signals = definedSignals(signal, siblings, ledger?.lost);
    if (ms === 0) return !signals.some((each) => each.aborted);
    try {
      await sleep(clock, ms, signals.length === 0 ? undefined : signals.length === 1 ? signals[0] : AbortSignal.any(signals));
      return true;
    } catch {
      this.#throwIfLost();
      return false;
    }
  }

  async #attempt(step: Step, attempt: number, siblings: AbortSignal | undefined): Promise<void> {
    const { shared, signal, ledger, around, clock } = this.#options;
    const call = new BoundedCall(() => definedSignals(signal, siblings, ledger?.lost));
    const ctx = new FlowContext(shared, step.name, attempt, () => call.signal());
    const body = around ? () => around(step.name, () => step.fn(ctx)) : () => step.fn(ctx);
    const { name, timeoutMs } = step;
    const startedAt = clock.now();
    if (timeoutMs === undefined) {
      await body();
      return;
    }
    const { graceMs, retries } = step.options;
    const timeoutError = () => new StepTimeoutError(name, timeoutMs);
    // If a retry would follow, a late success completes the step: the retry would repeat an effect that has happened.
    // If no retry follows, the timeout is the outcome.
    const isRetried = () => attempt <= retries && !signal?.aborted && !siblings?.aborted;
    const judgeLateSuccess = (timeout: Error) => (isRetried() ? undefined : new LateSuccess(timeout));
    try {
      await call.bound(clock, { timeoutMs, graceMs, timeoutError, judgeLateSuccess, beganAt: startedAt }, (async () => body())());
    } catch (error) {
      throw error instanceof LateSuccess ? error : (call.abortReason ?? error);
    }
  }

  async #saveStep(result: StepResult): Promise<void> {
    try {
      await this.#save();
    } catch (error) {
      if (!isUnstorable(error)) throw error;
      // The body succeeded, but its context cannot be stored, so the flow could not continue from here after a crash: fail it.
      this.#steps = this.#steps.map((each) => (each === result ? { ...result, status: "failed", error } : each));
      this.#failure ??= { status: "failed", error, also: result.name };
      return;
    }
    if (this.#options.emit) await this.#options.emit(this.#completion(result));
  }

  #completion({ name, attempts, durationMs }: StepResult): NewEvent {
    return { type: "stepComplete", step: name, attempts, durationMs };
  }

  // ——— back

  async #goBack(): Promise<void> {
    const { stages, emit, shared, ledger } = this.#options;
    const all = new Map(stages.flatMap((stage) => ("steps" in stage ? stage.steps : [stage.step])).map((step) => [step.name, step]));
    const undone = new Set(this.#compensations.map(({ name }) => name));
    const todo = this.#steps
      .filter(({ name, status, succeededLate }) => {
        const happened = status === "completed" || succeededLate === true || name === this.#failure?.also;
        return happened && !undone.has(name);
      })
      .map(({ name }) => all.get(name))
      .filter((step) => step?.compensate !== undefined)
      .reverse() as Step[];
    if (todo.length > 0) await this.#saveIfStorable();
    for (const [i, step] of todo.entries()) {
      if (emit) await emit({ type: "compensate", step: step.name });
      // The caller's signal does not abort compensations; only losing the run to another process does.
      const call = new BoundedCall(() => definedSignals(ledger?.lost));
      const ctx = new FlowContext(shared, `${step.name}\nundo`, 1, () => call.signal());
      let failed: { readonly error: unknown } | undefined;
      try {
        await step.compensate?.(ctx);
      } catch (error) {
        failed = { error };
      }
      this.#throwIfLost();
      this.#compensations.push({ name: step.name, status: failed ? "failed" : "completed", ...failed });
      const event: NewEvent = { type: "compensateComplete", step: step.name, ...failed };
      if (i === todo.length - 1) this.#lastEvent = event;
      else {
        await this.#saveIfStorable();
        if (emit) await emit(event);
      }
    }
  }

  /** Saves progress while compensating. Progress that cannot be stored must not stop the remaining compensations. */
  async #saveIfStorable(): Promise<void> {
    try {
      await this.#save();
    } catch (error) {
      if (!isUnstorable(error)) throw error;
    }
  }

  // ——— shared by both directions

  #isDone({ name }: Step): boolean {
    return this.#steps.some((result) => result.name === name);
  }

  #isCancelled(): boolean {
    this.#throwIfLost();
    const { signal } = this.#options;
    if (!signal?.aborted) return false;
    this.#failure = { status: "cancelled", error: signal.reason };
    return true;
  }

  #failureOf({ error }: StepResult): Failure {
    const { signal } = this.#options;
    return signal?.aborted ? { status: "cancelled", error: signal.reason } : { status: "failed", error };
  }

  #throwIfLost(): void {
    const lost = this.#options.ledger?.lost;
    if (lost?.aborted) throw lost.reason;
  }

  async #save(): Promise<void> {
    const save = this.#options.ledger?.save;
    if (save === undefined) return;
    await save({
      values: this.#values,
      steps: this.#steps,
      failure: this.#failure,
      compensations: this.#compensations,
      spentMs: this.#spentMs(),
    });
    this.#throwIfLost();
  }

  #spentMs(): number {
    return this.#options.clock.now() - this.#begunAt;
  }

  #result(): FlowResult {
    const { name } = this.#options;
    const [status, ended] = this.#failure ? [this.#failure.status, { error: this.#failure.error }] : ["completed" as const, {}];
    const undone = this.#compensations.length > 0 ? { compensations: this.#compensations } : {};
    return { name, status, durationMs: this.#spentMs(), steps: this.#steps, ...ended, ...undone };
  }
}

/** The body succeeded after `timeoutMs` but within `graceMs`, and no retry follows: the timeout is the outcome. */
class LateSuccess extends Error {
  readonly timeout: Error;
  constructor(timeout: Error) {
    super(timeout.message);
    this.timeout = timeout;
  }
}

function definedSignals(...signals: readonly (AbortSignal | undefined)[]): AbortSignal[] {
  return signals.filter((signal) => signal !== undefined);
}

function isUnstorable(error: unknown): boolean {
  return error instanceof InvalidInputError || error instanceof StoreRefusedError;
}
