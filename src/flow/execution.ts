import { InvalidInputError, StoreRefusedError } from "../core/errors/errors.js";
import { BoundedCall } from "../core/work/bounded-call.js";
import { type Clock, sleep } from "../core/work/clock.js";
import { FlowContext, type Shared } from "./context.js";
import type { Stage, Step } from "./definition.js";
import { StepTimeoutError } from "./errors.js";
import type { FlowPlugin, NewEvent, Tell } from "./event.js";
import type { Failure, Progress } from "./progress.js";
import type { CompensationResult, FlowResult, StepResult } from "./result.js";
import { retryDelayMs } from "./retry-delay.js";

export interface ExecutionOptions {
  readonly name: string;
  readonly stages: readonly Stage[];
  readonly shared: Shared;
  /** How far earlier attempts got. */
  readonly from: Omit<Progress, "input"> | undefined;
  readonly tell: Tell;
  readonly around: FlowPlugin["around"];
  /** The caller's. */
  readonly signal: AbortSignal | undefined;
  readonly ledger: Ledger | undefined;
  readonly clock: Clock;
  readonly random: () => number;
}

/** Where a keyed run is recorded. */
export interface Ledger {
  /** Aborts when the run is somebody else's. */
  readonly lost: AbortSignal;
  /** Durable when it resolves. Refused with InvalidInputError when the context can't be stored. Absent: progress is not kept. */
  readonly save?: (progress: Omit<Progress, "input">) => Promise<void>;
  readonly settle: (result: FlowResult) => Promise<void>;
}

/**
 * One run of a flow: forward through its stages; when one fails or the caller gives up, back through what was done.
 *
 * A step is done when that is in the store; only then does the next one begin. If we die before, the step that was under
 * way is run again; the failure that turns a run round is stored before anything is undone, so that after a crash nobody
 * goes forward again. The last write is the outcome itself.
 */
export class FlowExecution {
  readonly #options: ExecutionOptions;
  readonly #values: Map<string, unknown>;
  readonly #begunAt: number;
  #steps: StepResult[];
  #failure: Failure | undefined;
  #compensations: CompensationResult[];
  /** What the outcome is written together with, and so is told when that is in the store. */
  #last: NewEvent | undefined;

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
    const { tell, ledger, shared, from } = this.#options;
    if (tell) await tell({ type: "flowStart", key: shared.key, resumed: from !== undefined && from.steps.length > 0 });
    if (this.#failure === undefined) await this.#goForward();
    if (this.#failure !== undefined) await this.#goBack();
    const result = this.#result();
    if (ledger) await ledger.settle(result);
    if (tell) {
      if (this.#last) await tell(this.#last);
      await tell({ type: result.status === "completed" ? "flowComplete" : "flowFail", result });
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

  /** The run was cancelled during its last step: that step is saved and told by itself, because the outcome is another one. */
  async #saveLastStep(): Promise<void> {
    const last = this.#last;
    if (last === undefined) return;
    this.#last = undefined;
    await this.#saveWayBack();
    if (this.#options.tell) await this.#options.tell(last);
  }

  async #runAlone(step: Step, final: boolean): Promise<void> {
    if (this.#isCancelled()) return;
    const result = await this.#runStep(step, undefined);
    this.#steps.push(result);
    if (result.status !== "completed") this.#failure = this.#failureOf(result);
    else if (final) this.#last = this.#completion(result);
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
      // One that failed may yet be forgiven, or run again after a crash: it counts when the stage is over.
      if (result.status === "completed") {
        this.#steps = ordered().filter(({ status }) => status === "completed");
        await this.#saveStep(result);
      } else {
        first ??= result;
        siblings?.abort(result.error);
      }
    };
    // All of them end before anything else happens, whatever becomes of each.
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
    const { clock, tell, signal, random } = this.#options;
    const { name } = step;
    const begunAt = clock.now();
    if (tell) await tell({ type: "stepStart", step: name });
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
        if (tell) await tell({ type: "stepRetry", step: name, attempt, error, delayMs });
        if (await this.#pause(delayMs, siblings)) continue;
        cancelled = true;
      }
      const durationMs = clock.now() - begunAt;
      if (tell) await tell({ type: "stepFail", step: name, attempts: attempt, durationMs, error });
      return { name, status: cancelled ? "cancelled" : "failed", attempts: attempt, durationMs, ...evidence, error };
    }
  }

  /** Whether the time has passed; if not, somebody has given up. */
  async #pause(ms: number, siblings: AbortSignal | undefined): Promise<boolean> {
    const { clock, signal, ledger } = this.#options;
    const ends = present(signal, siblings, ledger?.lost);
    if (ms === 0) return !ends.some((each) => each.aborted);
    try {
      await sleep(clock, ms, ends.length === 0 ? undefined : ends.length === 1 ? ends[0] : AbortSignal.any(ends));
      return true;
    } catch {
      this.#throwIfLost();
      return false;
    }
  }

  async #attempt(step: Step, attempt: number, siblings: AbortSignal | undefined): Promise<void> {
    const { shared, signal, ledger, around, clock } = this.#options;
    const call = new BoundedCall(() => present(signal, siblings, ledger?.lost));
    const ctx = new FlowContext(shared, step.name, attempt, () => call.signal());
    const body = around ? () => around(step.name, () => step.fn(ctx)) : () => step.fn(ctx);
    const { name, timeoutMs } = step;
    const beganAt = clock.now();
    if (timeoutMs === undefined) {
      await body();
      return;
    }
    const { graceMs, retries } = step.options;
    const timeoutError = () => new StepTimeoutError(name, timeoutMs);
    // Another call would repeat an effect that is known to have happened. Where none follows, the timeout is the outcome.
    const isRetried = () => attempt <= retries && !signal?.aborted && !siblings?.aborted;
    const judgeLateSuccess = (timeout: Error) => (isRetried() ? undefined : new LateSuccess(timeout));
    try {
      await call.bound(clock, { timeoutMs, graceMs, timeoutError, judgeLateSuccess, beganAt }, (async () => body())());
    } catch (error) {
      throw error instanceof LateSuccess ? error : (call.abortReason ?? error);
    }
  }

  async #saveStep(result: StepResult): Promise<void> {
    try {
      await this.#save();
    } catch (error) {
      if (!isUnstorable(error)) throw error;
      // Its body is done, and what it left behind can't be kept: the flow can't go on from here.
      this.#steps = this.#steps.map((each) => (each === result ? { ...result, status: "failed", error } : each));
      this.#failure ??= { status: "failed", error, also: result.name };
      return;
    }
    if (this.#options.tell) await this.#options.tell(this.#completion(result));
  }

  #completion({ name, attempts, durationMs }: StepResult): NewEvent {
    return { type: "stepComplete", step: name, attempts, durationMs };
  }

  // ——— back

  async #goBack(): Promise<void> {
    const { stages, tell, shared, ledger } = this.#options;
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
    if (todo.length > 0) await this.#saveWayBack();
    for (const [i, step] of todo.entries()) {
      if (tell) await tell({ type: "compensate", step: step.name });
      // The caller may have given up; undoing goes on. Only the loss of the run ends it.
      const call = new BoundedCall(() => present(ledger?.lost));
      const ctx = new FlowContext(shared, `${step.name}\nundo`, 1, () => call.signal());
      let failed: { readonly error: unknown } | undefined;
      try {
        await step.compensate?.(ctx);
      } catch (error) {
        failed = { error };
      }
      this.#throwIfLost();
      this.#compensations.push({ name: step.name, status: failed ? "failed" : "completed", ...failed });
      const undone: NewEvent = { type: "compensateComplete", step: step.name, ...failed };
      if (i === todo.length - 1) this.#last = undone;
      else {
        await this.#saveWayBack();
        if (tell) await tell(undone);
      }
    }
  }

  /** What can't be stored even so must not keep the rest from being undone. */
  async #saveWayBack(): Promise<void> {
    try {
      await this.#save();
    } catch (error) {
      if (!isUnstorable(error)) throw error;
    }
  }

  // ——— what is common

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

/** The body succeeded after its time, in its grace, and no attempt follows: the timeout is the outcome. */
class LateSuccess extends Error {
  readonly timeout: Error;
  constructor(timeout: Error) {
    super(timeout.message);
    this.timeout = timeout;
  }
}

function present(...signals: readonly (AbortSignal | undefined)[]): AbortSignal[] {
  return signals.filter((signal) => signal !== undefined);
}

function isUnstorable(error: unknown): boolean {
  return error instanceof InvalidInputError || error instanceof StoreRefusedError;
}
