import { randomUUID } from "node:crypto";
import { InvalidInputError, OnceflowError } from "../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../core/errors/known-options.js";
import { whole } from "../core/ledger/key-ref.js";
import { duration } from "../core/ledger/options.js";
import { backoffMs, type Jitter, jitteredMs } from "../core/work/backoff.js";
import { type Clock, sleep, systemClock } from "../core/work/clock.js";
import { retryAfterMs } from "./retry-after.js";

/** Options of `idempotentFetch`. */
export interface ClientOptions {
  /** Idempotency key of the call. Store it if the call must continue after a restart. Default: a random key, used for all tries. */
  readonly key?: string;
  /** Default "Idempotency-Key". */
  readonly header?: string;
  /** Send the key as a quoted string, as the standard requires. Default false: bare, as most clients do. */
  readonly quoted?: boolean;
  /** Maximum number of tries. Default 5. */
  readonly triesMax?: number;
  /** Time limit of one try. Default 60 s. */
  readonly tryMs?: number;
  /** First delay between tries; it doubles, with jitter. Default 200 ms. */
  readonly backoffMs?: number;
  /** Maximum delay between two tries. If `Retry-After` is longer, the response is returned. Default 60 s. */
  readonly waitMsMax?: number;
  /** Replaces `globalThis.fetch`. */
  readonly fetch?: typeof globalThis.fetch;
  /** Replaces the system clock, in tests. */
  readonly clock?: Clock;
}

const optionNames: OptionNames<ClientOptions> = {
  key: true,
  header: true,
  quoted: true,
  triesMax: true,
  tryMs: true,
  backoffMs: true,
  waitMsMax: true,
  fetch: true,
  clock: true,
};

/** At least half of the delay, so that every client gives an overloaded server a pause. */
const halfJitter: Jitter = { from: 0.5, width: 0.5 };

/**
 * `fetch` with retries under one idempotency key. Retries network errors, 429, 5xx, and 409 with `Retry-After`. Returns the last
 * response; if the last try got none, throws an OnceflowError (`NOT_ANSWERED`) with the key. Throws InvalidInputError for wrong
 * options, and the signal's reason if it aborts.
 *
 * @example
 * const response = await idempotentFetch(url, { method: "POST", body: JSON.stringify(order) }, { key: order.id });
 */
export async function idempotentFetch(
  input: string | URL | Request,
  init: RequestInit = {},
  options: ClientOptions = {},
): Promise<Response> {
  const { triesMax, tryMs, backoffMsMin, waitMsMax, clock, fetch } = checked(options);
  const request = new Request(input, init);
  const key = keyFor(request, options);
  // Read once, so that every try sends the same bytes (a form keeps its boundary). A Blob can be sent again after a redirect; a
  // buffer is detached at the first send in Node 20.
  const body = request.body === null ? null : new Blob([await request.arrayBuffer()]);
  let leaveLast = () => {};
  for (let tries = 1; ; tries++) {
    const { response, error } = await attempt();
    const last = tries === triesMax;
    if (response === undefined && last) throw new NotAnsweredError(key, tries, error);
    if (response !== undefined && (last || !isPassing(response))) return response;
    const askedMs = response && retryAfterMs(response);
    if (response !== undefined && askedMs !== undefined && askedMs > waitMsMax) return response;
    await response?.body?.cancel();
    // No jitter for Retry-After: the server has already spread its clients.
    const delayMs = askedMs ?? jitteredMs(backoffMs({ minMs: backoffMsMin, maxMs: waitMsMax }, tries), halfJitter, Math.random);
    await sleep(clock, delayMs, request.signal);
  }

  async function attempt(): Promise<{ readonly response?: Response; readonly error?: unknown }> {
    request.signal.throwIfAborted();
    const limit = new AbortController();
    const leave = () => limit.abort(request.signal.reason);
    // Stays registered while the response is read; the next try replaces it.
    request.signal.removeEventListener("abort", leaveLast);
    request.signal.addEventListener("abort", leave, { once: true });
    leaveLast = leave;
    const cancel = clock.after(tryMs, () => limit.abort(new Error(`no response within ${tryMs} ms`)), true);
    try {
      return { response: await fetch(request.url, { ...init, ...partsOf(request), body, signal: limit.signal }) };
    } catch (error) {
      request.signal.throwIfAborted();
      return { error };
    } finally {
      // The response has started: reading its body has no time limit.
      cancel();
    }
  }
}

/** No response arrived, and it is unknown whether the request was processed: send it again with the same `key`. */
class NotAnsweredError extends OnceflowError {
  static override readonly kind: string = "NotAnsweredError";
  constructor(key: string, tries: number, cause: unknown) {
    super(`no response after ${tries} tries; it is unknown whether the request was processed. Send it again with the key "${key}".`, {
      code: "NOT_ANSWERED",
      retryable: true,
      key,
      cause,
    });
  }
}

function isPassing(response: Response): boolean {
  const { status } = response;
  return status >= 500 || status === 429 || (status === 409 && response.headers.has("retry-after"));
}

/**
 * The members of a request without its body, which a new Request would consume. Members that only `init` has (Node's
 * `dispatcher`) are passed separately.
 */
function partsOf({ method, headers, redirect, credentials, cache, mode, integrity, keepalive, referrerPolicy }: Request): RequestInit {
  const parts = { method, headers, redirect, credentials, cache, mode, integrity, keepalive, referrerPolicy };
  return parts as RequestInit;
}

function keyFor(request: Request, { key, header = "Idempotency-Key", quoted = false }: ClientOptions): string {
  const given = request.headers.get(header);
  if (given !== null && key !== undefined && given !== key) throw new InvalidInputError("key", `differs from the header ${header}`);
  if (given !== null) return given;
  const text = key ?? randomUUID();
  if (typeof text !== "string" || !/^[\x20-\x7e]+$/.test(text)) throw new InvalidInputError("key", "must be printable ASCII");
  // With spaces, commas or quotes in it, only the quoted form is unambiguous.
  request.headers.set(header, quoted || /[ ,"]/.test(text) ? `"${text.replace(/["\\]/g, "\\$&")}"` : text);
  return text;
}

function checked(options: ClientOptions) {
  knownOptions("idempotentFetch", options, optionNames);
  const { triesMax = 5, tryMs = 60_000, backoffMs: backoffMsMin = 200, waitMsMax = 60_000 } = options;
  const { clock = systemClock, fetch = globalThis.fetch } = options;
  whole("triesMax", triesMax, 1, 1000);
  duration("tryMs", tryMs, 1);
  duration("backoffMs", backoffMsMin);
  duration("waitMsMax", waitMsMax);
  return { triesMax, tryMs, backoffMsMin, waitMsMax, clock, fetch };
}
