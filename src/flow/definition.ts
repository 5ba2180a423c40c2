import { InvalidInputError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { duration, oneOf } from "../core/ledger/options.js";
import type { FlowContext } from "./context.js";
import { StepAlreadyExistsError } from "./errors.js";

/** A step's body. What it returns is ignored; what later steps need goes through `ctx.set`. */
export type StepFunction<Input> = (ctx: FlowContext<Input>) => unknown;

const backoffs = ["fixed", "linear", "exponential"] as const;
export type Backoff = (typeof backoffs)[number];

export interface StepOptions<Input = unknown> {
  /** How often it is tried again after it has thrown. Default 0. */
  readonly retries?: number;
  /** Default 0. */
  readonly retryDelayMs?: number;
  /** How the delay grows: not, with the number of the try, or by doubling. Default "fixed". */
  readonly backoffFactor?: Backoff;
  /** Any time between none and the whole delay, so that many who failed together do not come back together. Default false. */
  readonly jitter?: boolean;
  /** No delay is longer. Default 1 h. */
  readonly maxRetryDelayMs?: number;
  /**
   * How long one attempt may take. Then its signal aborts and the attempt fails with StepTimeoutError. When the body
   * succeeds within `graceMs` and another attempt would follow, the step is completed. Default: no limit.
   */
  readonly timeoutMs?: number;
  /** How long after `timeoutMs` a body has to end. No retry and no compensation begins before that. Default 1 s. */
  readonly graceMs?: number;
  /** Undoes the step when the flow fails after it. */
  readonly compensate?: (ctx: FlowContext<Input>) => unknown;
}

export interface ParallelStep<Input = unknown> {
  readonly name: string;
  readonly fn: StepFunction<Input>;
  readonly options?: StepOptions<Input>;
}

export interface ParallelOptions {
  /** One failure fails the flow, and aborts its siblings. Default false: only when all have failed. */
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

/** What a flow goes through, one after the other. */
export type Stage = { readonly step: Step } | { readonly group: string; readonly steps: readonly Step[]; readonly failFast: boolean };

const stepOptions: OptionNames<StepOptions> = {
  ...{ retries: true, retryDelayMs: true, backoffFactor: true, jitter: true, maxRetryDelayMs: true, timeoutMs: true, graceMs: true },
  compensate: true,
};
const retriesMax = 10_000;
const hourMs = 3_600_000;
const nameCharsMax = 256;

/** The stages of a flow, checked as they are added. */
export class Definition {
  readonly stages: Stage[] = [];
  readonly #flow: string;
  readonly #names = new Set<string>();

  constructor(flow: string) {
    this.#flow = flow;
  }

  step(name: string, fn: StepFunction<never>, options?: StepOptions<never>): void {
    const step = this.#checked(`step "${String(name)}"`, name, fn, options);
    this.#claim([name]);
    this.stages.push({ step });
  }

  parallel(name: string, given: readonly ParallelStep<never>[], { failFast = false }: ParallelOptions): void {
    checkStepName(`parallel "${String(name)}"`, name);
    if (!Array.isArray(given) || given.length === 0)
      throw new InvalidInputError(`parallel "${name}"`, "needs an array of at least one { name, fn }");
    if (typeof failFast !== "boolean") throw new InvalidInputError(`parallel "${name}": failFast`, "must be true or false");
    const steps = given.map((each, i) => this.#checked(`parallel "${name}", step ${i}`, each?.name, each?.fn, each?.options));
    this.#claim([name, ...steps.map((step) => step.name)]);
    this.stages.push({ group: name, steps, failFast });
  }

  /** All of them or none: a flow that refused a stage is as it was. */
  #claim(names: readonly string[]): void {
    const seen = new Set<string>();
    for (const name of names) {
      if (this.#names.has(name) || seen.has(name)) throw new StepAlreadyExistsError(this.#flow, name);
      seen.add(name);
    }
    for (const name of names) this.#names.add(name);
  }

  #checked(where: string, name: unknown, fn: unknown, options: unknown = {}): Step {
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
      ...given
    } = options as StepOptions;
    if (!Number.isInteger(retries) || retries < 0 || retries > retriesMax)
      throw new InvalidInputError(`${where}: retries`, `must be a whole number from 0 to ${retriesMax}, not ${String(retries)}`);
    const { timeoutMs, compensate } = given;
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
    throw new InvalidInputError(`${where}: name`, `must be a printable text of 1 to ${nameCharsMax} characters`);
}
