import { ConfigurationError, NotKnownError, StoreRefusedError, UnreachableError } from "../errors/errors.js";
import type { Store } from "../store/store.js";
import { backoffMs, storeBackoff } from "./backoff.js";
import { sleep } from "./clock.js";

/** How long a write that comes before an effect is retried. Nothing has happened yet, so giving up is safe. */
const beforeEffectMsMax = 10_000;
const warnEveryMs = 60_000;

type Write<T> = () => Promise<T>;

export interface BeforeEffect {
  readonly signal?: AbortSignal | undefined;
  /** Returns false when the write is no longer needed. Then the last error is thrown. */
  readonly wanted?: (() => boolean) | undefined;
}

export interface AfterEffect {
  /** Names what is not saved yet, for the warning: `the outcome of key "k"`. */
  readonly what: string;
  readonly signal?: AbortSignal | undefined;
  /** Returns false when the write is no longer needed. Then the last error is thrown. */
  readonly wanted?: (() => boolean) | undefined;
  /** Called after a failed try that will be repeated. */
  readonly failed?: ((error: unknown) => void) | undefined;
}

/**
 * Retries a write that comes before an effect (begin, start, trigger, send) with backoff, for at most 10 s. The same write
 * finds its own success, so it is also retried after a lost reply. A configuration error, a closed store, refused data and a
 * bug are thrown at once.
 */
export function beforeEffect<T>(store: Store, write: Write<T>, { signal, wanted }: BeforeEffect = {}): Promise<T> {
  const until = store.clock.now() + beforeEffectMsMax;
  const goesOn = (error: unknown, delayMs: number) => isPassing(error) && store.clock.now() + delayMs <= until;
  return untilAnswered(store, write, goesOn, signal, wanted);
}

/**
 * Retries a write that records an effect (settle, journal entry, end of a packet) with backoff until it is answered or the store is
 * closed: the effect has happened, so giving up could repeat it. Emits a warning at the first failure and every minute.
 * Refused data and a bug are thrown at once.
 */
export function afterEffect<T>(store: Store, write: Write<T>, { what, signal, wanted, failed }: AfterEffect): Promise<T> {
  let warnAt = Number.NEGATIVE_INFINITY;
  const goesOn = (error: unknown): boolean => {
    if (!(isPassing(error) || isWrongSetUp(error))) return false;
    if (store.clock.now() >= warnAt) {
      warnAt = store.clock.now() + warnEveryMs;
      warnNotSaved(what, error);
    }
    failed?.(error);
    return true;
  };
  return untilAnswered(store, write, goesOn, signal, wanted);
}

async function untilAnswered<T>(
  store: Store,
  write: Write<T>,
  goesOn: (error: unknown, delayMs: number) => boolean,
  signal: AbortSignal | undefined,
  wanted?: () => boolean,
): Promise<T> {
  let doubt: NotKnownError | undefined;
  for (let failures = 1; ; failures++) {
    try {
      return await write();
    } catch (error) {
      if (error instanceof NotKnownError) doubt = error;
      const delayMs = backoffMs(storeBackoff, failures);
      if (store.closed || wanted?.() === false || !goesOn(error, delayMs)) throw withDoubt(error, doubt);
      await sleep(store.clock, delayMs, signal);
      if (wanted?.() === false) throw withDoubt(error, doubt);
    }
  }
}

/** Wraps a write that was already sent once and failed with `error`: the first try fails with that error without being sent. */
export function failedOnce<T>(error: unknown, write: Write<T>): Write<T> {
  let isFirst = true;
  return () => {
    if (!isFirst) return write();
    isFirst = false;
    return Promise.reject(error);
  };
}

/** Whether the same write may succeed later. */
function isPassing(error: unknown): boolean {
  return error instanceof UnreachableError || error instanceof NotKnownError;
}

/** The role, the tables or the file are not as the store needs them. The same write succeeds once a person has fixed that. */
export function isWrongSetUp(error: unknown): boolean {
  return error instanceof ConfigurationError && (error.code === "STORE_NOT_USABLE" || error.code === "MISSING_TABLE");
}

/**
 * After a lost reply, an error that says "nothing was written" may be wrong, so NotKnownError replaces it. Only refused data is
 * certain: a write that was applied earlier is not refused.
 */
function withDoubt(error: unknown, doubt: NotKnownError | undefined): unknown {
  if (doubt === undefined || error === doubt || error instanceof StoreRefusedError) return error;
  return new NotKnownError(`${doubt.message}; the last try failed: ${error instanceof Error ? error.message : String(error)}`, error);
}

function warnNotSaved(what: string, error: unknown): void {
  const why = error instanceof Error ? error.message : String(error);
  process.emitWarning(`[onceflow] ${what} is not saved yet; the write is retried until it succeeds: ${why}`, {
    type: "OnceflowWarning",
    code: "ONCEFLOW_NOT_SAVED",
  });
}
