import type { Clock } from "../work/clock.js";
import { kindOf } from "./store-trouble.js";

const batchMax = 500;

/** By name (for messages): a function that removes at most `limit` expired items and returns how many it removed. */
export type Purges = Readonly<Record<string, ((limit: number) => Promise<number | undefined>) | undefined>>;

/** The store's background purge. A purge that fails does not stop the others, and is reported once per cause. */
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
        // In bounded batches, one per turn of the event loop, until nothing is left to remove.
        while (!this.#closed && (await purge?.(batchMax)) === batchMax) await new Promise<void>((go) => this.#clock.soon(go));
        this.#reported.delete(what);
      } catch (error) {
        // Harmless: every query checks the expiry, so an item that is not removed yet still counts as expired.
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
      `[onceflow] [${this.#store}] expired ${what} could not be removed: ${why}. The purge is retried; until it succeeds they take up space`,
      {
        type: "OnceflowWarning",
        code: "ONCEFLOW_PURGE_FAILED",
      },
    );
  }
}
