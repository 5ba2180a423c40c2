import { thrown } from "../../../core/packets/history.js";
import { backoffMs, type Jitter, jitteredMs } from "../../../core/work/backoff.js";
import { NodeError } from "../../node/node-error.js";
import type { RetryPolicy } from "../../normalise/model.js";

/** An error of a node, as the history keeps it. */
export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly final: boolean;
  /** The other side asks to wait so long (`NodeError.retryAfterMs`). */
  readonly retryAfterMs?: number;
}

export function failureOf(error: unknown): Failure {
  const { code, message } = thrown(error);
  if (!NodeError.is(error)) return { code, message, final: false };
  const { retryAfterMs } = error;
  return { code: error.code, message, final: !error.retryable, ...(retryAfterMs !== undefined && { retryAfterMs }) };
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
  const { retryAfterMs = 0 } = failure;
  return { kind: "retry", delayMs: Math.max(retryDelayMs(policy, failures, random), Math.min(retryAfterMs, retryAfterMsMax)) };
}

/** A server that asks for more is asked again after this time. */
const retryAfterMsMax = 86_400_000;

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
