import { backoffMs } from "./backoff.js";
import type { Clock } from "./clock.js";

/** After a suspect has waited in vain, no suspect asks again for this many times as long as it waited. */
export const busyFactor = 6;

/** A suspect waits for the others at most this many times its patience: one of them may hang, and nothing else begins meanwhile. */
const patienceMax = 8;

/** Deaths in a row after which work is a suspect: one death is nearly always a deployment or a machine. */
export const suspectDeaths = 2;

const aloneDoublingsMax = 16;

/**
 * How long a suspect has its process to itself: two leases, and twice as long after each further death. A process that is
 * alive then lets others in again, so that a handler that takes long does not keep them waiting.
 */
export function aloneMsOf(leaseMs: number, deaths: number): number {
  return backoffMs({ minMs: 2 * leaseMs, maxMs: leaseMs * 2 ** aloneDoublingsMax }, Math.max(1, deaths - 1));
}

/**
 * The work that this process has in hand on one store: any number of handlers side by side, or one suspect and nothing
 * beside it. A suspect was in hand when two processes in a row died, and may be what killed them. If it kills this process
 * too, nothing else dies with it, and the death counts against it.
 *
 * open: handlers begin and end. draining: a suspect waits until the running handlers have ended, and no other begins.
 * alone: the suspect runs. open again: the suspect has ended, or has been alone long enough, or the others did not end in time.
 */
export class InHand {
  static readonly #all = new WeakMap<object, InHand>();
  #running = 0;
  /** Resolves when it is open again. */
  #shut: Promise<void> | undefined;
  #emptied: () => void = () => {};
  #busyUntil = Number.NEGATIVE_INFINITY;
  /** Suspects in a row that waited in vain for the others. The next one waits twice as long. */
  #waitedInVain = 0;

  /** One for all that use the same store in this process. */
  static of(store: object): InHand {
    const known = InHand.#all.get(store) ?? new InHand();
    InHand.#all.set(store, known);
    return known;
  }

  /** No suspect is alone, or is about to be. */
  get isOpen(): boolean {
    return this.#shut === undefined;
  }

  /** False: a suspect is alone, or is about to be. Whoever gets true calls `leave` when its work has ended. */
  enter(): boolean {
    if (this.#shut !== undefined) return false;
    this.#running += 1;
    return true;
  }

  /** For the suspect itself, where its work ends as that of others does: by `leave`. */
  enterAlone(): void {
    this.#running += 1;
  }

  leave(): void {
    this.#running -= 1;
    if (this.#running === 0) this.#emptied();
  }

  /** Undefined: work may enter. Else resolves when it is open again; rejects with the signal's reason. */
  untilOpen(signal?: AbortSignal): Promise<void> | undefined {
    return this.#shut && unlessAborted(this.#shut, signal);
  }

  /** Runs `work` beside others, when no suspect is alone. */
  async beside<Result>(work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    while (!this.enter()) await this.untilOpen(signal);
    try {
      return await work();
    } finally {
      this.leave();
    }
  }

  /**
   * Runs `work` with nothing beside it until it ends, or calls `reopen`. Undefined: the other work did not end within
   * `patienceMs`, or another suspect has waited in vain a short while ago (`busyFactor`). After a vain wait the
   * next suspect waits twice as long, so that one of them gets its turn where all work takes long.
   */
  async alone<Result extends object>(
    { clock, patienceMs, signal }: { readonly clock: Clock; readonly patienceMs: number; readonly signal?: AbortSignal | undefined },
    work: (reopen: () => void) => Promise<Result>,
  ): Promise<Result | undefined> {
    while (this.#shut !== undefined) await this.untilOpen(signal);
    // Suspects of a busy process, one after the other, must not keep its healthy work waiting.
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
