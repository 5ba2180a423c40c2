import type { Store } from "../../core/store/store.js";
import type { Departure, RunResult } from "../journal/writer/departure.js";

/** Callers in this process that wait for the end of a run. A run that ends in this process wakes them without a read of the store. */
export class EndBoard {
  static readonly #boards = new WeakMap<Store, EndBoard>();
  readonly #waiting = new Map<string, Set<(end: RunResult | undefined) => void>>();

  static of(store: Store): EndBoard {
    const board = EndBoard.#boards.get(store) ?? new EndBoard();
    EndBoard.#boards.set(store, board);
    return board;
  }

  report(run: string, departure: Departure): void {
    const waiting = this.#waiting.get(run);
    if (waiting === undefined) return;
    this.#waiting.delete(run);
    for (const go of waiting) go(departure.why === "ended" ? departure : undefined);
  }

  /** Resolves when the run leaves this process: with its result, or with undefined if it has not ended. */
  next(run: string): Promise<RunResult | undefined> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(run) ?? new Set();
      this.#waiting.set(run, waiting);
      waiting.add(resolve);
    });
  }
}
