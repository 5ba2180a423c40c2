import type { Clock } from "./clock.js";

/** How many times its patience a suspect leaves the others alone after they did not end in time. */
export const busyFactor = 6;

/** Deaths in a row after which work is a suspect: one death is nearly always a deployment or a machine. */
export const suspectDeaths = 2;

/**
 * The work that this process has in hand on one store: any number of handlers side by side, or one suspect and nothing
 * beside it. A suspect was in hand when two processes in a row died, and may be what killed them. If it kills this process
 * too, nothing else dies with it, and the death counts against it.
 *
 * open: handlers begin and end. draining: a suspect waits until the running handlers have ended, and no other begins.
 * alone: the suspect runs. open again: the suspect has ended, or the others did not end in time.
 */
export class InHand {
  static readonly #all = new WeakMap<object, InHand>();
  #running = 0;
  /** Resolves when it is open again. */
  #shut: Promise<void> | undefined;
  #emptied: () => void = () => {};
  #busyUntil = Number.NEGATIVE_INFINITY;

  /** One for all that use the same store in this process. */
  static of(store: object): InHand {
    const known = InHand.#all.get(store) ?? new InHand();
    InHand.#all.set(store, known);
    return known;
  }

  /** False: a suspect is alone, or is about to be. Whoever gets true calls `leave` when its work has ended. */
  enter(): boolean {
    if (this.#shut !== undefined) return false;
    this.#running += 1;
    return true;
  }

  leave(): void {
    this.#running -= 1;
    if (this.#running === 0) this.#emptied();
  }

  /** Undefined: work may enter. Else resolves when it is open again; rejects with the signal's reason. */
  opening(signal?: AbortSignal): Promise<void> | undefined {
    return this.#shut && unlessAborted(this.#shut, signal);
  }

  /** Runs `work` beside others, when no suspect is alone. */
  async beside<Result>(work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    while (!this.enter()) await this.opening(signal);
    try {
      return await work();
    } finally {
      this.leave();
    }
  }

  /** Runs `work` with nothing beside it. Undefined: the other work did not end within `patienceMs`. */
  async alone<Result extends object>(
    { clock, patienceMs, signal }: { readonly clock: Clock; readonly patienceMs: number; readonly signal?: AbortSignal | undefined },
    work: () => Promise<Result>,
  ): Promise<Result | undefined> {
    while (this.#shut !== undefined) await this.opening(signal);
    // Suspects of a busy process, one after the other, must not keep its healthy work waiting.
    if (this.#running > 0 && clock.now() < this.#busyUntil) return undefined;
    let open = () => {};
    this.#shut = new Promise((resolve) => {
      open = resolve;
    });
    try {
      if (await this.#drained(clock, patienceMs)) return await work();
      this.#busyUntil = clock.now() + busyFactor * patienceMs;
      return undefined;
    } finally {
      this.#shut = undefined;
      open();
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
