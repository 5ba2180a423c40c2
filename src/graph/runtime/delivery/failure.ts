import { thrown } from "../../../core/packets/history.js";
import { backoffMs, type Jitter, jitteredMs } from "../../../core/work/backoff.js";
import { NodeError } from "../../node/node-error.js";
import type { RetryPolicy } from "../../normalise/model.js";

/** An error of a node, as the history keeps it. */
export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly final: boolean;
}

export function failureOf(error: unknown): Failure {
  const { code, message } = thrown(error);
  return NodeError.is(error) ? { code: error.code, message, final: !error.retryable } : { code, message, final: false };
}

export type Judged = { readonly kind: "retry"; readonly delayMs: number } | { readonly kind: "dead" };

/** Whether another attempt follows a failure. `failures`: number of failed attempts, this one included. */
export function isRetried(
  { code, final }: Pick<Failure, "code" | "final">,
  { maxAttempts, retryOn }: Pick<RetryPolicy, "maxAttempts" | "retryOn">,
  failures: number,
): boolean {
  return !final && failures < maxAttempts && (retryOn === undefined || retryOn.includes(code));
}

/** Retry or dead letter. `failures`: number of failed attempts, this one included; deaths of workers are not counted. */
export function judge(failure: Failure, policy: RetryPolicy, failures: number, random: () => number): Judged {
  if (!isRetried(failure, policy, failures)) return { kind: "dead" };
  return { kind: "retry", delayMs: retryDelayMs(policy, failures, random) };
}

/** Flow documents define jitter as up to a fifth more or less than the delay. */
const documentJitter: Jitter = { from: 0.8, width: 0.4 };

function retryDelayMs(
  { backoff: growth, initialDelayMs: minMs, maxDelayMs: maxMs, jitter }: Omit<RetryPolicy, "maxAttempts" | "retryOn">,
  failures: number,
  random: () => number,
): number {
  const delayMs = backoffMs({ minMs, maxMs, growth }, failures);
  return Math.round(jitter ? jitteredMs(delayMs, documentJitter, random) : delayMs);
}
