/**
 * The clock of one process: local waits, backoffs and lease renewals use it. Whether a lease has expired is decided on the
 * store's clock, never on this one. Tests can replace it.
 */
export interface Clock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Calls `fn` once all callbacks that are ready now have run, like setImmediate: no timer, no added latency. */
  soon(fn: () => void): void;
  /** Calls `fn` after `ms`. With `background`, the timer does not keep the process alive. Returns a function that cancels it. */
  after(ms: number, fn: () => void, background?: boolean): () => void;
}

/** Stores count in whole milliseconds, rounded down: a lease may be one millisecond shorter there than requested. */
export const storeStepMs = 1;

/** The longest delay of setTimeout, which fires at once for longer ones. Longer waits are cut to this. */
const delayMsMax = 2_147_483_647;

/** The clock of the running process. */
export const systemClock: Clock = {
  now: () => performance.now(),
  soon: (fn) => void setImmediate(fn),
  after(ms, fn, background = false) {
    const timer = setTimeout(fn, Math.min(ms, delayMsMax));
    if (background) timer.unref();
    return () => clearTimeout(timer);
  },
};

let keptAlive = 0;
let aliveTimer: NodeJS.Timeout | undefined;

/**
 * Keeps the process alive until the returned function is called, once. Does nothing for a simulated clock. All callers share one
 * timer: every wait for a run needs it, and a timer for each would cost more than the rest of the wait.
 */
export function keepAlive(clock: Clock): () => void {
  if (clock !== systemClock) return () => {};
  aliveTimer ??= setInterval(() => {}, delayMsMax);
  if (keptAlive === 0) aliveTimer.ref();
  keptAlive += 1;
  return () => {
    keptAlive -= 1;
    if (keptAlive === 0) aliveTimer?.unref();
  };
}

/** Resolves after `ms`, or rejects with the signal's reason if the signal aborts first. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = clock.after(ms, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
