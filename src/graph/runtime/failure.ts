import { OnceflowError } from "../../core/errors.js";
import type { RetryPolicy } from "../model.js";
import { NodeError } from "../node/node-error.js";

/** What a node threw, as it is kept: no stack, and of a stranger's error only its message. */
export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly final: boolean;
}

const messageMax = 2000;

export function failureOf(error: unknown): Failure {
  const message = textOf(error).slice(0, messageMax).toWellFormed();
  if (NodeError.is(error)) return { code: error.code, message, final: !error.retryable };
  return { code: error instanceof OnceflowError ? error.code : "ERROR", message, final: false };
}

/** Anything can be thrown, also what has no text. */
function textOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error);
  } catch {
    return `something of type ${typeof error} was thrown, which cannot be told`;
  }
}

export type Judged = { readonly kind: "retry"; readonly delayMs: number } | { readonly kind: "dead" };

/** `failures`: how often it has failed, this time included; deaths of workers are not counted. */
export function judge(
  { code, final }: Failure,
  { maxAttempts, retryOn, ...policy }: RetryPolicy,
  failures: number,
  random: () => number,
): Judged {
  if (final || failures >= maxAttempts || (retryOn !== undefined && !retryOn.includes(code))) return { kind: "dead" };
  return { kind: "retry", delayMs: delayMs(policy, failures, random) };
}

function delayMs(
  { backoff, initialDelayMs, maxDelayMs, jitter }: Omit<RetryPolicy, "maxAttempts" | "retryOn">,
  failures: number,
  random: () => number,
): number {
  const factor = backoff === "fixed" ? 1 : backoff === "linear" ? failures : 2 ** Math.min(failures - 1, 60);
  const whole = Math.min(initialDelayMs * factor, maxDelayMs);
  return Math.round(jitter ? whole * (0.8 + 0.4 * random()) : whole);
}
