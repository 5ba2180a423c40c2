import { backoffMs, storeBackoff } from "./backoff.js";
import { type Clock, sleep } from "./clock.js";

export interface LookHost {
  look(): Promise<void>;
  /** A look has failed; it is made again. */
  trouble(error: unknown): void;
  /** The store is closed: no use in looking again. */
  closed(): boolean;
  /** None is under way, and none was asked for. */
  rested?(): void;
}

/** When a worker looks for what is due. One look at a time; who asks during one gets another behind it. */
export class Looks {
  readonly #clock: Clock;
  readonly #host: LookHost;
  #under: Promise<void> | undefined;
  #again = false;
  #cancel: () => void = () => {};
  #at = Number.POSITIVE_INFINITY;
  #stopped = false;

  constructor(clock: Clock, host: LookHost) {
    this.#clock = clock;
    this.#host = host;
  }

  now(): void {
    if (this.#stopped) return;
    this.#again = true;
    this.#under ??= this.#whileAsked().finally(() => {
      this.#under = undefined;
      this.#host.rested?.();
    });
  }

  get busy(): boolean {
    return this.#under !== undefined;
  }

  /** At the latest then. */
  later(ms: number): void {
    const at = this.#clock.now() + ms;
    if (this.#stopped || at >= this.#at) return;
    this.#cancel();
    this.#at = at;
    this.#cancel = this.#clock.after(ms, () => {
      this.#at = Number.POSITIVE_INFINITY;
      this.now();
    });
  }

  /** Resolves when the one that is under way has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancel();
    await this.#under;
  }

  async #whileAsked(): Promise<void> {
    for (let failures = 0; this.#again && !this.#stopped; ) {
      this.#again = false;
      try {
        await this.#host.look();
        failures = 0;
      } catch (error) {
        if (this.#host.closed()) return;
        this.#host.trouble(error);
        failures += 1;
        await sleep(this.#clock, backoffMs(storeBackoff, failures));
        this.#again = true;
      }
    }
  }
}
