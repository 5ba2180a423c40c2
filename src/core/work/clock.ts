/**
 * Time as one process sees it: what leases, waits and back-offs are measured with locally. Whether a
 * lease has lapsed is decided on the store's clock, never on this one. The simulator brings its own.
 */
export interface Clock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Calls `fn` once everything that is ready now has run: no timer, no added latency. */
  soon(fn: () => void): void;
  /** Calls `fn` after `ms`; does not keep the process alive when `background`. Returns how to cancel it. */
  after(ms: number, fn: () => void, background?: boolean): () => void;
}

/** Stores count in whole milliseconds, rounded down: a lease may be one shorter there than what was asked for. */
export const storeStepMs = 1;

/** setTimeout fires at once for longer delays than this; nothing of ours needs to sleep longer in one go. */
const delayMsMax = 2_147_483_647;

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
 * Keeps the process alive until the returned function is called, once. A simulated clock has no process of its own. One timer for
 * all: every wait for a run needs it, and a timer for each would cost more than the rest of the wait.
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

/** Resolves after `ms`, or rejects with the signal's reason when that comes first. */
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
