import { InvalidInputError } from "../../core/errors/errors.js";
import { inShort } from "../../core/errors/in-short.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { duration, oneOf, type Reconciled } from "../../core/ledger/options.js";
import { type EffectClass, effectClasses } from "../../core/ledger/record.js";

export const crashMaxDefault = 10;

/** Options of a step. */
export interface StepOptions<Args extends unknown[] = never[], Result = unknown> {
  /** Maximum number of retries after a failed attempt. Default 3. */
  readonly maxRetries?: number;
  /**
   * Delay before a retry: starts at `minMs` (default 500), is multiplied by `factor` (default 2) after each attempt up to
   * `maxMs` (default 60 000), and is shortened by a random part of up to `jitter` (0 to 1, default 0.5). Without this option: about 1 s, 15 s and 120 s.
   */
  readonly backoff?: { readonly minMs?: number; readonly maxMs?: number; readonly factor?: number; readonly jitter?: number };
  /** An attempt that takes longer is aborted and counts as failed. Default: no limit. */
  readonly timeoutMs?: number;
  /** How long an aborted body may take to end before a retry starts, or the run ends without it. Default 1 s. */
  readonly graceMs?: number;
  /** The effect class: what to do if a process died during an attempt. Default "idempotent". */
  readonly effect?: EffectClass;
  /** Asks the provider whether the effect of an interrupted attempt happened. Required with, and only with, `effect: "reconcile"`. */
  readonly reconcile?: (request: StepReconcileRequest<Args>) => Promise<Reconciled<Result>> | Reconciled<Result>;
  /** How long after the start of an attempt the provider's answer is reliable. Default: one lease. */
  readonly reconcileAfterMs?: number;
  /**
   * Number of process crashes during this step after which the run is parked. Counts only crashes while the process executed
   * no other run; they are not counted as retries. Default 10.
   */
  readonly crashMax?: number;
  /** Derives the name of a call from its arguments. Default: the call's number among the calls of this step. */
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

/** Checks the names of options, not their values. Throws InvalidInputError. */
export function checkOptionNames(name: string, options: object): void {
  const { backoff } = options as StepOptions;
  knownOptions(`step "${name}"`, options, stepOptionNames);
  if (typeof backoff === "object" && backoff !== null) knownOptions(`step "${name}": backoff`, backoff, backoffNames);
}

/** The argument of `reconcile`: the attempt whose outcome is unknown. */
export interface StepReconcileRequest<Args extends unknown[]> {
  /** The idempotency key that the attempt sent to the provider. */
  readonly stepId: string;
  readonly attempt: number;
  readonly input: Args;
}

export interface ResolvedStepOptions {
  readonly maxRetries: number;
  /** Undefined: the default, see default-backoff.ts. */
  readonly backoff: { readonly minMs: number; readonly maxMs: number; readonly factor: number; readonly jitter: number } | undefined;
  readonly timeoutMs: number | undefined;
  readonly graceMs: number;
  readonly effect: EffectClass;
  readonly reconcile: StepOptions["reconcile"];
  readonly reconcileAfterMs: number | undefined;
  readonly crashMax: number;
  readonly key: StepOptions["key"];
}

/** Resolves the options once, at the first call of the step: `fn.maxRetries` and `fn.options` may be set after its definition. */
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
      throw new InvalidInputError(field(option), `must be a whole number of 0 or more, not ${inShort(value)}`);
  const { timeoutMs, reconcileAfterMs, reconcile, key } = given;
  for (const [option, value] of Object.entries({ timeoutMs, reconcileAfterMs, graceMs }))
    if (value !== undefined) duration(field(option), value);
  const { minMs = 500, maxMs = 60_000, factor = 2, jitter = 0.5 } = given.backoff ?? {};
  duration(field("backoff.minMs"), minMs);
  duration(field("backoff.maxMs"), maxMs);
  if (!(factor >= 1)) throw new InvalidInputError(field("backoff.factor"), "must be 1 or more");
  if (!(jitter >= 0 && jitter <= 1)) throw new InvalidInputError(field("backoff.jitter"), "must be from 0 to 1");
  oneOf(field("effect"), effect, effectClasses);
  if ((effect === "reconcile") !== (typeof reconcile === "function"))
    throw new InvalidInputError(field("reconcile"), 'must be a function if effect is "reconcile", and must be omitted otherwise');
  if (key !== undefined && typeof key !== "function")
    throw new InvalidInputError(field("key"), "must be a function of the step's arguments");
  const backoff = given.backoff === undefined ? undefined : { minMs, maxMs, factor, jitter };
  return { maxRetries, backoff, timeoutMs, graceMs, effect, reconcile, reconcileAfterMs, crashMax, key };
}
