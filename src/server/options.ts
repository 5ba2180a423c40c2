import { InvalidInputError } from "../core/errors/errors.js";
import { whole } from "../core/ledger/key-ref.js";
import { duration } from "../core/ledger/options.js";

export interface AppOptions {
  /** Who knows it may ask; sent as `Authorization: Bearer …`. Without one, only requests for a loopback host are answered. */
  readonly token?: string;
  /** Longer bodies are refused. Default 1 MiB. */
  readonly bodyBytesMax?: number;
  /** How long `?wait=` may take. Default 60 s. */
  readonly waitMsMax?: number;
  /** Who listens to /events at once. Default 100. */
  readonly listenersMax?: number;
  /** Events that wait for a slow listener; those beyond are dropped, and counted. Default 1000. */
  readonly eventsMax?: number;
  /** How often a listener hears that the server is still there. Default 15 s. */
  readonly heartbeatMs?: number;
  /** Ends what would go on for ever: event streams, and requests that wait. */
  readonly signal?: AbortSignal;
  /** Told what strangers are not. Default: a warning of the process. */
  readonly onError?: (error: unknown) => void;
}

export interface AppPolicy {
  readonly token: string | undefined;
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
  const { signal = new AbortController().signal, onError = warn } = options;
  if (token !== undefined) checkToken(token);
  whole("bodyBytesMax", bodyBytesMax, 1, 1024 * 1024 * 1024);
  whole("listenersMax", listenersMax, 0, 100_000);
  whole("eventsMax", eventsMax, 1, 1_000_000);
  duration("waitMsMax", waitMsMax);
  duration("heartbeatMs", heartbeatMs, 10);
  return { token, bodyBytesMax, waitMsMax, listenersMax, eventsMax, heartbeatMs, signal, onError };
}

/** The message must not repeat it. */
function checkToken(token: unknown): void {
  if (typeof token === "string" && token.length >= tokenCharsMin && /^[\x21-\x7e]+$/.test(token)) return;
  throw new InvalidInputError("token", `must have ${tokenCharsMin} characters or more, printable ASCII without spaces`);
}

function warn(error: unknown): void {
  const what = error instanceof Error ? error.message : String(error);
  process.emitWarning(`a request could not be answered: ${what}`, { type: "OnceflowWarning", code: "ONCEFLOW_SERVER_ERROR" });
}
