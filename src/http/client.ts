import { randomUUID } from "node:crypto";
import { InvalidInputError, OnceflowError } from "../core/errors/errors.js";
import { whole } from "../core/ledger/key-ref.js";
import { duration } from "../core/ledger/options.js";
import { backoffMs, type Jitter, jitteredMs } from "../core/work/backoff.js";
import { type Clock, sleep, systemClock } from "../core/work/clock.js";
import { retryAfterMs } from "./retry-after.js";

export interface ClientOptions {
  /** Names the logical call. Keep it if you may have to go on after a restart. Default: a new one, which all tries share. */
  readonly key?: string;
  /** Default "Idempotency-Key". */
  readonly header?: string;
  /** Send the key as the standard's quoted string. Default false: bare, as nearly everybody does. */
  readonly quoted?: boolean;
  /** Default 5. */
  readonly triesMax?: number;
  /** How long one try may take. Default 60 s. */
  readonly tryMs?: number;
  /** The first back-off; it doubles, with jitter. Default 200 ms. */
  readonly backoffMs?: number;
  /** The longest wait between two tries. A server that asks for a longer one is answered for now. Default 60 s. */
  readonly waitMsMax?: number;
  readonly fetch?: typeof globalThis.fetch;
  /** For tests. */
  readonly clock?: Clock;
}

/** At least half of the delay, so that a server under load gets its pause from every client. */
const halfJitter: Jitter = { from: 0.5, width: 0.5 };

/**
 * `fetch` for one logical call: one key for all its tries. Network errors, 429, 5xx, and 409 with `Retry-After` are tried
 * again. After the last try: the last response, or an error that says the key.
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
  // Read once: every try sends the same bytes, a form with the same boundary. As a Blob, which can be sent again after a
  // redirect: of a buffer, Node 20 gives the memory away at the first send.
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
    // A server that names a time has counted its other clients: its wish is taken as it is.
    const delayMs = askedMs ?? jitteredMs(backoffMs({ minMs: backoffMsMin, maxMs: waitMsMax }, tries), halfJitter, Math.random);
    await sleep(clock, delayMs, request.signal);
  }

  async function attempt(): Promise<{ readonly response?: Response; readonly error?: unknown }> {
    request.signal.throwIfAborted();
    const limit = new AbortController();
    const leave = () => limit.abort(request.signal.reason);
    // Also while the answer is read. At the next try there is another one to leave.
    request.signal.removeEventListener("abort", leaveLast);
    request.signal.addEventListener("abort", leave, { once: true });
    leaveLast = leave;
    const cancel = clock.after(tryMs, () => limit.abort(new Error(`no answer in ${tryMs} ms`)), true);
    try {
      return { response: await fetch(request.url, { ...init, ...partsOf(request), body, signal: limit.signal }) };
    } catch (error) {
      request.signal.throwIfAborted();
      return { error };
    } finally {
      // The answer has begun: reading it may take as long as it takes.
      cancel();
    }
  }
}

/** No answer was got. Whether the request was worked on is not known: ask again with the same `key`. */
class NotAnsweredError extends OnceflowError {
  static override readonly kind: string = "NotAnsweredError";
  constructor(key: string, tries: number, cause: unknown) {
    super(`no answer in ${tries} tries; whether the request was worked on is not known. Send it again with the key "${key}".`, {
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
 * A new Request of the old one would take its body along. What only `init` has (the `dispatcher` of Node, members of other
 * runtimes) is handed on beside these.
 */
function partsOf({ method, headers, redirect, credentials, cache, mode, integrity, keepalive, referrerPolicy }: Request): RequestInit {
  const parts = { method, headers, redirect, credentials, cache, mode, integrity, keepalive, referrerPolicy };
  return parts as RequestInit;
}

function keyFor(request: Request, { key, header = "Idempotency-Key", quoted = false }: ClientOptions): string {
  const given = request.headers.get(header);
  if (given !== null && key !== undefined && given !== key) throw new InvalidInputError("key", `is not what the header ${header} says`);
  if (given !== null) return given;
  const text = key ?? randomUUID();
  if (typeof text !== "string" || !/^[\x20-\x7e]+$/.test(text)) throw new InvalidInputError("key", "must be printable ASCII");
  // With spaces, commas or quotes in it, only the quoted form is unambiguous.
  request.headers.set(header, quoted || /[ ,"]/.test(text) ? `"${text.replace(/["\\]/g, "\\$&")}"` : text);
  return text;
}

function checked(options: ClientOptions) {
  const { triesMax = 5, tryMs = 60_000, backoffMs: backoffMsMin = 200, waitMsMax = 60_000 } = options;
  const { clock = systemClock, fetch = globalThis.fetch } = options;
  whole("triesMax", triesMax, 1, 1000);
  duration("tryMs", tryMs, 1);
  duration("backoffMs", backoffMsMin);
  duration("waitMsMax", waitMsMax);
  return { triesMax, tryMs, backoffMsMin, waitMsMax, clock, fetch };
}
