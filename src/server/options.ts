import { InvalidInputError } from "../core/errors/errors.js";
import { whole } from "../core/ledger/key-ref.js";
import { duration } from "../core/ledger/options.js";

/** Options of `createApp`. */
export interface AppOptions {
  /**
   * Token that clients must send as `Authorization: Bearer …`: 16 or more printable ASCII characters. Without a token only
   * requests to a loopback host are answered.
   */
  readonly token?: string;
  /** Environment variables with the secrets of webhooks. Default: those of the process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Maximum size of a request body. Default 1 MiB. */
  readonly bodyBytesMax?: number;
  /** Maximum time that a request with `?wait=` waits. Default 60 s. */
  readonly waitMsMax?: number;
  /** Maximum number of clients subscribed to /events at the same time. Default 100. */
  readonly listenersMax?: number;
  /** Maximum number of events that wait for a slow client; further events are dropped and counted. Default 1000. */
  readonly eventsMax?: number;
  /** Interval of the comment lines that keep an idle event stream open. Default 15 s. */
  readonly heartbeatMs?: number;
  /** When it aborts, event streams end and waiting requests are answered. */
  readonly signal?: AbortSignal;
  /** Called with unexpected errors, whose details clients do not receive. Default: emits a process warning. */
  readonly onError?: (error: unknown) => void;
}

export interface AppPolicy {
  readonly token: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly bodyBytesMax: number;
  readonly waitMsMax: number;
  readonly listenersMax: number;
  readonly eventsMax: number;
  readonly heartbeatMs: number;
  readonly signal: AbortSignal;
  readonly onError: (error: unknown) => void;
}

const tokenCharsMin = 16;

export function checkAppOptions(options: AppOptions): AppPolicy {
  const { token, bodyBytesMax = 1024 * 1024, waitMsMax = 60_000, listenersMax = 100, eventsMax = 1000, heartbeatMs = 15_000 } = options;
  const { signal = new AbortController().signal, onError = warnOfError, env = process.env } = options;
  if (token !== undefined) checkToken(token);
  whole("bodyBytesMax", bodyBytesMax, 1, 1024 * 1024 * 1024);
  whole("listenersMax", listenersMax, 0, 100_000);
  whole("eventsMax", eventsMax, 1, 1_000_000);
  duration("waitMsMax", waitMsMax);
  duration("heartbeatMs", heartbeatMs, 10);
  return { token, env, bodyBytesMax, waitMsMax, listenersMax, eventsMax, heartbeatMs, signal, onError };
}

/** The error message must not contain the token. */
export function checkToken(token: unknown): asserts token is string {
  if (typeof token === "string" && token.length >= tokenCharsMin && /^[\x21-\x7e]+$/.test(token)) return;
  throw new InvalidInputError("token", `must be ${tokenCharsMin} or more printable ASCII characters without spaces`);
}

export function warnOfError(error: unknown): void {
  const what = error instanceof Error ? error.message : String(error);
  process.emitWarning(`[onceflow] a request failed with an unexpected error: ${what}`, {
    type: "OnceflowWarning",
    code: "ONCEFLOW_SERVER_ERROR",
  });
}
