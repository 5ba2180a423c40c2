import { InvalidInputError } from "../../core/errors/errors.js";
import { inShort } from "../../core/errors/in-short.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { duration, oneOf, type Reconciled } from "../../core/ledger/options.js";
import { type EffectClass, effectClasses } from "../../core/ledger/record.js";

export const crashMaxDefault = 10;

export interface StepOptions<Args extends unknown[] = never[], Result = unknown> {
  /** How often a step that threw is tried **again**. Default 3. */
  readonly maxRetries?: number;
  /** Waiting before a retry: grows from `minMs` by `factor` up to `maxMs`, less up to `jitter` of itself. */
  readonly backoff?: { readonly minMs?: number; readonly maxMs?: number; readonly factor?: number; readonly jitter?: number };
  /** An attempt that takes longer is aborted and counts as failed. */
  readonly timeoutMs?: number;
  /** How long an aborted body may still take before a retry begins, or the run ends without it. Default 1 s. */
  readonly graceMs?: number;
  /** What to do when an attempt died midway. Default "idempotent". */
  readonly effect?: EffectClass;
  /** Asks the other side about an attempt in doubt; goes with `effect: "reconcile"`. */
  readonly reconcile?: (request: StepReconcileRequest<Args>) => Promise<Reconciled<Result>> | Reconciled<Result>;
  /** How long after an attempt began the other side's answer can be trusted. Default: one lease. */
  readonly reconcileAfterMs?: number;
  /**
   * How many deaths of the process in this step are too many: the run is parked then. Only deaths while the process
   * executed no other run count. Default 10. They do not count as retries.
   */
  readonly crashMax?: number;
  /** Names the call by its arguments instead of by its order among the calls of this step. */
  readonly key?: (...args: Args) => string;
}

export const stepOptionNames: OptionNames<StepOptions> = {
  maxRetries: true,
  backoff: true,
  timeoutMs: true,
  graceMs: true,
  effect: true,
  reconcile: true,
  reconcileAfterMs: true,
  crashMax: true,
  key: true,
};

const backoffNames: OptionNames<NonNullable<StepOptions["backoff"]>> = { minMs: true, maxMs: true, factor: true, jitter: true };

/** Only names: what a step was defined with is checked then, and what was assigned to it before a run needs it. */
export function checkOptionNames(name: string, options: object): void {
  const { backoff } = options as StepOptions;
  knownOptions(`step "${name}"`, options, stepOptionNames);
  if (typeof backoff === "object" && backoff !== null) knownOptions(`step "${name}": backoff`, backoff, backoffNames);
}

export interface StepReconcileRequest<Args extends unknown[]> {
  /** What the provider was given as its idempotency key. */
  readonly stepId: string;
  readonly attempt: number;
  readonly input: Args;
}

export interface ResolvedStepOptions {
  readonly maxRetries: number;
  readonly backoff: { readonly minMs: number; readonly maxMs: number; readonly factor: number; readonly jitter: number };
  readonly timeoutMs: number | undefined;
  readonly graceMs: number;
  readonly effect: EffectClass;
  readonly reconcile: StepOptions["reconcile"];
  readonly reconcileAfterMs: number | undefined;
  readonly crashMax: number;
  readonly key: StepOptions["key"];
}

/** `fn.maxRetries` and `fn.options` may be set after the definition; they are read when the step is first called. */
export function memoOptions(resolve: () => ResolvedStepOptions): () => ResolvedStepOptions {
  let memo: ResolvedStepOptions | undefined;
  return () => {
    memo ??= resolve();
    return memo;
  };
}

export function resolveOptions(name: string, options: object): ResolvedStepOptions {
  const { maxRetries = 3, crashMax = crashMaxDefault, graceMs = 1000, effect = "idempotent", ...given } = options as StepOptions;
  const field = (option: string) => `step "${name}": ${option}`;
  for (const [option, value] of Object.entries({ maxRetries, crashMax }))
    if (!Number.isInteger(value) || value < 0)
      throw new InvalidInputError(field(option), `must be a whole number from 0, not ${inShort(value)}`);
  const { timeoutMs, reconcileAfterMs, backoff = {}, reconcile, key } = given;
  for (const [option, value] of Object.entries({ timeoutMs, reconcileAfterMs, graceMs }))
    if (value !== undefined) duration(field(option), value);
  const { minMs = 500, maxMs = 60_000, factor = 2, jitter = 0.5 } = backoff;
  duration(field("backoff.minMs"), minMs);
  duration(field("backoff.maxMs"), maxMs);
  if (!(factor >= 1)) throw new InvalidInputError(field("backoff.factor"), "must be 1 or more");
  if (!(jitter >= 0 && jitter <= 1)) throw new InvalidInputError(field("backoff.jitter"), "must be from 0 to 1");
  oneOf(field("effect"), effect, effectClasses);
  if ((effect === "reconcile") !== (typeof reconcile === "function"))
    throw new InvalidInputError(field("reconcile"), 'must be a function when, and only when, effect is "reconcile"');
  if (key !== undefined && typeof key !== "function")
    throw new InvalidInputError(field("key"), "must be a function of the step's arguments");
  return { maxRetries, backoff: { minMs, maxMs, factor, jitter }, timeoutMs, graceMs, effect, reconcile, reconcileAfterMs, crashMax, key };
}
