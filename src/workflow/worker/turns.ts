import type { Clock } from "../../core/work/clock.js";
import type { HostedRun } from "../execute/host.js";

/**
 * Advances the runs that were touched, all in one turn of the event loop: by then every promise that was ready has run, so the
 * code of each run waits, or is over.
 */
export class Turns {
  readonly #clock: Clock;
  readonly #afterTurn: () => void;
  #touched: HostedRun[] = [];
  #isScheduled = false;

  constructor(clock: Clock, afterTurn: () => void) {
    this.#clock = clock;
    this.#afterTurn = afterTurn;
  }

  touch(run: HostedRun): void {
    if (run.touched) return;
    run.touched = true;
    this.#touched.push(run);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#clock.soon(this.#advance);
  }

  readonly #advance = (): void => {
    this.#isScheduled = false;
    const touched = this.#touched;
    this.#touched = [];
    for (const run of touched) {
      run.touched = false;
      run.advance();
    }
    this.#afterTurn();
  };
}
