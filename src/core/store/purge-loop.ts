import type { Clock } from "../work/clock.js";
import { kindOf } from "./store-trouble.js";

const batchMax = 500;

/** What can be over: a name for messages, and the removal of `limit` at most, which returns how many there were. */
export type Purges = Readonly<Record<string, ((limit: number) => Promise<number | undefined>) | undefined>>;

/** The purge that runs by itself. One that fails stops none of the others, and is reported once per cause. */
export class PurgeLoop {
  readonly #clock: Clock;
  readonly #store: string;
  readonly #purges: Purges;
  readonly #reported = new Map<string, Set<string>>();
  #closed = false;
  #cancel: () => void = () => {};

  constructor(clock: Clock, store: string, purges: Purges) {
    this.#clock = clock;
    this.#store = store;
    this.#purges = purges;
  }

  start(everyMs: number): void {
    if (everyMs === 0 || this.#closed) return;
    this.#cancel = this.#clock.after(everyMs, () => void this.#purgeAll().then(() => this.start(everyMs)), true);
  }

  stop(): void {
    this.#closed = true;
    this.#cancel();
  }

  async #purgeAll(): Promise<void> {
    for (const [what, purge] of Object.entries(this.#purges)) {
      try {
        // In bounded batches, one per turn, until nothing is left to remove.
        while (!this.#closed && (await purge?.(batchMax)) === batchMax) await new Promise<void>((go) => this.#clock.soon(go));
        this.#reported.delete(what);
      } catch (error) {
        // Expiry is part of every condition: what is not removed yet is expired all the same.
        if (!this.#closed) this.#report(what, error);
      }
    }
  }

  #report(what: string, error: unknown): void {
    const causes = this.#reported.get(what) ?? new Set();
    const cause = kindOf(error);
    this.#reported.set(what, causes);
    if (causes.has(cause)) return;
    causes.add(cause);
    const why = error instanceof Error ? error.message : String(error);
    process.emitWarning(
      `[onceflow] [${this.#store}] expired ${what} could not be removed: ${why}. The purge is tried again; until it succeeds they take up space`,
      {
        type: "OnceflowWarning",
        code: "ONCEFLOW_PURGE_FAILED",
      },
    );
  }
}
