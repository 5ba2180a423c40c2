import { backoffMs } from "./backoff.js";
import type { Clock } from "./clock.js";

/** After a suspect has waited without success, no suspect waits again for this many times as long. */
export const busyFactor = 6;

/** A suspect waits for running handlers at most this many times its patience: a handler may hang, and no other may start meanwhile. */
const patienceMax = 8;

/** Crashes in a row after which work is a suspect. One crash is nearly always a deployment or a machine failure. */
export const suspectDeaths = 2;

const aloneDoublingsMax = 16;

/**
 * How long a suspect runs alone in its process: two leases, and twice as long after each further crash. If the process is still
 * alive then, other work may start again, so that a slow handler does not block it.
 */
export function aloneMsOf(leaseMs: number, deaths: number): number {
  return backoffMs({ minMs: 2 * leaseMs, maxMs: leaseMs * 2 ** aloneDoublingsMax }, Math.max(1, deaths - 1));
}

/**
 * The work that this process runs on one store: any number of handlers side by side, or one suspect alone. A suspect is work that was
 * running when two processes in a row crashed, and may have caused it. Run alone, it can crash only itself, and the crash is
 * attributed to it.
 *
 *   open       handlers start and end
 *   draining   a suspect waits until the running handlers have ended; no other handler starts
 *   alone      the suspect runs. Open again when it has ended, or was alone for long enough
 *
 * If the handlers do not end in time, draining ends too, and the suspect does not run.
 */
export class InHand {
  static readonly #all = new WeakMap<object, InHand>();
  #running = 0;
  /** Set while draining or alone; resolves when open again. */
  #shut: Promise<void> | undefined;
  #emptied: () => void = () => {};
  #busyUntil = Number.NEGATIVE_INFINITY;
  /** Suspects in a row that waited without success. The next one waits twice as long. */
  #waitedInVain = 0;

  /** Returns the one instance for a store in this process. */
  static of(store: object): InHand {
    const known = InHand.#all.get(store) ?? new InHand();
    InHand.#all.set(store, known);
    return known;
  }

  /** Whether work may start: no suspect runs alone or waits to. */
  get isOpen(): boolean {
    return this.#shut === undefined;
  }

  /** Counts one more running handler. Returns false if not open. After true, the caller must call `leave` when its work has ended. */
  enter(): boolean {
    if (this.#shut !== undefined) return false;
    this.#running += 1;
    return true;
  }

  /** Counts the suspect itself as running, for callers whose work always ends with `leave`. */
  enterAlone(): void {
    this.#running += 1;
  }

  leave(): void {
    this.#running -= 1;
    if (this.#running === 0) this.#emptied();
  }

  /** Returns undefined if open. Else a promise that resolves when open again, or rejects with the signal's reason. */
  untilOpen(signal?: AbortSignal): Promise<void> | undefined {
    return this.#shut && unlessAborted(this.#shut, signal);
  }

  /** Runs `work` side by side with other handlers, as soon as no suspect is alone. */
  async beside<Result>(work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    while (!this.enter()) await this.untilOpen(signal);
    try {
      return await work();
    } finally {
      this.leave();
    }
  }

  /**
   * Runs `work` alone until it ends or calls `reopen`. Returns undefined without running it if the other handlers did not end within
   * `patienceMs`, or if another suspect has waited without success recently (`busyFactor`). After each such wait the
   * next suspect waits twice as long, so that a suspect gets its turn even if all handlers are slow.
   */
  async alone<Result extends object>(
    { clock, patienceMs, signal }: { readonly clock: Clock; readonly patienceMs: number; readonly signal?: AbortSignal | undefined },
    work: (reopen: () => void) => Promise<Result>,
  ): Promise<Result | undefined> {
    while (this.#shut !== undefined) await this.untilOpen(signal);
    // In a busy process, one suspect after the other must not block healthy work.
    if (this.#running > 0 && clock.now() < this.#busyUntil) return undefined;
    let [resolve, hasReopened] = [() => {}, false];
    this.#shut = new Promise((opened) => {
      resolve = opened;
    });
    const open = () => {
      this.#shut = undefined;
      resolve();
    };
    const reopen = () => {
      if (hasReopened) return;
      hasReopened = true;
      this.#running += 1;
      open();
    };
    try {
      const waitMs = backoffMs({ minMs: patienceMs, maxMs: patienceMs * patienceMax }, this.#waitedInVain + 1);
      if (await this.#drained(clock, waitMs)) {
        this.#waitedInVain = 0;
        return await work(reopen);
      }
      this.#busyUntil = clock.now() + busyFactor * waitMs;
      this.#waitedInVain += 1;
      return undefined;
    } finally {
      if (hasReopened) this.leave();
      else open();
    }
  }

  #drained(clock: Clock, patienceMs: number): Promise<boolean> {
    if (this.#running === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const end = (drained: boolean) => {
        cancel();
        this.#emptied = () => {};
        resolve(drained);
      };
      const cancel = clock.after(patienceMs, () => end(false));
      this.#emptied = () => end(true);
    });
  }
}

function unlessAborted(waiting: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return waiting;
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const aborted = () => reject(signal.reason);
    signal.addEventListener("abort", aborted, { once: true });
    void waiting.then(() => {
      signal.removeEventListener("abort", aborted);
      resolve();
    });
  });
}
