import { ConfigurationError, NotApplied } from "../../core/errors/errors.js";
import { mayRunAgain } from "../../core/ledger/record.js";
import { decodeError } from "../../core/values/stored-error.js";
import { backoffMs, jitteredMs } from "../../core/work/backoff.js";
import { defaultBackoff } from "../define/default-backoff.js";
import { instantOf } from "../define/duration.js";
import { FatalError, RetryableError } from "../define/errors.js";
import type { ResolvedStepOptions } from "../define/step-options.js";

export type FailureVerdict =
  | { readonly kind: "retry"; readonly at: number }
  /** `reconcile` is called at `at` to find out whether the effect happened: before a retry, and before the step fails for good. */
  | { readonly kind: "ask"; readonly at: number }
  | { readonly kind: "final"; readonly error: Error }
  /** The error does not show whether the effect happened. */
  | { readonly kind: "doubt" };

interface FailedAttempt {
  readonly name: string;
  /** Number of failed attempts, including this one. */
  readonly failures: number;
  /** The error, encoded. */
  readonly failure: string;
  readonly options: ResolvedStepOptions;
  /** When the provider's answer about this attempt becomes reliable. */
  readonly answerAt: number;
}

/** Decides what follows from an error of a step body. */
export function judgeFailure(error: unknown, attempt: FailedAttempt, now: number, random: () => number): FailureVerdict {
  const { failures, failure, options, answerAt } = attempt;
  if (options.effect === "atMostOnce" && !(error instanceof NotApplied)) return { kind: "doubt" };
  // The step itself says that it failed for good, so the provider is not asked.
  if (FatalError.is(error)) return { kind: "final", error };
  const final = finalError(error, attempt);
  const asks = mayHaveHappened(options, failure);
  if (final !== undefined && !asks) return { kind: "final", error: final };
  const at = final === undefined ? (askedFor(error, now) ?? now + delayMs(failures, options, random)) : now;
  return asks ? { kind: "ask", at: Math.max(at, answerAt) } : { kind: "retry", at };
}

/** The error that the step rejects with if a retry would not help or is not allowed. */
function finalError(error: unknown, { name, failures, options }: FailedAttempt): FatalError | undefined {
  // For example, the store has no transactions: a retry would fail, too.
  if (error instanceof ConfigurationError) return withFramesOf(error, new FatalError(error.message, { cause: error }));
  return isExhausted(failures, options) ? exhausted(name, failures, error) : undefined;
}

/** Whether the failed attempt may have had its effect: the step can be reconciled, and neither the error nor an operator said that nothing happened. */
export function mayHaveHappened({ effect }: ResolvedStepOptions, failure: string): boolean {
  return effect === "reconcile" && failure !== "" && decodeError(failure).name !== "NotApplied";
}

export function isExhausted(failures: number, { maxRetries }: ResolvedStepOptions): boolean {
  return failures > maxRetries;
}

/** The error of a step whose retries are exhausted. */
export function exhausted(name: string, failures: number, error: unknown): FatalError {
  const why = error instanceof Error ? error.message : String(error);
  const attempts = failures === 1 ? "its only attempt" : `${failures} attempts`;
  return withFramesOf(error, new FatalError(`step "${name}" failed after ${attempts}: ${why}`, { cause: error }));
}

/** Gives the error the stack frames of the step's error: those of this function would not help the reader. */
function withFramesOf(thrown: unknown, error: FatalError): FatalError {
  const stack = thrown instanceof Error && typeof thrown.stack === "string" ? thrown.stack : "";
  const frames = stack.split("\n").filter((line) => line.startsWith("    at "));
  error.stack = [`${error.name}: ${error.message}`, ...frames].join("\n");
  return error;
}

/** The error of a step whose effect has happened but whose result cannot be stored. A retry would not help. */
export function notKeptError(name: string, { message }: Error): FatalError {
  return new FatalError(`step "${name}" succeeded, but its result cannot be journaled: ${message}`);
}

/** The time of `retryAfter`; undefined if the error has none, or it is invalid. */
function askedFor(error: unknown, now: number): number | undefined {
  if (!RetryableError.is(error) || error.retryAfter === undefined) return undefined;
  try {
    return Math.ceil(instantOf("retryAfter", error.retryAfter, now));
  } catch {
    return undefined;
  }
}

/** Whether an attempt whose owner died may be repeated. */
export function mayRepeat({ effect }: ResolvedStepOptions): boolean {
  return mayRunAgain(effect);
}

function delayMs(failures: number, options: ResolvedStepOptions, random: () => number): number {
  const { backoff = defaultBackoff() } = options;
  // `backoff.jitter` is the part of the delay that may be subtracted, so a step never waits longer than the delay.
  return Math.round(jitteredMs(backoffMs(backoff, failures), { from: 1, width: -backoff.jitter }, random));
}
