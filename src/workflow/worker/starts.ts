import type { Departure } from "../journal/writer/departure.js";

/** Outcome of a start: the run is in the store, or the reason why it is not executed here. */
export type StartOutcome = Departure | "created";

interface PendingStart {
  readonly over: Promise<StartOutcome>;
  readonly settle: (outcome: StartOutcome) => void;
}

/** Runs that are being started on this worker and are not in the store yet. */
export class Starts {
  readonly #pending = new Map<string, PendingStart>();

  has(run: string): boolean {
    return this.#pending.has(run);
  }

  /** Resolves when no start of this run is in progress: a second start, which executes nothing, could otherwise create the run first. */
  async over(run: string): Promise<void> {
    await this.#pending.get(run)?.over;
  }

  /** Resolves when the start is settled. */
  begin(run: string): Promise<StartOutcome> {
    let settle: PendingStart["settle"] = () => {};
    const over = new Promise<StartOutcome>((resolve) => {
      settle = resolve;
    });
    this.#pending.set(run, { over, settle });
    return over;
  }

  settle(run: string, outcome: StartOutcome): void {
    const start = this.#pending.get(run);
    this.#pending.delete(run);
    start?.settle(outcome);
  }
}
