import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { duration, oneOf } from "../core/ledger/options.js";
import type { FlowContext } from "./context.js";
import { StepAlreadyExistsError } from "./errors.js";

/** The body of a step. The return value is ignored: pass values to later steps with `ctx.set`. */
export type StepFunction<Input> = (ctx: FlowContext<Input>) => unknown;

const backoffs = ["fixed", "linear", "exponential"] as const;
/** How the retry delay grows: `fixed` does not grow, `linear` multiplies by the attempt number, `exponential` doubles. */
export type Backoff = (typeof backoffs)[number];

/** Options of one step of a flow: retries, timeout and compensation. */
export interface StepOptions<Input = unknown> {
  /** Maximum number of retries after a failed attempt. Default 0. */
  readonly retries?: number;
  /** Delay before the first retry. Default 0. */
  readonly retryDelayMs?: number;
  /** How the delay grows with each attempt. Default "fixed". */
  readonly backoffFactor?: Backoff;
  /** Waits a random time between zero and the whole delay, so that steps that failed together do not retry together. Default false. */
  readonly jitter?: boolean;
  /** Upper bound of the delay. Default 1 h. */
  readonly maxRetryDelayMs?: number;
  /**
   * How long one attempt may take. After that its signal aborts and the attempt fails with StepTimeoutError. If the body
   * still succeeds within `graceMs` and a retry would follow, the step is completed instead. Default: no limit.
   */
  readonly timeoutMs?: number;
  /** How long a body may take to end after `timeoutMs`. Retries and compensations wait for the body that long. Default 1 s. */
  readonly graceMs?: number;
  /** Undoes the effect of this step if the flow fails or is cancelled later. */
  readonly compensate?: (ctx: FlowContext<Input>) => unknown;
}

/** A step of a parallel stage, see `flow.parallel`. */
export interface ParallelStep<Input = unknown> {
  readonly name: string;
  readonly fn: StepFunction<Input>;
  readonly options?: StepOptions<Input>;
}

/** Options of a parallel stage. */
export interface ParallelOptions {
  /** True: the first failed step aborts the other steps of the stage and fails the flow. Default false: the flow fails only if all steps of the stage fail. */
  readonly failFast?: boolean;
}

type CheckedOptions = Required<Omit<StepOptions, "timeoutMs" | "compensate">>;

export interface Step {
  readonly name: string;
  readonly fn: StepFunction<unknown>;
  readonly options: CheckedOptions;
  readonly timeoutMs: number | undefined;
  readonly compensate: StepFunction<unknown> | undefined;
}

/** One stage of a flow: a single step, or a group of steps that run in parallel. Stages run in sequence. */
export type Stage = { readonly step: Step } | { readonly group: string; readonly steps: readonly Step[]; readonly failFast: boolean };

const stepOptions: OptionNames<StepOptions> = {
  ...{ retries: true, retryDelayMs: true, backoffFactor: true, jitter: true, maxRetryDelayMs: true, timeoutMs: true, graceMs: true },
  compensate: true,
};
const retriesMax = 10_000;
const hourMs = 3_600_000;
const nameCharsMax = 256;

/** The stages of a flow. Each stage is validated when it is added. */
export class Definition {
  readonly stages: Stage[] = [];
  readonly #flow: string;
  readonly #names = new Set<string>();

  constructor(flow: string) {
    this.#flow = flow;
  }

  step(name: string, fn: StepFunction<never>, options?: StepOptions<never>): void {
    const step = this.#checkStep(`step "${String(name)}"`, name, fn, options);
    this.#reserveNames([name]);
    this.stages.push({ step });
  }

  parallel(name: string, members: readonly ParallelStep<never>[], { failFast = false }: ParallelOptions): void {
    checkStepName(`parallel "${String(name)}"`, name);
    if (!Array.isArray(members) || members.length === 0)
      throw new InvalidInputError(`parallel "${name}"`, "needs an array of at least one { name, fn }");
    if (typeof failFast !== "boolean") throw new InvalidInputError(`parallel "${name}": failFast`, "must be true or false");
    const steps = members.map((each, i) => this.#checkStep(`parallel "${name}", step ${i}`, each?.name, each?.fn, each?.options));
    this.#reserveNames([name, ...steps.map((step) => step.name)]);
    this.stages.push({ group: name, steps, failFast });
  }

  /** Reserves all names or none, so that a rejected stage leaves the flow unchanged. */
  #reserveNames(names: readonly string[]): void {
    const seen = new Set<string>();
    for (const name of names) {
      if (this.#names.has(name) || seen.has(name)) throw new StepAlreadyExistsError(this.#flow, name);
      seen.add(name);
    }
    for (const name of names) this.#names.add(name);
  }

  #checkStep(where: string, name: unknown, fn: unknown, options: unknown = {}): Step {
    checkStepName(where, name);
    if (typeof fn !== "function") throw new InvalidInputError(`${where}: fn`, "must be a function");
    if (typeof options !== "object" || options === null) throw new InvalidInputError(`${where}: options`, "must be an object");
    knownOptions(where, options, stepOptions);
    const {
      retries = 0,
      retryDelayMs = 0,
      backoffFactor = "fixed",
      jitter = false,
      maxRetryDelayMs = hourMs,
      graceMs = 1000,
      timeoutMs,
      compensate,
    } = options as StepOptions;
    if (!Number.isInteger(retries) || retries < 0 || retries > retriesMax)
      throw new InvalidInputError(`${where}: retries`, `must be a whole number from 0 to ${retriesMax}, not ${String(retries)}`);

    for (const [option, value] of Object.entries({ retryDelayMs, maxRetryDelayMs, graceMs })) duration(`${where}: ${option}`, value);
    if (timeoutMs !== undefined) duration(`${where}: timeoutMs`, timeoutMs, 1);
    oneOf(`${where}: backoffFactor`, backoffFactor, backoffs);
    if (typeof jitter !== "boolean") throw new InvalidInputError(`${where}: jitter`, "must be true or false");
    if (compensate !== undefined && typeof compensate !== "function")
      throw new InvalidInputError(`${where}: compensate`, "must be a function");
    const checked = { retries, retryDelayMs, backoffFactor, jitter, maxRetryDelayMs, graceMs };
    return { name: name as string, fn: fn as StepFunction<unknown>, options: checked, timeoutMs, compensate };
  }
}

function checkStepName(where: string, name: unknown): void {
  if (typeof name !== "string" || name === "" || name.length > nameCharsMax || /\p{Cc}/u.test(name))
    throw new InvalidInputError(`${where}: name`, `must be a string of 1 to ${nameCharsMax} printable characters`);
}
