import { ConfigurationError, NotApplied } from "../../core/errors/errors.js";
import { mayRunAgain } from "../../core/ledger/record.js";
import { decodeError } from "../../core/values/stored-error.js";
import { backoffMs, jitteredMs } from "../../core/work/backoff.js";
import { instantOf } from "../define/duration.js";
import { FatalError, RetryableError } from "../define/errors.js";
import type { ResolvedStepOptions } from "../define/step-options.js";

export type FailureVerdict =
  | { readonly kind: "retry"; readonly at: number }
  /** The other side is asked at `at` whether the effect happened: before another attempt, and before the step fails for good. */
  | { readonly kind: "ask"; readonly at: number }
  | { readonly kind: "final"; readonly error: Error }
  /** Whether the effect happened can't be told from the error. */
  | { readonly kind: "doubt" };

interface FailedAttempt {
  readonly name: string;
  /** With this one. */
  readonly failures: number;
  /** The error, encoded. */
  readonly failure: string;
  readonly options: ResolvedStepOptions;
  /** When what the other side says about this attempt can be trusted. */
  readonly answerAt: number;
}

/** What the throw of a step's body means. */
export function judgeFailure(error: unknown, attempt: FailedAttempt, now: number, random: () => number): FailureVerdict {
  const { failures, failure, options, answerAt } = attempt;
  if (options.effect === "atMostOnce" && !(error instanceof NotApplied)) return { kind: "doubt" };
  // The code says so, and knows better than the other side.
  if (FatalError.is(error)) return { kind: "final", error };
  const final = finalError(error, attempt);
  const asks = mayHaveHappened(options, failure);
  if (final !== undefined && !asks) return { kind: "final", error: final };
  const at = final === undefined ? (askedFor(error, now) ?? now + delayMs(failures, options, random)) : now;
  return asks ? { kind: "ask", at: Math.max(at, answerAt) } : { kind: "retry", at };
}

/** What the step rejects with when another attempt would not help, or is not allowed. */
function finalError(error: unknown, { name, failures, options }: FailedAttempt): FatalError | undefined {
  // No transactions in this store, say: there will be none at the next attempt either.
  if (error instanceof ConfigurationError) return withFramesOf(error, new FatalError(error.message, { cause: error }));
  return isExhausted(failures, options) ? exhausted(name, failures, error) : undefined;
}

/** The step threw `failure`, the other side can be asked, and neither the error nor a person said that nothing happened. */
export function mayHaveHappened({ effect }: ResolvedStepOptions, failure: string): boolean {
  return effect === "reconcile" && failure !== "" && decodeError(failure).name !== "NotApplied";
}

export function isExhausted(failures: number, { maxRetries }: ResolvedStepOptions): boolean {
  return failures > maxRetries;
}

/** What a step that was tried often enough rejects with. */
export function exhausted(name: string, failures: number, error: unknown): FatalError {
  const why = error instanceof Error ? error.message : String(error);
  const attempts = failures === 1 ? "its only attempt" : `${failures} attempts`;
  return withFramesOf(error, new FatalError(`step "${name}" failed after ${attempts}: ${why}`, { cause: error }));
}

/** The place in the step is what a reader of the stack looks for; ours would be the place of this function. */
function withFramesOf(thrown: unknown, error: FatalError): FatalError {
  const stack = thrown instanceof Error && typeof thrown.stack === "string" ? thrown.stack : "";
  const frames = stack.split("\n").filter((line) => line.startsWith("    at "));
  error.stack = [`${error.name}: ${error.message}`, ...frames].join("\n");
  return error;
}

/** The effect has happened; running it again would not make its result any more storable. */
export function notKeptError(name: string, { message }: Error): FatalError {
  return new FatalError(`step "${name}" succeeded, but its result cannot be journaled: ${message}`);
}

/** When the error itself wants to be retried. One that names no time is retried as if it had not. */
function askedFor(error: unknown, now: number): number | undefined {
  if (!RetryableError.is(error) || error.retryAfter === undefined) return undefined;
  try {
    return Math.ceil(instantOf("retryAfter", error.retryAfter, now));
  } catch {
    return undefined;
  }
}

/** Whether an attempt whose owner died may simply be run again. */
export function mayRepeat({ effect }: ResolvedStepOptions): boolean {
  return mayRunAgain(effect);
}

function delayMs(failures: number, { backoff }: ResolvedStepOptions, random: () => number): number {
  // `backoff.jitter` is the part of the delay that may be left out: the delay itself is the longest that a step waits.
  return Math.round(jitteredMs(backoffMs(backoff, failures), { from: 1, width: -backoff.jitter }, random));
}
