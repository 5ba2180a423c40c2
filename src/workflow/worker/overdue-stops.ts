import type { Store } from "../../core/store/store.js";
import { endWithoutCode } from "./end-without-code.js";

const limit = 10;

/**
 * Ends runs that were cancelled, or whose deadline has passed, if no worker has executed their code in time. Every worker of the store looks
 * for them, also one that does not have their workflow.
 */
export class OverdueStops {
  readonly #store: Store;
  #looking: Promise<void> | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Called at each renewal of the worker. A failed look is repeated at the next one. */
  look(): void {
    this.#looking ??= this.#endAll()
      .catch(() => {})
      .finally(() => {
        this.#looking = undefined;
      });
  }

  async #endAll(): Promise<void> {
    for (const id of await this.#store.runs.overdueStops(limit)) await endWithoutCode(this.#store, id);
  }
}
