import { type Backoff, backoffMs, storeBackoff } from "./backoff.js";
import type { Clock } from "./clock.js";

export interface Poller {
  poll(): Promise<void>;
  /** Called when a poll has failed and will be retried. `failures`: how many in a row. */
  reportFailure(error: unknown, failures: number): void;
  /** Whether the store is closed: a poll that fails then is not retried. */
  isClosed(): boolean;
  /** Called when the loop becomes idle. */
  onIdle?(): void;
}

interface PollLoopOptions {
  /** Delay between a failed poll and the next one. Default: `storeBackoff`. */
  readonly backoff?: Backoff;
  /** The timers do not keep the process alive. Default: false. */
  readonly background?: boolean;
}

/**
 * Decides when a worker polls the store for work: at once after `pollNow`, and at the earliest time that `pollWithin` was called
 * for. One poll at a time.
 *
 *   idle      waits for a request or for its timer
 *   polling   a request during a poll makes another poll follow
 *   retrying  the last poll failed, and the next one follows after a backoff. Requests wait for it, so that a worker that is
 *             woken often does not call a failing store just as often
 *   stopped   permanently
 */
export class PollLoop {
  readonly #clock: Clock;
  readonly #poller: Poller;
  readonly #backoff: Backoff;
  readonly #background: boolean;
  #isPolling = false;
  #polling: Promise<void> | undefined;
  #requested = false;
  /** In a row. */
  #failures = 0;
  #cancelRetry: (() => void) | undefined;
  #cancelTimer: () => void = () => {};
  #timerAt = Number.POSITIVE_INFINITY;
  #stopped = false;

  constructor(clock: Clock, poller: Poller, { backoff = storeBackoff, background = false }: PollLoopOptions = {}) {
    this.#clock = clock;
    this.#poller = poller;
    this.#backoff = backoff;
    this.#background = background;
  }

  /** Polling or retrying. */
  get isBusy(): boolean {
    return this.#isPolling || this.#cancelRetry !== undefined;
  }

  pollNow(): void {
    if (this.#stopped) return;
    this.#requested = true;
    if (!this.isBusy) this.#start();
  }

  /** Polls in `ms` at the latest: replaces a later timer, keeps an earlier one. */
  pollWithin(ms: number): void {
    const at = this.#clock.now() + ms;
    if (this.#stopped || at >= this.#timerAt) return;
    this.#cancelTimer();
    this.#timerAt = at;
    this.#cancelTimer = this.#clock.after(
      ms,
      () => {
        this.#timerAt = Number.POSITIVE_INFINITY;
        this.pollNow();
      },
      this.#background,
    );
  }

  /** Stops polling. Resolves when the current poll has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer();
    const wasRetrying = this.#cancelRetry !== undefined;
    this.#cancelRetry?.();
    this.#cancelRetry = undefined;
    if (wasRetrying) this.#poller.onIdle?.();
    await this.#polling;
  }

  #start(): void {
    // Set before the poll begins: the poll itself may request another one, for example by a write that wakes this worker.
    this.#isPolling = true;
    this.#polling = this.#pollWhileRequested().finally(() => {
      this.#isPolling = false;
      if (this.isBusy) return;
      // A request that arrived after the last poll, while its promise settled, saw the loop as polling and did not start it.
      if (this.#requested && !this.#stopped && !this.#poller.isClosed()) this.#start();
      else this.#poller.onIdle?.();
    });
  }

  async #pollWhileRequested(): Promise<void> {
    while (this.#requested && !this.#stopped) {
      this.#requested = false;
      try {
        await this.#poller.poll();
        this.#failures = 0;
      } catch (error) {
        if (!this.#poller.isClosed()) this.#retryLater(error);
        return;
      }
    }
  }

  #retryLater(error: unknown): void {
    this.#failures += 1;
    this.#poller.reportFailure(error, this.#failures);
    if (this.#stopped) return;
    const retry = () => {
      this.#cancelRetry = undefined;
      this.pollNow();
    };
    this.#cancelRetry = this.#clock.after(backoffMs(this.#backoff, this.#failures), retry, this.#background);
  }
}
