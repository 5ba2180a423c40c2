import { InvalidInputError } from "../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../core/errors/known-options.js";
import { currentExecution, currentStep } from "./context.js";
import { callOwnStep } from "./define.js";
import { RetryableError } from "./errors.js";
import type { StepOptions } from "./step-options.js";

/** Options of {@link fetch}, in addition to options of the step. */
export interface FetchOptions extends Pick<StepOptions, "maxRetries" | "backoff" | "timeoutMs" | "graceMs" | "effect"> {
  /** Sends the stepId, which is the same in every retry and replay, as a header: true for `Idempotency-Key`, or the name of the header. */
  readonly idempotencyKey?: boolean | string;
  /** Treats status 409 ("already processed") as success: the response has status 200 and the header `onceflow-status: 409`. */
  readonly conflictIsSuccess?: boolean;
  /** Statuses that are retried, after the delay in `Retry-After` if the response has one. Default: none; only network errors are retried. */
  readonly retryStatuses?: readonly number[];
}

const optionNames: OptionNames<FetchOptions> = {
  maxRetries: true,
  backoff: true,
  timeoutMs: true,
  graceMs: true,
  effect: true,
  idempotencyKey: true,
  conflictIsSuccess: true,
  retryStatuses: true,
};

/**
 * In a workflow, sends a request as a durable step: the response is journaled, and a replay gets the same response.
 * Elsewhere it calls the global `fetch`. Throws InvalidInputError if an option is invalid.
 *
 * @example
 * const response = await fetch(url, { method: "POST", body }, { idempotencyKey: true, conflictIsSuccess: true });
 */
export function fetch(input: string | URL | Request, init?: RequestInit, options: FetchOptions = {}): Promise<Response> {
  const { idempotencyKey, conflictIsSuccess, retryStatuses, ...stepOptions } = options;
  checkOptions(options);
  const checkCall = () => knownOptions("fetch", options, optionNames);
  if (currentExecution() === undefined) {
    checkCall();
    return send(input, init, options);
  }
  // A provider that gets an idempotency key deduplicates requests.
  const effect = idempotencyKey ? { effect: "keyed" as const } : {};
  return callOwnStep({ name: "fetch", options: { ...effect, ...stepOptions }, fn: send, call: fetch, checkCall }, [input, init, options]);
}

async function send(input: string | URL | Request, init: RequestInit | undefined, options: FetchOptions): Promise<Response> {
  const { idempotencyKey, conflictIsSuccess, retryStatuses = [] } = options;
  const step = currentStep();
  const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
  if (idempotencyKey && step) headers.set(idempotencyKey === true ? "Idempotency-Key" : idempotencyKey, step.stepId);
  const signals = [init?.signal, step?.signal].filter((signal) => signal instanceof AbortSignal);
  const response = await globalThis.fetch(input instanceof Request ? input.clone() : input, {
    ...init,
    headers,
    ...(signals.length > 0 ? { signal: AbortSignal.any(signals) } : {}),
  });
  if (conflictIsSuccess && response.status === 409) return processedBefore(response);
  if (retryStatuses.includes(response.status)) throw await retryOf(response);
  return response;
}

/** The provider has already processed an earlier attempt of this request, so the effect has happened. */
function processedBefore(response: Response): Response {
  const headers = new Headers(response.headers);
  headers.set("onceflow-status", "409");
  return new Response(response.body, { status: 200, statusText: "Already processed", headers });
}

async function retryOf(response: Response): Promise<RetryableError> {
  await response.body?.cancel();
  const after = response.headers.get("retry-after");
  const seconds = Number(after);
  const date = after === null ? Number.NaN : Date.parse(after);
  const retryAfter = after !== null && seconds >= 0 ? seconds * 1000 : Number.isNaN(date) ? undefined : new Date(date);
  return new RetryableError(`the server responded with status ${response.status}`, retryAfter === undefined ? {} : { retryAfter });
}

function checkOptions({ idempotencyKey, retryStatuses }: FetchOptions): void {
  if (typeof idempotencyKey === "string" && !/^[\w!#$%&'*+.^`|~-]+$/.test(idempotencyKey))
    throw new InvalidInputError("idempotencyKey", "must be true, or the name of a header");
  if (retryStatuses !== undefined && !(Array.isArray(retryStatuses) && retryStatuses.every((status) => Number.isInteger(status))))
    throw new InvalidInputError("retryStatuses", "must be an array of HTTP statuses");
}
